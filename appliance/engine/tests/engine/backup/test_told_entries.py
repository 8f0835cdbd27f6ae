"""`backup -n -v` says of each entry what would happen to it, and why others are left out."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from kit.user import User


def told(user: User, source: Path, *words: str) -> dict[str, tuple[str, str]]:
    """Path below the source -> what becomes of it, and why."""
    found = user.backup("-n", "-v", *words, source).of_type("entry")
    beginning = f"{source}/"
    return {
        item["path"].removeprefix(beginning): (item["action"], item.get("reason", ""))
        for item in found
        if item["path"].startswith(beginning)
    }


def test_what_is_new_changed_and_unchanged_is_told(user: User, source: Path) -> None:
    for name in ("same", "other"):
        (source / name).write_text(name)
        os.utime(source / name, ns=(1, 1))
    user.backup(source)
    (source / "other").write_text("changed")
    (source / "fresh").write_text("new")
    entries = told(user, source)
    assert entries["other"] == ("changed", "")
    assert entries["fresh"] == ("new", "")
    # A file of the last seconds is never taken as unchanged.
    assert entries["same"][0] in ("unchanged", "changed")
    assert len(user.run("snapshots").of_type("snapshot")) == 1


@pytest.mark.parametrize(
    ("words", "name", "reason"),
    [
        (("-e", "*.tmp"), "x.tmp", "excluded by *.tmp"),
        (("-e", "*.tmp", "-e", "/**/x.tmp"), "x.tmp", "excluded by /**/x.tmp"),
        (("--iexclude", "*.TMP"), "x.tmp", "excluded by *.TMP"),
        (("-e", "folder/"), "folder", "excluded by folder/"),
        (("--exclude-if-present", "marker"), "folder/below", "its folder holds marker"),
        (("--exclude-larger-than", "10"), "folder/below", "20 bytes, more than 10"),
        (("--exclude-smaller-than", "10"), "x.tmp", "3 bytes, fewer than 10"),
        ((), "socket", "a socket"),
    ],
)
def test_the_reason_is_told(
    user: User, source: Path, words: tuple[str, ...], name: str, reason: str
) -> None:
    (source / "folder").mkdir()
    (source / "folder" / "marker").write_bytes(b"")
    (source / "folder" / "below").write_bytes(bytes(20))
    (source / "x.tmp").write_bytes(bytes(3))
    here = os.open(source, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/fd/{here}/socket")
    os.close(here)
    assert told(user, source, *words)[name] == ("left out", reason)


def test_what_an_exception_takes_back_is_told_as_taken(user: User, source: Path) -> None:
    (source / "keep.tmp").write_text("x")
    assert told(user, source, "-e", "*.tmp", "-e", "!keep.tmp")["keep.tmp"] == ("new", "")


def test_without_the_wish_nothing_is_told(user: User, source: Path) -> None:
    (source / "file").write_text("x")
    assert user.backup(source, "-n").of_type("entry") == []
    assert user.backup(source, "-v").of_type("entry") == []
    assert user.backup(source, "-vv").of_type("entry") != []
