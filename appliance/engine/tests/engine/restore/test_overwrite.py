"""What a restore does with entries that are there already."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from kit.hand_backup import back_up
from kit.observed_restore import run_restore
from kit.tree_compare import compare_trees
from strongroom.engine.restore.options import Action, EntryKind, Overwrite
from strongroom.engine.scan.patterns import Patterns

YEAR_2001_NS = 1_000_000_000_000_000_000


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "sub" / "file").write_bytes(b"snapshot")
    (tree / "sub" / "empty").touch()
    (tree / "alone").write_bytes(b"snapshot")
    (tree / "link").symlink_to("sub/file")
    os.link(tree / "sub" / "file", tree / "other-name")
    os.mkfifo(tree / "fifo")
    for path in (tree / "sub" / "file", tree / "sub" / "empty", tree / "alone"):
        os.utime(path, ns=(YEAR_2001_NS, YEAR_2001_NS))
    return tree


def differences(expected: Path, actual: Path) -> list[object]:
    """All but the time of the target itself, which is no one's to restore where it existed."""
    found = compare_trees(os.fsencode(expected), os.fsencode(actual))
    return [one for one in found if (one.path, one.kind) != (b".", "mtime")]


def test_a_second_restore_changes_nothing(repository, tree, tmp_path):
    snapshot = back_up(repository, os.fsencode(tree))
    run_restore(repository, snapshot, tmp_path / "out")
    seen = run_restore(repository, snapshot, tmp_path / "out")
    assert set(seen.actions().values()) == {"unchanged"}
    assert not differences(tree, tmp_path / "out")


@pytest.mark.parametrize(
    ("overwrite", "mtime_ns", "is_replaced"),
    [
        (Overwrite.ALWAYS, YEAR_2001_NS, True),
        (Overwrite.IF_CHANGED, YEAR_2001_NS, False),
        (Overwrite.IF_CHANGED, YEAR_2001_NS + 1, True),
        (Overwrite.IF_NEWER, YEAR_2001_NS - 1, True),
        (Overwrite.IF_NEWER, YEAR_2001_NS, False),
        (Overwrite.IF_NEWER, YEAR_2001_NS + 1, False),
        (Overwrite.NEVER, YEAR_2001_NS - 1, False),
    ],
)
def test_policy_decides_about_other_content_of_the_same_size(
    repository, tree, tmp_path, overwrite, mtime_ns, is_replaced
):
    snapshot = back_up(repository, os.fsencode(tree))
    file = tmp_path / "out" / "alone"
    file.parent.mkdir()
    file.write_bytes(b"existing")
    os.utime(file, ns=(mtime_ns, mtime_ns))
    run_restore(repository, snapshot, tmp_path / "out", overwrite=overwrite)
    assert file.read_bytes() == (b"snapshot" if is_replaced else b"existing")


def test_always_replaces_entries_of_every_other_type(repository, tree, tmp_path):
    snapshot = back_up(repository, os.fsencode(tree))
    out = tmp_path / "out"
    (out / "fifo").mkdir(parents=True)
    (out / "link").write_text("no link")
    (out / "sub").symlink_to("elsewhere")
    (out / "other-name").symlink_to("elsewhere")
    seen = run_restore(repository, snapshot, out)
    assert not seen.problems
    assert not differences(tree, out)


def test_a_directory_with_content_is_replaced_only_with_delete(repository, tree, tmp_path):
    snapshot = back_up(repository, os.fsencode(tree))
    out = tmp_path / "out"
    (out / "fifo" / "deep").mkdir(parents=True)
    (out / "fifo" / "deep" / "file").touch()
    seen = run_restore(repository, snapshot, out)
    assert [(p.kind, p.path) for p in seen.problems] == [(EntryKind.ENTRY, b"fifo")]
    assert (out / "fifo" / "deep" / "file").exists()
    assert not run_restore(repository, snapshot, out, delete=True).problems
    assert stat.S_ISFIFO((out / "fifo").lstat().st_mode)


