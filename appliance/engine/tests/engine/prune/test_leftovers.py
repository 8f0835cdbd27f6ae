"""Temporary files go as soon as they can, and files of others harm no one."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from kit.command import Command
from strongroom.engine.stores.local import LocalStore


def temporary_files(command: Command) -> list[Path]:
    return list(command.repository.rglob("tmp.*"))


def test_a_pack_that_cannot_be_published_leaves_nothing(command: Command, tree: Path) -> None:
    (tree / "file").write_bytes(b"content")
    command.run(
        "backup",
        str(tree),
        exit_code=30,
        key_file=command.restore_key,
        STRONGROOM_STORE_FAULTS="commit:packs:1:ENOSPC",
    )
    assert temporary_files(command) == []


def test_a_backup_removes_what_a_killed_one_left(command: Command, tree: Path) -> None:
    (tree / "file").write_bytes(b"content")
    command.run(
        "backup",
        str(tree),
        exit_code=-9,
        key_file=command.restore_key,
        STRONGROOM_STORE_FAULTS="commit:packs:1:crash",
    )
    assert len(temporary_files(command)) > 0
    command.back_up(str(tree))
    assert temporary_files(command) == []


def test_files_of_others_among_the_packs_are_left_alone(command: Command, tree: Path) -> None:
    (tree / "file").write_bytes(b"content")
    command.back_up(str(tree))
    folder = next((command.repository / "packs").iterdir())
    # Network file systems rename what is deleted while it is open.
    for name in (".nfs00000000000000010000", "note", "g" * 64):
        (folder / name).write_bytes(b"not a pack")
    (tree / "other").write_bytes(b"more content")
    command.back_up(str(tree))
    command("prune")
    command("repair", "index")
    assert (folder / "note").read_bytes() == b"not a pack"


def test_a_temporary_file_that_went_before_it_was_locked_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(str(tmp_path / "store"))
    store.prepare()
    flock = fcntl.flock
    removed: list[str] = []

    def late_flock(descriptor: int, operation: int) -> None:
        if not removed:
            # Another job has just found it without a lock, and taken it for abandoned.
            removed.append(os.readlink(f"/proc/self/fd/{descriptor}"))
            os.unlink(removed[0])
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late_flock)
    store.put("index", "ab" * 32, b"index")
    assert (len(removed), store.get("index", "ab" * 32)) == (1, b"index")
    store.close()
