"""What Console and Profile permissions allow, in the words of the configuration."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom.base.errors import NotPermittedError, UsageError
from strongroom.config.resolve import resolve
from strongroom.config.settings.permissions import PERMISSION_KINDS, PermissionSettings
from strongroom.config.trees.loader import LoadOptions, load_text
from strongroom.director.http.rights import COMMANDS, CallerRights, checked_target

PROFILES = """
Profile { Name = operator
  Command ACL = !reload, *all*
  Job ACL = *all*
  Client ACL = *all*
  Where ACL = "!/etc", *all*
}
Profile { Name = admin
  Job ACL = *all*
  Client ACL = *all*
  Storage ACL = *all*
  Schedule ACL = *all*
  Pool ACL = *all*
  Command ACL = *all*
  FileSet ACL = *all*
  Where ACL = *all*
}
"""


def rights(console: str, profiles: str = PROFILES) -> CallerRights:
    text = f'{profiles}\nConsole {{ Name = someone; Password = "x"; {console} }}'
    loaded = load_text(text, "director", LoadOptions())
    assert not loaded.diagnostics.has_errors, [one.head() for one in loaded.diagnostics.sorted()]
    director = resolve(loaded, whole=False).director
    consoles, profiles_of = (
        {name: PermissionSettings.of(one) for name, one in director.of_type(kind).items()}
        for kind in ("Console", "Profile")
    )
    return CallerRights.of(consoles["someone"], profiles_of)


def quoted(entries: list[str]) -> str:
    return ", ".join(f'"{one}"' for one in entries)


def test_what_no_list_names_is_denied():
    nothing = rights("")
    assert not any(nothing.permits(kind, "anything") for kind in PERMISSION_KINDS)
    assert not any(map(nothing.permits_command, COMMANDS))


@pytest.mark.parametrize(
    ("entries", "name", "allowed"),
    [
        ("nightly", "nightly", True),
        ("nightly", "Nightly", True),
        ("nightly", "nightly2", False),
        ("web.*", "web1", True),
        ("web.*", "my-web1", False),
        ("web[12]", "web3", False),
        ("*all*", "anything", True),
        ("*ALL*", "anything", True),
        ("!web2, web.*", "web2", False),
        ("!web2, web.*", "web1", True),
        ("web.*, !web2", "web2", True),
        ("!*all*, web1", "web1", False),
        ("(alpha|beta)", "beta", True),
        ("(alpha|beta)", "gamma", False),
    ],
)
def test_the_first_entry_that_fits_decides(entries, name, allowed):
    assert rights(f"Job ACL = {entries}").permits("job", name) is allowed


def test_profiles_allow_what_the_console_leaves_open_and_no_more():
    one = rights("Job ACL = !secret; Command ACL = reload; Profile = operator")
    assert one.permits("job", "nightly")
    assert not one.permits("job", "secret")
    assert one.permits_command("reload")
    assert not rights("Profile = operator").permits_command("reload")
    assert not one.permits("fileset", "root")


def test_the_order_of_profiles_counts():
    assert not rights("Profile = operator, admin").permits_command("reload")
    assert rights("Profile = admin, operator").permits_command("reload")


def test_commands_of_bareos_allow_the_same_here():
    reader = rights("Command ACL = list, status, messages")
    assert {action for action in COMMANDS if reader.permits_command(action)} == {
        "status", "clients", "jobs", "runs", "snapshots", "log", "watch", "metrics",
    }  # fmt: skip


def test_a_command_that_is_denied_by_name_is_not_allowed_by_another_name_for_it():
    one = rights("Command ACL = !restore, !browse, *all*")
    assert not one.permits_command("browse")
    assert not one.permits_command("restore")
    assert one.permits_command("run")


@pytest.mark.parametrize(
    ("entries", "target", "allowed"),
    [
        ("/srv/restore", "/srv/restore", True),
        ("/srv/restore", "/srv/restore/web1/x", True),
        ("/srv/restore", "/srv/restore2", False),
        ("/srv/restore", "/SRV/restore", False),
        ("/srv/restore", "", False),
        ("/srv/restore", "/", False),
        ("!/etc, *all*", "/etc", False),
        ("!/etc, *all*", "/etc/ssh", False),
        ("!/etc, *all*", "/srv", True),
        ("/", "", True),
        ("/tmp/.*", "/tmp/x", True),
        ("/tmp/.*", "/var/tmp/x", False),
    ],
)
def test_where_files_may_be_restored_to(entries, target, allowed):
    assert rights(f"Where ACL = {quoted(entries.split(', '))}").permits_where(target) is allowed


def test_without_a_where_acl_files_may_only_go_where_they_were():
    one = rights("Command ACL = restore")
    assert one.permits_where("")
    assert not one.permits_where("/tmp")


@pytest.mark.parametrize(
    ("entries", "target", "paths", "allowed"),
    [
        ("!/etc, *all*", "", [], False),
        ("!/etc, *all*", "", ["/etc"], False),
        ("!/etc, *all*", "", ["/home", "/etc/ssh/x"], False),
        ("!/etc/ssh, *all*", "", ["/etc"], False),
        ("!/etc, *all*", "", ["/home", "/etcetera"], True),
        ("!/srv/a/etc, /srv", "/srv/a", [], False),
        ("!/srv/a/etc, /srv", "/srv/a", ["/etc/ssh"], False),
        ("!/srv/a/etc, /srv", "/srv/a", ["/home"], True),
        ("/srv, !/srv/a/etc", "/srv/a", ["/etc"], True),
        ("*all*", "", [], True),
        ("/srv", "/srv", ["/"], True),
    ],
)
def test_what_is_denied_is_not_restored_along_with_what_is_allowed(entries, target, paths, allowed):
    one = rights(f"Where ACL = {quoted(entries.split(', '))}")
    if allowed:
        one.require_where(target, paths)
    else:
        with pytest.raises(NotPermittedError, match="Where ACL"):
            one.require_where(target, paths)


def test_unlimited_is_who_has_every_list_open():
    assert rights("Profile = admin").is_unlimited
    assert not rights("Profile = operator").is_unlimited
    assert not rights("Job ACL = nightly; Profile = admin").is_unlimited
    assert not rights("").is_unlimited
    assert not CallerRights().is_unlimited
    assert CallerRights(everything=True).is_unlimited


def test_a_limit_never_adds_anything():
    operator = rights("Profile = operator")
    limit = rights("Command ACL = status, reload; Job ACL = nightly")
    both = operator.limited_to(limit)
    assert both.permits_command("status")
    assert not both.permits_command("reload")
    assert not both.permits_command("run")
    assert both.permits("job", "nightly")
    assert not both.permits("client", "web1")
    assert CallerRights(everything=True).limited_to(limit) == limit


NAMES = st.text(st.sampled_from("aAbBwe12.-"), min_size=1, max_size=6)
ENTRIES = st.lists(
    st.one_of(
        NAMES, NAMES.map("!".__add__), st.sampled_from(["*all*", "!*all*", "web.*", "(a|b)+"])
    ),
    min_size=1,
    max_size=4,
)


@given(entries=ENTRIES, limits=ENTRIES, name=NAMES)
def test_two_layers_allow_what_both_allow(entries, limits, name):
    one = rights(f"Job ACL = {quoted(entries)}")
    other = rights(f"Job ACL = {quoted(limits)}")
    both = one.limited_to(other)
    assert both.permits("job", name) == (one.permits("job", name) and other.permits("job", name))


def test_a_denial_says_which_permission_is_missing():
    with pytest.raises(NotPermittedError, match="Job ACL"):
        rights("").require("job", "nightly")
    with pytest.raises(NotPermittedError, match="Command ACL"):
        rights("").require_command("run")


@pytest.mark.parametrize(
    ("target", "checked"),
    [("", ""), ("/", ""), ("/srv//x/./y/", "/srv/x/y"), ("/srv/..x", "/srv/..x")],
)
def test_targets_are_judged_in_their_plain_form(target, checked):
    assert checked_target(target) == checked


@pytest.mark.parametrize("target", ["srv", "/srv/../etc", "..", "/srv/\0", "./x"])
def test_targets_that_could_mean_another_folder_are_refused(target):
    with pytest.raises(UsageError):
        checked_target(target)
