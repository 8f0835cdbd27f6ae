"""Entries of Where ACLs: what they say of a folder, and of what lies below it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom.engine.restore.target import denied_below, where_verdict

KEYS = r"!/home/[^/]+/\.ssh"


@pytest.mark.parametrize(
    ("entries", "path", "verdict"),
    [
        (["/srv"], "/srv", True),
        (["/srv"], "/srv/a/b", True),
        (["/srv"], "/srvx", None),
        (["/srv/"], "/srv", True),
        (["!/etc", "*all*"], "/etc/ssh", False),
        (["!/etc", "*all*"], "/etcetera", True),
        (["/etc/ssh", "!/etc", "*all*"], "/etc/ssh/keys", True),
        ([KEYS, "*all*"], "/home/x/.ssh", False),
        ([KEYS, "*all*"], "/home/x/.ssh/authorized_keys", False),
        ([KEYS, "*all*"], "/home/x/.ssh/sub/deeper", False),
        ([KEYS, "*all*"], "/home/x", True),
        ([KEYS, "*all*"], "/home/x/y/.ssh", True),
        (["/srv/[a-c]"], "/srv/b", True),
        (["/srv/[a-c]"], "/srv/b/below", None),
        ([], "/srv", None),
    ],
)
def test_what_a_list_says_of_a_folder(entries, path, verdict):
    assert where_verdict(entries, path) is verdict


@pytest.mark.parametrize(
    ("entries", "path", "denied"),
    [
        (["!/etc", "*all*"], "/", "/etc"),
        (["!/etc/", "*all*"], "/", "/etc"),
        (["!/etc", "*all*"], "/srv", ""),
        (["/etc", "!/etc/ssh"], "/etc", ""),
        (["!/etc/ssh", "/etc"], "/etc", "/etc/ssh"),
        (["!/srv/www.example.org", "*all*"], "/srv/data", ""),
        (["!/srv/www.example.org", "*all*"], "/srv", "/srv/www.example.org"),
        (["!/srv/www.example.org", "*all*"], "/srv/www.example.org/a", ""),
        ([KEYS, "*all*"], "/", KEYS[1:]),
        ([KEYS, "*all*"], "/home", KEYS[1:]),
        ([KEYS, "*all*"], "/home/x", KEYS[1:]),
        ([KEYS, "*all*"], "/srv", ""),
        (["/home/x", KEYS], "/home/x", ""),
        (["/srv", "!.*"], "/srv/a", ""),
        (["/srv", "!.*"], "/opt", ".*"),
        (["!/srv/a|/etc", "*all*"], "/etc", "/srv/a|/etc"),
        (["!/srv/a*", "*all*"], "/srv", "/srv/a*"),
        (["!/srv/a*", "*all*"], "/opt", ""),
        (["!/srv/*", "*all*"], "/", "/srv/*"),
    ],
)
def test_what_a_list_denies_below_a_folder(entries, path, denied):
    assert denied_below(entries, path) == denied


SEGMENT = st.sampled_from(["a", "b", "ab", ".ssh", "x.y"])
FOLDER = st.lists(SEGMENT, min_size=1, max_size=3).map(lambda parts: "/" + "/".join(parts))
PART = st.sampled_from(["a", "b", r"\.ssh", "[ab]+", "[^/]+", ".*", "a*", "(a|b)", "x?", "x.y"])
PATTERN = st.lists(PART, min_size=1, max_size=3).map(lambda parts: "/" + "/".join(parts))


@given(PATTERN, FOLDER, st.lists(SEGMENT, max_size=2))
def test_nothing_that_is_denied_lies_in_a_tree_that_is_allowed(pattern, target, below):
    """Anyone who may restore a tree gets no file to where an expression denies it."""
    entries = [f"!{pattern}", "*all*"]
    if where_verdict(entries, target) is True and not denied_below(entries, target):
        place = "/".join([target, *below])
        assert where_verdict(entries, place) is True
        assert not re.fullmatch(pattern, place)