def test_delete_removes_what_the_snapshot_does_not_hold(repository, tree, tmp_path):
    snapshot = back_up(repository, os.fsencode(tree))
    out = tmp_path / "out"
    (out / "aaa" / "deep").mkdir(parents=True)
    (out / "zzz").touch()
    (out / "sub" / "extra").mkdir(parents=True)
    seen = run_restore(repository, snapshot, out, delete=True)
    deleted = {path for path, action in seen.actions().items() if action == "deleted"}
    assert deleted == {b"aaa", b"zzz", b"sub/extra"}
    assert not differences(tree, out)


def test_delete_empties_a_directory_that_is_empty_in_the_snapshot(repository, tree, tmp_path):
    (tree / "hollow").mkdir()
    snapshot = back_up(repository, os.fsencode(tree))
    (tmp_path / "out" / "hollow" / "extra").mkdir(parents=True)
    run_restore(repository, snapshot, tmp_path / "out", delete=True)
    assert not os.listdir(tmp_path / "out" / "hollow")


def test_delete_spares_what_patterns_leave_out(repository, tree, tmp_path):
    snapshot = back_up(repository, os.fsencode(tree))
    out = tmp_path / "out"
    out.mkdir()
    (out / "kept.log").touch()
    (out / "extra").touch()
    excludes = Patterns([(b"*.log", False)])
    run_restore(repository, snapshot, out, delete=True, excludes=excludes)
    assert (out / "kept.log").exists()
    assert not (out / "extra").exists()


def test_delete_spares_what_was_not_backed_up(repository, tree, tmp_path):
    snapshot = back_up(repository, os.fsencode(tree), paths=(b"/sub",))
    out = tmp_path / "out"
    (out / "sub").mkdir(parents=True)
    (out / "sub" / "extra").touch()
    (out / "of somebody else").touch()
    run_restore(repository, snapshot, out, delete=True)
    assert (out / "of somebody else").exists()
    assert not (out / "sub" / "extra").exists()


def test_a_directory_that_only_leads_on_keeps_its_attributes(repository, tree, tmp_path):
    (tree / "home" / "ann").mkdir(parents=True)
    (tree / "home").chmod(0o700)
    snapshot = back_up(repository, os.fsencode(tree), paths=(b"/home/ann",))
    out = tmp_path / "out"
    (out / "home").mkdir(parents=True)
    (out / "home").chmod(0o751)
    run_restore(repository, snapshot, out)
    assert stat.S_IMODE((out / "home").stat().st_mode) == 0o751


def test_a_dry_run_foresees_everything_and_does_nothing(repository, tree, tmp_path):
    snapshot = back_up(repository, os.fsencode(tree))
    out = tmp_path / "out"
    (out / "sub").mkdir(parents=True)
    (out / "sub" / "file").write_bytes(b"other content")
    (out / "extra").touch()
    before = sorted(map(str, out.rglob("*"))), (out / "sub" / "file").read_bytes()
    foreseen = run_restore(repository, snapshot, out, delete=True, dry_run=True)
    assert (sorted(map(str, out.rglob("*"))), (out / "sub" / "file").read_bytes()) == before
    done = run_restore(repository, snapshot, out, delete=True)
    assert foreseen.actions() == done.actions()


def test_a_dry_run_into_nothing_makes_nothing(repository, tree, tmp_path):
    snapshot = back_up(repository, os.fsencode(tree))
    seen = run_restore(repository, snapshot, tmp_path / "out", dry_run=True)
    assert not (tmp_path / "out").exists()
    assert set(seen.actions()) == {
        b"alone", b"sub", b"sub/file", b"sub/empty", b"link", b"other-name", b"fifo"
    }  # fmt: skip


def test_only_parts_that_differ_are_written_in_place(repository, tmp_path):
    tree, out = tmp_path / "tree", tmp_path / "out"
    tree.mkdir()
    content = os.urandom(5 << 20)
    (tree / "big").write_bytes(content)
    snapshot = back_up(repository, os.fsencode(tree))
    out.mkdir()
    changed = bytearray(content + b"longer")
    changed[2_500_000] ^= 1
    (out / "big").write_bytes(changed)
    inode = (out / "big").stat().st_ino
    seen = run_restore(repository, snapshot, out)
    assert (out / "big").read_bytes() == content
    assert (out / "big").stat().st_ino == inode
    assert seen.report.written_bytes == 1 << 20


