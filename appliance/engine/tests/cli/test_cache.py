"""What a machine keeps can be seen, bounded and cleared."""

from __future__ import annotations

import os
from typing import get_args

import pytest

from strongroom.engine.repository.cache_folder import kept_in, shrink
from strongroom.engine.repository.kept_notes import NoteKind

P1, P2 = f"parents/{'1' * 32}-full-x", f"parents/{'2' * 32}-part-y"
B1, C1 = f"runs/{'1' * 32}/blocks-{'b' * 24}", f"runs/{'1' * 32}/chunks-{'c' * 24}"
B2 = f"runs/{'2' * 32}/blocks-{'b' * 24}"
X = f"storage/{'a' * 16}/index/{'d' * 64}"


@pytest.fixture
def folder(tmp_path):
    """A cache with two files of 100 bytes of each kind; the later ones were used later."""
    at = 0
    for name in (P1, P2, B1, C1, B2, X):
        path = tmp_path / "cache" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(100))
        at += 10
        os.utime(path, (at, at))
    (tmp_path / "cache" / "newest").mkdir()
    (tmp_path / "cache" / "newest" / "repository").write_bytes(bytes(100))
    return os.fsencode(tmp_path / "cache")


def names(folder):
    return [
        sorted(os.fsdecode(os.path.relpath(path, folder)) for path in one.paths)
        for one in kept_in(folder)
    ]


def test_the_runs_of_a_repository_are_kept_and_removed_together(folder):
    assert names(folder) == [
        [X],
        [B2],
        [B1, C1],
        [P2],
        [P1],
    ]
    assert shrink(folder, 600) == 0
    assert shrink(folder, 450) == 200
    assert names(folder) == [[X], [B2], [B1, C1]]
    assert shrink(folder, 250) == 200
    assert names(folder) == [[X], [B2]]


def test_notes_of_every_kind_count(tmp_path):
    folder = tmp_path / "notes" / ("1" * 32)
    folder.mkdir(parents=True)
    for kind in get_args(NoteKind):
        (folder / f"{kind}-{'e' * 24}").write_bytes(bytes(100))
    (paths,) = names(os.fsencode(tmp_path))
    assert len(paths) == len(get_args(NoteKind))


def test_the_command_shows_and_clears_but_not_what_is_remembered(strongroom, folder):
    place = ("--cache-dir", os.fsdecode(folder))
    shown = strongroom("cache", *place).stdout
    assert "index" in shown
    assert strongroom("cache", "--clear", *place).stdout.startswith("removed 600 B")
    assert names(folder) == []
    assert os.listdir(folder + b"/newest") == [b"repository"]
    assert "is empty" in strongroom("cache", *place).stdout


def test_nothing_else_is_removed_that_is_in_the_folder_or_linked_from_it(
    strongroom, folder, tmp_path
):
    place = os.fsdecode(folder)
    outside = tmp_path / "outside"
    outside.mkdir()
    theirs = [outside / ("1" * 32 + "-full-x"), tmp_path / "cache" / "runs" / "notes"]
    # A repository beside the cache, and one of somebody's own files among the listings.
    theirs.append(tmp_path / "cache" / "storage" / "backups" / "index" / ("e" * 64))
    theirs.append(tmp_path / "cache" / "parents" / "mother.jpg")
    for path in theirs:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(100))
    assert strongroom("cache", "--clear", "--cache-dir", place).stdout.startswith("removed 600 B")
    os.unlink(theirs[-1])
    os.rmdir(folder + b"/parents")
    os.symlink(outside, folder + b"/parents")
    os.symlink(theirs[0], folder + b"/" + os.fsencode(B1))
    assert strongroom("cache", "--clear", "--cache-dir", place).stdout.startswith("removed 0 B")
    assert all(path.exists() for path in theirs[:-1])
