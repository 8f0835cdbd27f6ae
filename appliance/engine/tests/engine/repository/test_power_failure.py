"""What a power failure may leave is never taken for what was written.

Names of packs are on the disk before `sync`, perhaps without the ends of the files; and an index
object may name them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kit.command import Command
from strongroom.engine.stores.local import LocalStore


def make_files(tree: Path) -> None:
    for number in range(20):
        (tree / f"{number}").write_bytes(os.urandom(3000))


def packs(command: Command) -> list[Path]:
    return list((command.repository / "packs").glob("*/*"))


def cut_off(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def require_restored(command: Command, tree: Path, target: Path) -> None:
    command("restore", "latest", "--target", str(target))
    restored = target / str(tree).lstrip("/")
    assert sorted(os.listdir(restored)) == sorted(os.listdir(tree))
    for name in os.listdir(tree):
        assert (restored / name).read_bytes() == (tree / name).read_bytes()


@pytest.mark.parametrize("lose", [cut_off, os.unlink])
def test_packs_that_are_not_as_written_are_written_anew(
    command: Command, tree: Path, tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    make_files(tree)
    # Several times, so that the good copy is seldom the first that the index has.
    for _ in range(4):
        command.back_up(str(tree))
        command("forget", "latest")
        for pack in packs(command):
            lose(pack)
    command.back_up(str(tree))
    require_restored(command, tree, tmp_path / "before")
    command("prune")
    require_restored(command, tree, tmp_path / "after")
    command("check", "--read-data")
    assert len(packs(command)) == 2


def test_prune_removes_nothing_where_the_only_copy_is_cut_off(command: Command, tree: Path) -> None:
    make_files(tree)
    command.back_up(str(tree))
    cut_off(max(packs(command), key=lambda pack: pack.stat().st_size))
    before = command.stored_objects()
    command("prune", exit_code=24)
    assert command.stored_objects() == before


def test_a_small_object_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(str(tmp_path / "store"))
    store.prepare()
    synced: set[int] = set()
    fsync, link = os.fsync, os.link

    def recorded_fsync(descriptor: int) -> None:
        fsync(descriptor)
        synced.add(os.fstat(descriptor).st_ino)

    def checked_link(source: bytes, target: bytes, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        status = os.stat(source, dir_fd=src_dir_fd)
        assert (status.st_size, status.st_ino in synced) == (5, True)
        link(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(os, "link", checked_link)
    store.put("index", "ab" * 32, b"index")
    store.put_durable("snapshots", "cd" * 32, b"snaps")
    assert store.get("index", "ab" * 32) == b"index"
    assert (tmp_path / "store" / "snapshots").stat().st_ino in synced
    store.close()