def test_holes_come_back_in_place(repository, tmp_path):
    tree, out = tmp_path / "tree", tmp_path / "out"
    tree.mkdir()
    out.mkdir()
    with (tree / "sparse").open("wb") as file:
        file.write(b"a" * (2 << 20))
        file.seek(20 << 20)
        file.write(b"z")
        file.truncate(30 << 20)
    snapshot = back_up(repository, os.fsencode(tree))
    (out / "sparse").write_bytes(os.urandom(25 << 20))
    run_restore(repository, snapshot, out)
    assert not differences(tree, out)
    assert (out / "sparse").stat().st_blocks <= (tree / "sparse").stat().st_blocks + 16


def test_large_files_are_written_by_all_workers_and_replaced_or_kept(repository, tmp_path):
    tree, out = tmp_path / "tree", tmp_path / "out"
    tree.mkdir()
    with (tree / "large").open("wb") as file:
        for _ in range(70):
            file.write(os.urandom(1 << 20))
    os.link(tree / "large", tree / "name of large")
    snapshot = back_up(repository, os.fsencode(tree))
    assert not run_restore(repository, snapshot, out).problems
    assert not differences(tree, out)
    with (out / "large").open("r+b") as file:
        file.seek(40 << 20)
        file.write(b"changed")
    # It has two names, so it is replaced, not written to; then the other name follows.
    assert not run_restore(repository, snapshot, out).problems
    assert not differences(tree, out)
    (out / "name of large").unlink()
    with (out / "large").open("r+b") as file:
        file.seek(40 << 20)
        file.write(b"changed")
    seen = run_restore(repository, snapshot, out)
    assert seen.report.written_bytes == 1 << 20
    assert not differences(tree, out)


def test_patterns_choose_and_passed_directories_are_made_only_when_needed(
    repository, tree, tmp_path
):
    (tree / "barren").mkdir()
    (tree / "barren" / "file.txt").touch()
    snapshot = back_up(repository, os.fsencode(tree))
    includes = Patterns([(b"/sub/file", False), (b"l*", False)])
    seen = run_restore(repository, snapshot, tmp_path / "out", includes=includes)
    assert set(seen.actions()) == {b"link", b"sub", b"sub/file"}
    assert sorted(os.listdir(tmp_path / "out")) == ["link", "sub"]


def test_a_sub_path_goes_right_into_the_target(repository, tree, tmp_path):
    (tree / "sub").chmod(0o711)
    snapshot = back_up(repository, os.fsencode(tree))
    run_restore(repository, snapshot, tmp_path / "out", subpath=b"sub")
    assert sorted(os.listdir(tmp_path / "out")) == ["empty", "file"]
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o711
    run_restore(repository, snapshot, tmp_path / "one", subpath=b"sub/file")
    assert (tmp_path / "one" / "file").read_bytes() == b"snapshot"


def test_new_entries_inherit_nothing_from_the_target(repository, tree, tmp_path):
    snapshot = back_up(repository, os.fsencode(tree))
    out = tmp_path / "out"
    out.mkdir()
    acl = bytes.fromhex("0200000001000700ffffffff04000700ffffffff20000700ffffffff")
    try:
        os.setxattr(out, "system.posix_acl_default", acl)
    except OSError:
        pytest.skip("no ACLs here")
    out.chmod(0o2777)
    run_restore(repository, snapshot, out)
    os.removexattr(out, "system.posix_acl_default")
    out.chmod(stat.S_IMODE(tree.stat().st_mode))
    os.utime(out, ns=(0, tree.stat().st_mtime_ns))
    assert not differences(tree, out)


def test_counts_are_in_the_report(repository, tree, tmp_path):
    snapshot = back_up(repository, os.fsencode(tree))
    report = run_restore(repository, snapshot, tmp_path / "out").report
    assert report.actions[Action.CREATED] == 7
    assert report.written_bytes == 2 * len(b"snapshot")
    assert report.is_complete
