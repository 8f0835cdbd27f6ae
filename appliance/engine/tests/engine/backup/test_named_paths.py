"""Which paths a backup takes: those that are named, listed in files, and there."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from kit.user import User


@pytest.fixture
def files(source: Path) -> Path:
    for name in ("a", "b", "line\nend", "#c"):
        (source / name).write_text(name)
    return source


def held(user: User, folder: Path) -> set[str]:
    beginning = f"{folder}/"
    found = user.run("ls", "latest", "-R").of_type("entry")
    return {
        item["path"].removeprefix(beginning) for item in found if item["path"].startswith(beginning)
    }


def test_one_of_several_that_is_not_there_costs_only_itself(user: User, files: Path) -> None:
    outcome = user.backup(files / "a", files / "gone", code=3)
    told = "named, but nothing of it is backed up: No such file or directory"
    assert outcome.problems == {f"{files}/gone": told}
    assert held(user, files) == {"a"}


def test_the_summary_and_the_snapshot_say_what_was_named_and_is_not_there(
    user: User, files: Path
) -> None:
    gone = [f"{files}/gone{number:02}" for number in range(25)]
    summary = user.backup(files / "a", *gone, code=3).summary
    assert (summary["problems"], summary["missing_paths"]) == (25, 25)
    # No summary grows with them.
    assert summary["missing_path_names"] == gone[:20]
    assert user.backup(files / "a").summary["missing_paths"] == 0
    listed = user.run("snapshots").of_type("snapshot")
    assert [one["missing_paths"] for one in listed] == [25, 0]


def test_a_missing_path_is_an_error_of_its_own_where_that_is_wanted(
    user: User, files: Path
) -> None:
    outcome = user.backup("--missing-is-error", files / "a", files / "gone", code=17)
    assert outcome.error == "path-missing"
    assert held(user, files) == {"a"}
    user.backup("--missing-is-error", files / "a", files / "b")


def test_a_path_that_is_missing_for_a_day_does_not_make_the_rest_new(
    user: User, files: Path
) -> None:
    here, there = str(files), f"{files}.mounted"
    os.mkdir(there)
    time.sleep(0.1)
    first = user.backup(here, there).summary
    os.rmdir(there)
    second = user.backup(here, there, code=3).summary
    assert (second["parent"], second["files_read"]) == (first["snapshot"], 0)
    os.mkdir(there)
    third = user.backup(here, there).summary
    assert (third["parent"], third["files_read"]) == (first["snapshot"], 0)


def test_where_nothing_is_there_no_snapshot_is_made(user: User, files: Path) -> None:
    outcome = user.backup(files / "gone", files / "away", code=4)
    assert outcome.error == "source"
    assert user.run("snapshots").of_type("snapshot") == []


def test_paths_come_from_lists(user: User, files: Path, tmp_path: Path) -> None:
    (tmp_path / "list").write_text(f"{files}/a\n\n{files}/#c\n")
    user.backup("--files-from", tmp_path / "list", files / "b")
    assert held(user, files) == {"a", "b", "#c"}
    user.backup("--files-from", "-", data=f"{files}/b".encode())
    assert held(user, files) == {"b"}
    user.backup("--files-from-raw", "-", data=f"{files}/line\nend\0{files}/a\0".encode())
    assert held(user, files) == {"line\nend", "a"}


@pytest.mark.parametrize(
    ("words", "data"),
    [
        (("--files-from", "/no/such/list"), b""),
        (("--files-from", "-"), b"\n"),
        (("--files-from", "-"), b"/etc\0/usr\0"),
        (("--files-from", "-", "--files-from-raw", "-"), b"/etc"),
        (("--files-from", "-", "--stdin"), b"/etc"),
    ],
)
def test_a_list_that_makes_no_sense_is_refused(
    user: User, words: tuple[str, ...], data: bytes
) -> None:
    assert user.backup(*words, code=2, data=data).error == "usage"
