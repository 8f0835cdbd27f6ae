"""An appliance from one answer file: what it makes, once, and what it never replaces."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.made_appliance import MadeAppliance

KILLED = str(Path(__file__).parents[2] / "kit" / "killed_at_rename.py")
SECRETS = ("state/director/passphrase", "state/director/appliance.key", "state/ca/root.key",
           "state/director/identity/key.pem", "state/storage/identity/key.pem",
           "repository/config")  # fmt: skip


@pytest.fixture
def appliance(tmp_path: Path) -> Iterator[MadeAppliance]:
    with MadeAppliance(tmp_path) as made:
        yield made


def contents(appliance: MadeAppliance) -> dict[str, bytes]:
    found = {}
    for name in ("etc", "state", "repository", "home"):
        for path in (appliance.folder / name).rglob("*"):
            if path.is_file():
                found[str(path.relative_to(appliance.folder))] = path.read_bytes()
    return found


def rights(appliance: MadeAppliance) -> dict[str, tuple[int, int]]:
    """Mode and owner of each secret."""
    paths = [str(appliance.folder / name) for name in SECRETS[:-1]]
    paths += map(str, (appliance.folder / "home").rglob("key.pem"))
    paths += map(str, (appliance.folder / "home").rglob("console.toml"))
    return {path: (stat.S_IMODE(os.stat(path).st_mode), os.stat(path).st_uid) for path in paths}


def refused(appliance: MadeAppliance, exit_code: int) -> str:
    words = ("setup", "appliance", "--answers", str(appliance.answers), "--no-start")
    return appliance.command(*words, exit_code=exit_code).stderr


def test_it_makes_all_that_the_daemons_need_and_says_what_comes_next(
    appliance: MadeAppliance,
) -> None:
    words = ("setup", "appliance", "--answers", str(appliance.answers), "--no-start")
    said = appliance.command(*words).stdout
    assert "fingerprint of the authority: " in said
    assert f"in {appliance.folder}/state/director/passphrase" in said
    assert "on paper" in said
    assert "strongroom ca token --group servers" in said
    appliance.command("config", "check", str(appliance.folder / "etc"))
    for name in SECRETS[:-1]:
        mode = stat.S_IMODE((appliance.folder / name).stat().st_mode)
        assert not mode & 0o077, name
    appliance.command(
        *("snapshots", "--repo", str(appliance.folder / "repository")),
        *("--password-file", str(appliance.folder / "state/director/passphrase")),
    )


def test_daemons_can_enter_the_folders_of_the_configuration_whatever_the_umask(
    appliance: MadeAppliance,
) -> None:
    before = os.umask(0o077)
    try:
        appliance.setup()
    finally:
        os.umask(before)
    folders = [path for path in (appliance.folder / "etc").rglob("*") if path.is_dir()]
    closed = [path for path in folders if stat.S_IMODE(path.stat().st_mode) & 0o055 != 0o055]
    assert (len(folders) > 4, closed) == (True, [])


def test_the_same_answers_change_nothing(appliance: MadeAppliance) -> None:
    first = appliance.setup()
    assert first["changed"]
    before = contents(appliance)
    again = appliance.setup()
    assert (again["changed"], again["kept"]) == ([], [])
    assert contents(appliance) == before
    assert again["fingerprint"] == first["fingerprint"]


def test_other_answers_change_what_they_name(appliance: MadeAppliance) -> None:
    appliance.setup()
    before = contents(appliance)
    appliance.write_answers(keep_daily="30")
    changed = appliance.setup()["changed"]
    path = "etc/director.d/director/vault-dir.conf"
    assert changed == [f"wrote {appliance.folder}/{path}"]
    after = contents(appliance)
    differing = {name for name in after if after[name] != before.get(name)}
    assert differing == {path, "state/setup.json"}
    assert b"Keep Daily = 30" in after[path]
    # An address is in certificates as well; the keys of the repository and the authority stay.
    appliance.write_answers(keep_daily="30", further_addresses='["127.0.0.1", "vault.lan"]')
    assert len(appliance.setup()["changed"]) == 2
    assert appliance.setup()["changed"] == []
    assert all(contents(appliance)[name] == before[name] for name in (*SECRETS[:3], SECRETS[5]))


def test_without_groups_the_job_defaults_are_there_and_the_rest_is_left_to_others(
    appliance: MadeAppliance,
) -> None:
    appliance.write_answers(groups="[]")
    appliance.setup()
    texts = contents(appliance)
    groups = texts["etc/director.d/jobdefs/groups.conf"]
    assert b"Name = Usual" in groups
    assert b"Client Group" not in groups
    # A file of its own, so that notices can be set up without editing anything else.
    assert b"Name = Standard" in texts["etc/director.d/messages/standard.conf"]


def test_clients_without_tls_are_those_that_the_answers_name(appliance: MadeAppliance) -> None:
    appliance.setup()
    path = "etc/storage.d/storage/vault.conf"
    assert b"Plain" not in contents(appliance)[path]
    appliance.write_answers(plain_clients='["web1", "web2"]')
    assert appliance.setup()["changed"] == [f"wrote {appliance.folder}/{path}"]
    assert b'Plain Clients = "web1", "web2"\n' in contents(appliance)[path]


def test_a_file_that_was_edited_stays(appliance: MadeAppliance) -> None:
    appliance.setup()
    file = appliance.folder / "etc/director.d/jobdefs/groups.conf"
    edited = file.read_text().replace("ZSTD1", "ZSTD3")
    file.write_text(edited)
    assert appliance.setup()["changed"] == []
    appliance.write_answers(backup_time='"22:30"')
    told = appliance.setup()
    beside = file.with_name("groups.conf.new")
    assert told["changed"] == [f"wrote {beside}"]
    assert "was edited" in told["kept"][0]
    assert file.read_text() == edited
    assert "22:30" in beside.read_text()
    assert appliance.setup()["changed"] == []
    # Taken over, it is ours again.
    beside.rename(file)
    appliance.write_answers(backup_time='"23:30"')
    assert appliance.setup()["changed"] == [f"wrote {file}"]


@pytest.mark.parametrize(
    ("answer", "value", "said"),
    [
        ("adress", '"x"', "did you mean `address`?"),
        ("keep_daily", '"14"', "`keep_daily` is a number"),
        ("keep_daily", "true", "`keep_daily` is a number"),
        ("backup_time", '"25:00"', "a time such as 21:00"),
        ("address", '"a b"', "a DNS name or an address"),
        ("repository", '"backup"', "an absolute path"),
        ("groups", '["a b"]', "letters, digits"),
        ("groups", '"servers"', "a list of texts"),
        ("minimum_retention", '"soon"', "a time such as 7 days"),
        ("director_name", '"vault"', "must differ"),
        ("storage_name", '"x } Storage { Name = y"', "letters, digits"),
    ],
)
def test_a_wrong_answer_is_said_and_nothing_made(
    appliance: MadeAppliance, answer: str, value: str, said: str
) -> None:
    appliance.write_answers(**{answer: value})
    error = refused(appliance, 2)
    assert said in error
    assert str(appliance.answers) in error
    assert contents(appliance) == {}


def test_the_example_of_answers_is_a_whole_answer_file(appliance: MadeAppliance) -> None:
    example = appliance.command("setup", "appliance", "--show-answers").stdout
    assert 'address = "vault.example.org"' in example
    from strongroom.cli.setup.answer_file import read_answers

    appliance.answers.write_text(example)
    plain = read_answers(str(appliance.answers))
    appliance.answers.write_text(example.replace("# keep", "keep").replace("# groups", "groups"))
    assert read_answers(str(appliance.answers)) == plain


@pytest.mark.parametrize(
    ("answer", "value"),
    [("director_name", '"other"'), ("storage_name", '"other"'), ("repository", '"/elsewhere"')],
)
def test_what_others_depend_on_cannot_change(
    appliance: MadeAppliance, answer: str, value: str
) -> None:
    appliance.setup()
    before = contents(appliance)
    appliance.write_answers(**{answer: value})
    assert f"`{answer}` was" in refused(appliance, 61)
    assert contents(appliance) == before


def test_a_repository_without_its_passphrase_and_a_folder_of_somebody_else_are_refused(
    appliance: MadeAppliance,
) -> None:
    (appliance.folder / "repository").mkdir()
    (appliance.folder / "repository/letter").write_text("mine")
    assert "is not empty" in refused(appliance, 61)
    (appliance.folder / "repository/letter").unlink()
    appliance.setup()
    passphrase = appliance.folder / "state/director/passphrase"
    text = passphrase.read_text()
    passphrase.unlink()
    assert "no passphrase" in refused(appliance, 61)
    assert not passphrase.exists()
    passphrase.write_text(text)
    # It was readable for all.
    assert len(appliance.setup()["changed"]) == 1
    assert appliance.setup()["changed"] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="files of other users")
@pytest.mark.parametrize("brought", ["again", "around its repository"])
def test_secrets_that_were_brought_have_owner_and_mode_as_at_first(
    tmp_path: Path, brought: str
) -> None:
    users = {"director_user": '"daemon"', "storage_user": '"games"', "group": '"daemon"'}
    with MadeAppliance(tmp_path) as appliance:
        appliance.write_answers(**users)
        appliance.setup()
        first = rights(appliance)
        passphrase = appliance.folder / "state/director/passphrase"
        if brought == "around its repository":
            text = passphrase.read_bytes()
            for name in ("state", "etc", "home"):
                shutil.rmtree(appliance.folder / name)
            passphrase.parent.mkdir(parents=True)
            passphrase.write_bytes(text)
            os.chown(appliance.folder / "repository/config", 0, 0)
        for path in first:
            if os.path.exists(path):
                os.chown(path, 0, 0)
                os.chmod(path, 0o644)
        appliance.setup()
        assert rights(appliance) == first
        owner = pwd.getpwnam("games").pw_uid
        assert os.stat(appliance.folder / "repository/config").st_uid == owner
        assert not appliance.setup()["changed"]


def test_answers_that_make_no_valid_configuration_write_none(appliance: MadeAppliance) -> None:
    appliance.setup()
    (appliance.folder / "etc/director.d/job/mine.conf").write_text(
        "Job { Name = mine; Job Defs = databases; Client = appliance }\n"
    )
    before = contents(appliance)
    appliance.write_answers(groups='["servers"]')
    assert "databases" in refused(appliance, 40)
    assert contents(appliance) == before


def interrupted(appliance: MadeAppliance, moment: int) -> bool:
    """Whether setup was killed at a moment; otherwise it has ended well."""
    words = ("setup", "appliance", "--answers", str(appliance.answers), "--no-start")
    answer = subprocess.run(
        [sys.executable, KILLED, str(moment), *words],
        env=appliance.environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert answer.returncode in (0, -signal.SIGKILL), answer.stderr
    return answer.returncode != 0


@pytest.mark.parametrize("stride", [12, pytest.param(1, marks=pytest.mark.slow)])
def test_whenever_it_is_interrupted_the_next_setup_ends_right(tmp_path: Path, stride: int) -> None:
    whole: set[str] = set()
    moment = 1
    while True:
        folder = tmp_path / str(moment)
        folder.mkdir()
        with MadeAppliance(folder) as appliance:
            was_killed = interrupted(appliance, moment)
            appliance.setup()
            assert appliance.setup()["changed"] == [], moment
            names = {name for name in contents(appliance) if "repository/keys" not in name}
            names = {name for name in names if "/." not in name}
            whole = whole or names
            assert names == whole, moment
            appliance.command("config", "check", str(folder / "etc"))
            appliance.command(
                *("snapshots", "--repo", str(folder / "repository")),
                *("--password-file", str(folder / "state/director/passphrase")),
            )
        if not was_killed:
            break
        moment += stride
    assert moment > 20
