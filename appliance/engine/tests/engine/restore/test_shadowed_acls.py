"""ACLs on XFS, which shows root each of them a second time as `trusted.SGI_ACL_FILE`."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from kit.hand_backup import back_up
from kit.observed_restore import run_restore
from kit.xfs_mount import mounted_xfs
from strongroom.base.progress import NullProgress
from strongroom.engine.rows.rows import Rows
from strongroom.engine.scan.attributes import encode_xattrs, read_xattrs
from strongroom.engine.verify.options import LiveDifference, VerifyOptions
from strongroom.engine.verify.verify import verify

ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
# The owner rw, user 1234 rwx, the group nothing, the mask rwx, others nothing: mode 0670.
ENTRIES = ((1, 6, -1), (2, 7, 1234), (4, 0, -1), (16, 7, -1), (32, 0, -1))
ACL = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, rights, who & 0xFFFFFFFF) for tag, rights, who in ENTRIES
)
KEEPS = pytest.mark.parametrize("keeps", [False, True])


@pytest.fixture
def xfs(tmp_path: Path) -> Iterator[Path]:
    with mounted_xfs(tmp_path / "xfs"):
        yield tmp_path / "xfs"


class Differences(list[LiveDifference]):
    def difference(self, difference: LiveDifference) -> None:
        self.append(difference)


def make_tree(tree: Path) -> Path:
    (tree / "folder").mkdir(parents=True)
    (tree / "folder" / "file").write_text("for user 1234 only")
    os.setxattr(tree / "folder" / "file", ACCESS, ACL)
    os.setxattr(tree / "folder", ACCESS, ACL)
    os.setxattr(tree / "folder", DEFAULT, ACL)
    return tree


def has_its_acls(tree: Path) -> bool:
    folder, file = tree / "folder", tree / "folder" / "file"
    return os.getxattr(folder, DEFAULT) == ACL and all(
        os.getxattr(path, ACCESS) == ACL and stat.S_IMODE(path.stat().st_mode) == 0o670
        for path in (folder, file)
    )


def differences(repository, snapshot, root: Path, keeps: bool) -> list[LiveDifference]:
    seen = Differences()
    options = VerifyOptions(
        os.fsencode(root), processes=1, after_restore=True, keeps_privileges=keeps
    )
    verify(repository, snapshot, options, lambda: nullcontext(NullProgress()), seen)
    return seen


@KEEPS
@pytest.mark.parametrize("is_from_xfs", [False, True])
def test_a_repeated_restore_onto_xfs_keeps_them(repository, tmp_path, xfs, is_from_xfs, keeps):
    tree = make_tree((xfs if is_from_xfs else tmp_path) / "tree")
    snapshot = back_up(repository, os.fsencode(tree))
    for _ in range(2):
        seen = run_restore(repository, snapshot, xfs / "out", keeps_privileges=keeps)
        assert not seen.problems
        assert not seen.left, "an ACL is not a privilege"
        assert has_its_acls(xfs / "out")
        assert not differences(repository, snapshot, xfs / "out", keeps)
    assert set(seen.actions().values()) == {"unchanged"}


@KEEPS
def test_what_is_surplus_beside_them_goes_alone(repository, tmp_path, xfs, keeps):
    snapshot = back_up(repository, os.fsencode(make_tree(tmp_path / "tree")))
    run_restore(repository, snapshot, xfs / "out", keeps_privileges=keeps)
    file = xfs / "out" / "folder" / "file"
    for name in ("trusted.surplus", "user.surplus"):
        os.setxattr(file, name, b"x")
    run_restore(repository, snapshot, xfs / "out", keeps_privileges=keeps)
    assert has_its_acls(xfs / "out")
    assert not {name for name in os.listxattr(file) if "surplus" in name}


def test_surplus_acls_go_with_their_shadows(repository, tmp_path, xfs):
    plain = tmp_path / "tree"
    (plain / "folder").mkdir(parents=True)
    (plain / "folder" / "file").write_text("for user 1234 only")
    snapshot = back_up(repository, os.fsencode(plain))
    make_tree(xfs / "out")
    seen = run_restore(repository, snapshot, xfs / "out")
    assert not seen.problems
    assert os.listxattr(xfs / "out" / "folder") == []
    assert os.listxattr(xfs / "out" / "folder" / "file") == []


def test_a_backup_without_acls_has_no_shadow_of_them_either(xfs):
    make_tree(xfs / "tree")
    os.setxattr(xfs / "tree" / "folder", "user.note", b"kept")
    found, failures = read_xattrs([os.fsencode(xfs / "tree" / "folder")], [0], acls=False)
    assert not failures
    assert found == {0: encode_xattrs([(b"user.note", b"kept")])}


@KEEPS
def test_shadows_in_older_snapshots_are_nothing_to_restore(repository, tmp_path, keeps):
    tree = make_tree(tmp_path / "tree")

    def add_shadow(rows: Rows) -> None:
        for number, encoded in rows.xattrs.items():
            pairs = [(os.fsencode(ACCESS), ACL), (b"trusted.SGI_ACL_FILE", b"as XFS stores it")]
            if os.fsencode(DEFAULT) in encoded:
                pairs.append((os.fsencode(DEFAULT), ACL))
            rows.xattrs[number] = encode_xattrs(pairs)

    snapshot = back_up(repository, os.fsencode(tree), edit=add_shadow)
    seen = run_restore(repository, snapshot, tmp_path / "out", keeps_privileges=keeps)
    assert not seen.problems
    assert not seen.left
    assert has_its_acls(tmp_path / "out")
    assert "trusted.SGI_ACL_FILE" not in os.listxattr(tmp_path / "out" / "folder" / "file")
    assert not differences(repository, snapshot, tmp_path / "out", keeps)
