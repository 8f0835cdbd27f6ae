"""`snapshots`, `ls`, `find` and `diff` through the director show what they show on the spot."""

import pytest

from kit.json_output import objects_of
from kit.tiny_backup import PASSPHRASE
from strongroom.base.errors import NotPermittedError, PathNotFoundError, UsageError


@pytest.fixture
def local(director, command, tmp_path):
    password = tmp_path / "passphrase"
    password.write_bytes(PASSPHRASE + b"\n")
    password.chmod(0o600)
    place = ["--repo", str(director.folder / "repository"), "--password-file", str(password)]

    def run(*words, **expected):
        return command(*words, place=place, **expected)

    return run


def both(command, local, *words):
    there, here = command(*words), local(*words)
    return there.output.splitlines(), here.output.splitlines()


@pytest.mark.parametrize(
    "options", [(), ("-l",), ("--json",), ("-R",), ("-R", "-l"), ("-R", "--json")]
)
def test_ls_shows_the_same(command, local, director, options):
    snapshot = director.snapshots[0].id
    for path in ("/", f"{director.tree}/home", f"{director.tree}/home/ann/letter.odt"):
        there, here = both(command, local, "ls", snapshot, path, *options)
        assert there == here
        assert here


def test_ls_of_several_paths_and_of_the_latest(command, local, director):
    home = f"{director.tree}/home"
    for words in (("latest", home, f"{home}/ann"), (f"latest:{home}",)):
        there, here = both(command, local, "ls", *words, "--host", "web1")
        assert there == here


@pytest.mark.parametrize(
    "words",
    [
        ("*.odt",),
        ("*.odt", "-l", "--host", "web1"),
        ("*.odt", "--json"),
        ("*.odt", "--show-snapshots"),
        ("--type", "file", "--larger-than", "3"),
        ("LETTER*", "-i", "--below", "/"),
    ],
)
def test_find_shows_the_same(command, local, words):
    there, here = both(command, local, "find", *words)
    assert sorted(there) == sorted(here)
    assert here


def test_find_searches_one_snapshot(command, local, director):
    words = ("*.odt", "--in", director.snapshots[1].id)
    there, here = both(command, local, "find", *words)
    assert there == here


@pytest.mark.parametrize("options", [(), ("--json",), ("--content-only",)])
def test_diff_shows_the_same(command, local, director, options):
    words = (director.snapshots[0].id, director.snapshots[1].id, *options)
    there, here = both(command, local, "diff", *words)
    assert there == here
    assert len(here) > 1


def test_snapshots_shows_what_the_catalog_knows(command, local, director):
    there, here = both(command, local, "snapshots", "--host", "web1")
    # The catalog of the test calls both full.
    assert [line.split()[:5] for line in there] == [line.split()[:5] for line in here]
    there, here = both(command, local, "snapshots", "--host", "web1", "--json")
    for one, other in zip(*(map(objects_of, map("\n".join, (there, here)))), strict=True):
        assert one.keys() == other.keys()
        for name in ("id", "time", "host", "job", "tags", "files", "size_bytes", "false"):
            assert one[name] == other[name]
        assert one["paths"] is None
    (latest,) = command("snapshots", "latest", "--host", "web1", "--json").objects
    assert latest["id"] == director.snapshots[1].id


def test_a_director_of_the_settings_is_asked_where_no_repository_is_named(command, director, home):
    folder = home / ".config" / "strongroom"
    folder.mkdir(parents=True)
    identity = director.identity("admin").folder.decode()
    (folder / "console.toml").write_text(f'director = "{director.url}"\nidentity = "{identity}"\n')
    assert command("snapshots", place=[]).output == command("snapshots").output
    answer = command("snapshots", place=["--repo", str(home / "none")], exit_code=10)
    assert "there is no repository" in answer.messages


def test_what_a_path_or_an_option_cannot_be_is_said(command, director):
    answer = command("ls", director.snapshots[0].id, "/none", exit_code=PathNotFoundError.exit_code)
    assert "/none" in answer.messages
    command("snapshots", "--path", "/srv", exit_code=UsageError.exit_code)
    command("find", "--regex", "x", exit_code=UsageError.exit_code)


def test_one_sees_what_one_may_see(command, director):
    theirs, web1 = director.snapshots[2].id, director.snapshots[0].id
    listed = command("snapshots", "--json", who="ann").objects
    assert {one["host"] for one in listed} == {"web1"}
    for words in (("ls", theirs), ("diff", web1, theirs), ("find", "*", "--in", theirs)):
        answer = command(*words, who="ann", exit_code=NotPermittedError.exit_code)
        assert "db1" not in answer.messages
