"""The comparer finds every kind of difference that is planted, and nothing where there is none."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kit.content_compare import data_extents
from kit.difference import KINDS, Difference, shown
from kit.directory_descriptors import get_flags, open_inode, set_flags
from kit.killed_process import NOBODY, in_child
from kit.torture_attributes import ACL_ACCESS, ACL_DEFAULT, acl
from kit.tree_compare import compare_trees
from kit.tree_removal import remove_tree

TIME_NS = 1_111_111_111_222_222_222
NO_DUMP = 0x40
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def _acl(user: int, group_permissions: int, mask: int) -> bytes:
    return acl(
        (1, 7 if mask == 5 else 6, 2**32 - 1),
        (2, 4, user),
        (4, group_permissions, 2**32 - 1),
        (16, mask, 2**32 - 1),
        (32, mask & 5, 2**32 - 1),
    )


ACL_ONE = _acl(1000, 4, 6)
ACL_TWO = _acl(1001, 4, 6)
ACL_LIKE_MODE_755 = _acl(1000, 5, 5)

Plant = Callable[[Path], None]


def _sample(root: Path) -> None:
    (root / "directory/below").mkdir(parents=True)
    (root / "file").write_bytes(b"content" * 1000)
    (root / "directory/below/deep").write_bytes(b"deep")
    (root / "symlink").symlink_to("file")
    os.mkfifo(root / "fifo")
    os.link(root / "file", root / "linked")
    (root / "apart").write_bytes(b"content" * 1000)
    for twin in ("twin-a", "twin-b"):
        (root / twin).write_bytes(b"twin")
    with (root / "sparse").open("wb") as file:
        file.write(b"x" * 65_536)
        file.truncate(1 << 20)
    os.setxattr(root / "file", "user.key", b"value")
    os.setxattr(root / "directory", "user.key", b"")
    os.setxattr(root / "apart", ACL_ACCESS, ACL_ONE)
    os.setxattr(root / "directory", ACL_DEFAULT, ACL_ONE)
    if os.geteuid() == 0:
        os.mknod(root / "device", stat.S_IFCHR | 0o600, os.makedev(1, 3))
        os.setxattr(root / "symlink", "trusted.key", b"value", follow_symlinks=False)
        os.chown(root / "fifo", 7, 8)
    for path in (root, *root.rglob("*")):
        os.utime(path, ns=(TIME_NS, TIME_NS), follow_symlinks=False)


def new_pair(folder: Path) -> tuple[Path, Path]:
    trees = folder / "expected", folder / "actual"
    for tree in trees:
        tree.mkdir()
        _sample(tree)
    return trees


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """Two trees alike in everything; what a test makes of them is removed, flags and all."""
    trees = new_pair(tmp_path)
    yield trees
    for tree in trees:
        remove_tree(os.fsencode(tree))


def _found(pair: tuple[Path, Path]) -> list[Difference]:
    return compare_trees(os.fsencode(pair[0]), os.fsencode(pair[1]))


def _replaced(path: Path) -> None:
    metadata = path.lstat()
    path.unlink()
    path.write_bytes(b"content" * 1000)
    os.chmod(path, stat.S_IMODE(metadata.st_mode))
    os.setxattr(path, "user.key", b"value")


def _one_byte(root: Path) -> None:
    with (root / "apart").open("r+b") as file:
        file.seek(6_999)
        file.write(b"!")


def _hole_filled(root: Path) -> None:
    with (root / "sparse").open("r+b") as file:
        file.seek(65_536)
        file.write(bytes((1 << 20) - 65_536))


def _hole_in_zeros(root: Path) -> None:
    (root / "sparse").unlink()
    with (root / "sparse").open("wb") as file:
        file.truncate(1 << 20)
        file.seek((1 << 20) - 4096)
        file.write(b"x" * 4096)


def _no_dump(path: Path) -> None:
    with open_inode(os.fsencode(path)) as descriptor:
        set_flags(descriptor, get_flags(descriptor) | NO_DUMP)


def _joined(root: Path) -> None:
    (root / "twin-b").unlink()
    os.link(root / "twin-a", root / "twin-b")


def _symlink_elsewhere(root: Path) -> None:
    (root / "symlink").unlink()
    (root / "symlink").symlink_to("apart")
    if os.geteuid() == 0:
        os.setxattr(root / "symlink", "trusted.key", b"value", follow_symlinks=False)


def _file_for_fifo(root: Path) -> None:
    (root / "fifo").unlink()
    (root / "fifo").touch()


def _symlink_for_directory(root: Path) -> None:
    (root / "directory").rename(root.parent / "away")
    (root / "directory").symlink_to("../away")


def _access_acl_on_directory(root: Path) -> None:
    os.setxattr(root / "directory", ACL_ACCESS, ACL_LIKE_MODE_755)


PLANTS: list[tuple[str, str, set[str], Plant]] = [
    (
        "a file is gone",
        "directory/below/deep",
        {"missing"},
        lambda r: (r / "directory/below/deep").unlink(),
    ),
    ("a file is new", "directory/new\xff", {"extra"}, lambda r: (r / "directory/new\xff").touch()),
    ("an empty directory is gone", "fifo", {"missing"}, lambda r: (r / "fifo").unlink()),
    ("another permission", "apart", {"mode", "acl"}, lambda r: (r / "apart").chmod(0o600)),
    ("setuid lost", "fifo", {"mode"}, lambda r: (r / "fifo").chmod(0o6644)),
    ("directory's sticky bit", "directory", {"mode"}, lambda r: (r / "directory").chmod(0o1755)),
    ("one byte at the end", "apart", {"content"}, _one_byte),
    ("xattr value", "file", {"xattr"}, lambda r: os.setxattr(r / "file", "user.key", b"VALUE")),
    ("xattr gone", "file", {"xattr"}, lambda r: os.removexattr(r / "file", "user.key")),
    ("xattr new and empty", "apart", {"xattr"}, lambda r: os.setxattr(r / "apart", "user.e", b"")),
    (
        "empty xattr of a directory gone",
        "directory",
        {"xattr"},
        lambda r: os.removexattr(r / "directory", "user.key"),
    ),
    (
        "ACL names another user",
        "apart",
        {"acl"},
        lambda r: os.setxattr(r / "apart", ACL_ACCESS, ACL_TWO),
    ),
    ("ACL appears", "directory", {"acl"}, _access_acl_on_directory),
    (
        "default ACL gone",
        "directory",
        {"acl"},
        lambda r: os.removexattr(r / "directory", ACL_DEFAULT),
    ),
    ("symlink leads elsewhere", "symlink", {"target"}, _symlink_elsewhere),
    ("holes filled with zeros", "sparse", {"holes"}, _hole_filled),
    ("data where a hole was and the reverse", "sparse", {"holes", "content"}, _hole_in_zeros),
    (
        "file longer by a zero",
        "sparse",
        {"size"},
        lambda r: os.truncate(r / "sparse", (1 << 20) + 1),
    ),
    ("file for a FIFO", "fifo", {"type"}, _file_for_fifo),
    ("symlink for a directory", "directory", {"type"}, _symlink_for_directory),
    ("chattr +d of a file", "file", {"flags"}, lambda r: _no_dump(r / "file")),
    (
        "chattr +d of a directory",
        "directory/below",
        {"flags"},
        lambda r: _no_dump(r / "directory/below"),
    ),
    ("hard link broken", "linked", {"hard-links", "link-count"}, lambda r: _replaced(r / "linked")),
    ("hard link too many", "twin-b", {"link-count", "hard-links"}, _joined),
    (
        "link from outside",
        "sparse",
        {"link-count"},
        lambda r: os.link(r / "sparse", r.parent / "outside"),
    ),
]


@pytest.mark.parametrize(
    ("path", "kinds", "plant"), [p[1:] for p in PLANTS], ids=[p[0] for p in PLANTS]
)
def test_a_planted_difference_is_found(
    pair: tuple[Path, Path], path: str, kinds: set[str], plant: Plant
) -> None:
    plant(pair[1])
    for root in pair:
        for entry in (root, *root.rglob("*")):
            os.utime(entry, ns=(TIME_NS, TIME_NS), follow_symlinks=False)
    found = _found(pair)
    at_path = {difference.kind for difference in found if difference.path == os.fsencode(path)}
    assert at_path == kinds
    assert {difference.kind for difference in found} <= kinds
    back = compare_trees(os.fsencode(pair[1]), os.fsencode(pair[0]))
    assert back, "the comparison is blind in one direction"


@pytest.mark.parametrize("name", ["file", "directory", "symlink", "fifo", "."])
@pytest.mark.parametrize("off_ns", [1, -1, 1_000_000_000])
def test_a_nanosecond_of_mtime_is_found(pair: tuple[Path, Path], name: str, off_ns: int) -> None:
    os.utime(pair[1] / name, ns=(TIME_NS, TIME_NS + off_ns), follow_symlinks=False)
    expected = Difference(name.encode(), "mtime", str(TIME_NS), str(TIME_NS + off_ns))
    # `linked` is the same inode as `file`, so it shows the same difference.
    assert [found for found in _found(pair) if found.path != b"linked"] == [expected]


@ROOT_ONLY
@pytest.mark.parametrize("name", ["file", "directory", "symlink", "fifo", "device"])
def test_owner_and_group_are_found_apart(pair: tuple[Path, Path], name: str) -> None:
    os.chown(pair[1] / name, 4_000_000_000, -1, follow_symlinks=False)
    assert {found.kind for found in _found(pair)} == {"owner"}
    os.chown(pair[0] / name, 4_000_000_000, 3_999_999_999, follow_symlinks=False)
    assert {found.kind for found in _found(pair)} == {"group"}


@ROOT_ONLY
def test_a_device_of_another_number_is_found(pair: tuple[Path, Path]) -> None:
    (pair[1] / "device").unlink()
    os.mknod(pair[1] / "device", stat.S_IFCHR | 0o600, os.makedev(1, 5))
    os.utime(pair[1] / "device", ns=(TIME_NS, TIME_NS))
    os.utime(pair[1], ns=(TIME_NS, TIME_NS))
    assert _found(pair) == [Difference(b"device", "device", "1:3", "1:5")]


@ROOT_ONLY
def test_an_xattr_of_a_symlink_is_found(pair: tuple[Path, Path]) -> None:
    os.removexattr(pair[1] / "symlink", "trusted.key", follow_symlinks=False)
    assert [(found.path, found.kind) for found in _found(pair)] == [(b"symlink", "xattr")]


@ROOT_ONLY
def test_a_lost_capability_is_found(pair: tuple[Path, Path]) -> None:
    value = bytes.fromhex("0100000200200000000000000000000000000000")
    for root in pair:
        os.setxattr(root / "apart", "security.capability", value)
    assert _found(pair) == []
    os.chown(pair[1] / "apart", 0, 0)
    assert [(found.path, found.kind) for found in _found(pair)] == [(b"apart", "xattr")]


def test_links_swapped_between_two_groups_of_equal_files_are_found(tmp_path: Path) -> None:
    for tree, partners in (("expected", "abab"), ("actual", "abba")):
        root = tmp_path / tree
        root.mkdir()
        for number, partner in enumerate(partners):
            if number < 2:
                (root / f"{number}").write_bytes(b"same")
            else:
                os.link(root / f"{'ab'.index(partner)}", root / f"{number}")
        for entry in (root, *root.iterdir()):
            os.utime(entry, ns=(TIME_NS, TIME_NS))
    found = _found((tmp_path / "expected", tmp_path / "actual"))
    assert {(difference.path, difference.kind) for difference in found} == {
        (b"2", "hard-links"),
        (b"3", "hard-links"),
    }


def test_equal_trees_show_no_difference(pair: tuple[Path, Path]) -> None:
    assert _found(pair) == []


def test_a_socket_left_out_counts_only_when_asked_for(pair: tuple[Path, Path]) -> None:
    os.mknod(pair[0] / "socket", stat.S_IFSOCK | 0o600)
    os.utime(pair[0], ns=(TIME_NS, TIME_NS))
    assert _found(pair) == []
    strict = compare_trees(*map(os.fsencode, pair), sockets_may_be_missing=False)
    assert strict == [Difference(b"socket", "missing", "socket", "nothing")]


def test_ignored_kinds_are_left_out_and_others_are_not(pair: tuple[Path, Path]) -> None:
    os.utime(pair[1] / "fifo", ns=(0, 0))
    (pair[1] / "fifo").chmod(0o777)
    found = compare_trees(*map(os.fsencode, pair), ignored_kinds=frozenset({"mtime"}))
    assert [difference.kind for difference in found] == ["mode"]
    with pytest.raises(ValueError, match="kinds"):
        compare_trees(*map(os.fsencode, pair), ignored_kinds=frozenset({"mtimes"}))


def test_a_terabyte_with_one_byte_is_compared_without_reading_its_holes(tmp_path: Path) -> None:
    for tree, byte in (("expected", b"1"), ("actual", b"2")):
        (tmp_path / tree).mkdir()
        with (tmp_path / tree / "file").open("wb") as file:
            file.truncate(1 << 40)
            file.seek(1 << 39)
            file.write(byte)
    os.utime(tmp_path / "expected/file", ns=(TIME_NS, TIME_NS))
    os.utime(tmp_path / "actual/file", ns=(TIME_NS, TIME_NS))
    found = compare_trees(
        os.fsencode(tmp_path / "expected"),
        os.fsencode(tmp_path / "actual"),
        ignored_kinds=frozenset({"mtime"}),
    )
    assert found == [
        Difference(b"file", "content", "the same bytes", f"others from offset {1 << 39}")
    ]


def test_data_extents_end_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.truncate(1 << 20)
        file.seek((1 << 20) - 5)
        file.write(b"12345")
    with path.open("rb") as file:
        extents = data_extents(file.fileno())
    assert len(extents) == 1
    assert extents[0][1] == 1 << 20
    assert extents[0][0] > 0


def test_a_path_is_shown_without_control_bytes() -> None:
    assert shown(b"a\n\xff\\b") == r"a\x0a\xff\x5cb"
    assert len(shown(b"x" * 5000)) < 250


def test_every_kind_of_difference_is_planted_somewhere() -> None:
    planted = set().union(*(plant[2] for plant in PLANTS))
    # mtime, owner, group and device have their own tests above; unreadable has one below.
    assert planted | {"mtime", "owner", "group", "device", "unreadable"} == KINDS


@ROOT_ONLY
def test_what_may_not_be_read_is_a_difference(public_folder: Path) -> None:
    pair = new_pair(public_folder)
    for root in pair:
        for name in ("apart", "directory/below"):
            (root / name).chmod(0o000)
        (root / "directory").chmod(0o644 if root == pair[0] else 0o755)

    def compare() -> None:
        found = {(difference.path, difference.kind) for difference in _found(pair)}
        right = {(b"apart", "unreadable"), (b"directory", "unreadable"), (b"directory", "mode")}
        assert found == right

    assert in_child(compare, NOBODY) == 0
