"""A forged snapshot or a prepared target makes a restore write nothing outside the target."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from kit.hand_backup import back_up
from kit.observed_restore import run_restore
from kit.tree_removal import remove_tree
from strongroom.base.errors import DamageError
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import Snapshot
from strongroom.engine.restore.options import EntryKind, Overwrite
from strongroom.engine.restore.target_directories import TargetDirectories, check_names, check_path
from strongroom.engine.rows.rows import Rows


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "victim").write_bytes(b"precious")
    (outside / "victim").chmod(0o604)
    return outside


def state_of(place: Path) -> list[object]:
    found: list[object] = []
    for path in sorted([place, *place.rglob("*")]):
        status = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
        found.append((path, status.st_mode, status.st_uid, status.st_mtime_ns, content))
    return found


def back_up_tree(repository: Repository, tree: Path, **choices: object) -> Snapshot:
    return back_up(repository, os.fsencode(tree), **choices)  # type: ignore[arg-type]


@pytest.mark.parametrize("path", [b"..", b"../x", b"a/../b", b"a/.", b"/a", b"a/", b"a//b", b"a\0"])
def test_a_path_that_leads_out_is_refused(path):
    with pytest.raises(DamageError):
        check_path(path)


@pytest.mark.parametrize("name", [b"..", b".", b"", b"a/b", b"/etc", b"../x"])
def test_a_name_that_leads_out_is_refused(name):
    names = [b"honest", name]
    with pytest.raises(DamageError):
        check_names(names, b"\0".join(names))


@pytest.mark.parametrize(
    "name", [b"../outside/e", b"/tmp/escape1", b"../../../../", b"a/../../bbbb"]
)
def test_a_listing_with_forged_names_is_refused_and_nothing_is_written(
    repository, tmp_path, outside, name
):
    tree = tmp_path / "tree"
    tree.mkdir()
    honest = b"n" * len(name)
    (tree / os.fsdecode(honest)).write_bytes(b"evil")
    before = state_of(outside)
    snapshot = back_up_tree(repository, tree, forge=lambda page: page.replace(honest, name))
    with pytest.raises(DamageError):
        run_restore(repository, snapshot, tmp_path / "out")
    assert state_of(outside) == before
    assert not os.path.lexists(tmp_path / "escape1")
    assert sorted(os.listdir(tmp_path)) == ["out", "outside", "tree"]


def test_rows_below_a_symbolic_link_of_the_snapshot_are_not_followed(repository, tmp_path, outside):
    tree = tmp_path / "tree"
    (tree / "exit").mkdir(parents=True)
    (tree / "exit" / "victim").write_bytes(b"evil")

    def make_link(rows: Rows) -> None:
        if not rows.directory:
            row = rows.name_list().index(b"exit")
            stats = bytearray(rows.stats)
            stats[row * 80 : row * 80 + 8] = (stat.S_IFLNK | 0o777).to_bytes(8, "little")
            rows.stats = bytes(stats)
            rows.targets[row] = os.fsencode(outside)

    before = state_of(outside)
    snapshot = back_up_tree(repository, tree, edit=make_link)
    seen = run_restore(repository, snapshot, tmp_path / "out")
    assert (EntryKind.ENTRY, b"exit") in [(p.kind, p.path) for p in seen.problems]
    assert os.readlink(tmp_path / "out" / "exit") == str(outside)
    assert state_of(outside) == before


@pytest.mark.parametrize("overwrite", list(Overwrite))
@pytest.mark.parametrize("delete", [False, True])
def test_links_planted_in_the_target_are_not_followed(
    repository, tmp_path, outside, overwrite, delete
):
    tree, out = tmp_path / "tree", tmp_path / "out"
    (tree / "dir").mkdir(parents=True)
    (tree / "dir" / "victim").write_bytes(b"evil")
    (tree / "empty").mkdir()
    (tree / "file").write_bytes(b"evil")
    (tree / "big").write_bytes(os.urandom(3 << 20))
    os.mkfifo(tree / "fifo")
    snapshot = back_up_tree(repository, tree)
    out.mkdir()
    (out / "dir").symlink_to(outside)
    (out / "empty").symlink_to(outside)
    for name in ("file", "big", "fifo"):
        (out / name).symlink_to(outside / "victim")
    (out / "surplus").symlink_to(outside)
    before = state_of(outside)
    run_restore(repository, snapshot, out, overwrite=overwrite, delete=delete)
    assert state_of(outside) == before


@pytest.mark.parametrize("overwrite", list(Overwrite))
def test_an_outside_file_linked_into_the_target_is_not_touched(
    repository, tmp_path, outside, overwrite
):
    tree, out = tmp_path / "tree", tmp_path / "out"
    tree.mkdir()
    out.mkdir()
    (outside / "big").write_bytes(os.urandom(3 << 20))
    # Same content and time, other mode: only attributes would have to be set.
    for name, content in (("same", b"precious"), ("other", b"evil!")):
        (tree / name).write_bytes(content)
        (tree / name).chmod(0o777)
        os.link(outside / "victim", out / name)
    time_ns = (outside / "victim").stat().st_mtime_ns
    os.utime(tree / "same", ns=(time_ns, time_ns))
    (tree / "big").write_bytes(os.urandom(3 << 20))
    os.link(outside / "big", out / "big")
    before = state_of(outside)
    run_restore(repository, back_up_tree(repository, tree), out, overwrite=overwrite)
    assert state_of(outside) == before


def test_a_directory_swapped_for_a_link_all_the_time_lets_nothing_out(
    repository, tmp_path, outside
):
    tree, out = tmp_path / "tree", tmp_path / "out"
    for number in range(60):
        (tree / f"dir{number:02}" / "deep").mkdir(parents=True)
        for name in ("a", "b", "deep/c"):
            (tree / f"dir{number:02}" / name).write_bytes(b"evil")
    snapshot = back_up_tree(repository, tree)
    before = state_of(outside)
    stopped = threading.Event()
    swaps = 0

    def swap() -> None:
        nonlocal swaps
        while not stopped.is_set():
            for number in range(60):
                name = os.fsencode(out / f"dir{number:02}")
                try:
                    os.rename(name, name + b".away")
                    os.symlink(os.fsencode(outside), name)
                    swaps += 1
                except OSError:
                    continue

    attacker = threading.Thread(target=swap)
    attacker.start()
    try:
        for _ in range(8):
            run_restore(repository, snapshot, out, overwrite=Overwrite.ALWAYS)
    finally:
        stopped.set()
        attacker.join()
    assert swaps
    assert state_of(outside) == before


def test_directories_are_reached_beyond_path_max_with_few_descriptors(tmp_path):
    name = b"d" * 200
    root = os.open(os.fsencode(tmp_path), os.O_RDONLY)
    here = os.open(".", os.O_PATH)
    try:
        os.fchdir(root)
        for _ in range(300):
            os.mkdir(name)
            os.chdir(name)
        deepest = os.stat(b".").st_ino
        directories = TargetDirectories(root)
        path = b"/".join([name] * 300)
        before = len(os.listdir("/proc/self/fd"))
        assert directories.enter(path).st_ino == deepest
        assert len(os.listdir("/proc/self/fd")) - before < 80
        # Leaving it step by step, and coming back.
        for depth in (299, 250, 120, 64, 3, 300):
            directories.enter(b"/".join([name] * depth))
        assert os.stat(b".").st_ino == deepest
    finally:
        os.fchdir(here)
        os.close(here)
        remove_tree(os.path.join(os.fsencode(tmp_path), name))
        os.close(root)
