"""Compare two trees attribute by attribute and list every difference.

    PYTHONPATH=appliance/engine/tests python -m kit.tree_compare EXPECTED ACTUAL

Compared are: presence, type, mode, owner, group, mtime to the nanosecond, size, bytes, holes,
symlink targets, device numbers, extended attributes, ACLs, chattr flags and the topology of hard
links. Both trees are walked together through directory descriptors, one of each side at a time;
memory holds the names of the directories on the way down and the hard-linked inodes, no content.
Exit code 0 when the trees are the same, 1 when they differ.
"""

from __future__ import annotations

import argparse
import json
import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from kit.attribute_compare import attribute_differences
from kit.content_compare import content_differences
from kit.difference import KINDS, Difference, shown
from kit.directory_descriptors import open_directory

Inode = tuple[int, int]


@dataclass
class HardLinks:
    """Which inode of one side means which of the other; a bijection when nothing differs."""

    actual_of: dict[Inode, Inode] = field(default_factory=dict)
    expected_of: dict[Inode, Inode] = field(default_factory=dict)

    def differences(
        self, path: bytes, expected: os.stat_result, actual: os.stat_result
    ) -> Iterator[Difference]:
        """Link counts that differ, and names joined to another inode than before."""
        if expected.st_nlink != actual.st_nlink:
            yield Difference(path, "link-count", str(expected.st_nlink), str(actual.st_nlink))
        if expected.st_nlink == 1 and actual.st_nlink == 1:
            return
        expected_inode = (expected.st_dev, expected.st_ino)
        actual_inode = (actual.st_dev, actual.st_ino)
        same_forth = self.actual_of.setdefault(expected_inode, actual_inode) == actual_inode
        same_back = self.expected_of.setdefault(actual_inode, expected_inode) == expected_inode
        if not same_forth:
            yield Difference(path, "hard-links", "joined to an earlier name", "an inode apart")
        elif not same_back:
            yield Difference(path, "hard-links", "an inode apart", "joined to an earlier name")


@dataclass
class Level:
    """One directory on the way down: the names both sides have that are still to be visited."""

    subdirectories: list[bytes]
    expected_inode: Inode
    actual_inode: Inode


@dataclass(frozen=True)
class Comparison:
    """What to leave out: kinds of difference, and sockets that only the expected side has."""

    ignored_kinds: frozenset[str] = frozenset()
    sockets_may_be_missing: bool = True

    def differences(self, expected_root: bytes, actual_root: bytes) -> Iterator[Difference]:
        """Every difference below and at the two roots, directory by directory."""
        for difference in _walk(expected_root, actual_root, self.sockets_may_be_missing):
            if difference.kind not in self.ignored_kinds:
                yield difference


def _inode(directory: int) -> Inode:
    found = os.fstat(directory)
    return found.st_dev, found.st_ino


def _names(directory: int) -> set[bytes]:
    with os.scandir(directory) as entries:
        return {os.fsencode(entry.name) for entry in entries}


def _kind_of_file(mode: int) -> str:
    kinds = {
        stat.S_IFREG: "file",
        stat.S_IFDIR: "directory",
        stat.S_IFLNK: "symlink",
        stat.S_IFIFO: "fifo",
        stat.S_IFSOCK: "socket",
        stat.S_IFCHR: "character device",
        stat.S_IFBLK: "block device",
    }
    return kinds[stat.S_IFMT(mode)]


def _presence(
    path: bytes, expected: int, actual: int, sockets_may_be_missing: bool
) -> Iterator[Difference | bytes]:
    """Differences of names, and the names that both sides have."""
    expected_names, actual_names = _names(expected), _names(actual)
    for name in sorted(expected_names - actual_names):
        kind = _kind_of_file(os.lstat(name, dir_fd=expected).st_mode)
        if not (kind == "socket" and sockets_may_be_missing):
            yield Difference(path + name, "missing", kind, "nothing")
    for name in sorted(actual_names - expected_names):
        kind = _kind_of_file(os.lstat(name, dir_fd=actual).st_mode)
        yield Difference(path + name, "extra", "nothing", kind)
    yield from sorted(expected_names & actual_names)


def _directory(
    path: bytes, expected: int, actual: int, links: HardLinks, sockets_may_be_missing: bool
) -> Iterator[Difference | bytes]:
    """Differences of the entries of one directory, and the names of subdirectories to visit."""
    for found in _presence(path, expected, actual, sockets_may_be_missing):
        if isinstance(found, Difference):
            yield found
            continue
        name = found
        expected_stat = os.lstat(name, dir_fd=expected)
        actual_stat = os.lstat(name, dir_fd=actual)
        expected_kind, actual_kind = map(
            _kind_of_file, (expected_stat.st_mode, actual_stat.st_mode)
        )
        if expected_kind != actual_kind:
            yield Difference(path + name, "type", expected_kind, actual_kind)
            continue
        yield from attribute_differences(
            path + name, name, (expected, actual), (expected_stat, actual_stat)
        )
        if expected_kind == "directory":
            yield name
            continue
        yield from links.differences(path + name, expected_stat, actual_stat)
        if expected_kind == "file":
            yield from content_differences(path + name, name, expected, actual)


def _descend(name: bytes, sides: tuple[int, int]) -> tuple[int, int]:
    """Descriptors of `name` on both sides, each one that can be searched and climbed out of."""
    below: list[int] = []
    try:
        for side in sides:
            below.append(open_directory(name, side))
            os.stat(b".", dir_fd=below[-1])
    except PermissionError:
        for directory in below:
            os.close(directory)
        raise
    return below[0], below[1]


def _climb(directory: int, wanted: Inode) -> int:
    above = open_directory(b"..", directory)
    if _inode(above) != wanted:
        os.close(above)
        raise RuntimeError("a directory was moved while the trees were compared")
    return above


def _walk(
    expected_root: bytes, actual_root: bytes, sockets_may_be_missing: bool
) -> Iterator[Difference]:
    links = HardLinks()
    expected, actual = open_directory(expected_root), -1
    levels: list[Level] = []
    trail: list[bytes] = []
    path = b""
    try:
        actual = open_directory(actual_root)
        yield from attribute_differences(
            b".", b".", (expected, actual), (os.fstat(expected), os.fstat(actual))
        )
        arriving: bytes | None = b"."
        while True:
            if arriving is not None:
                if levels:
                    trail.append(arriving)
                path = b"".join(name + b"/" for name in trail)
                subdirectories: list[bytes] = []
                for found in _directory(path, expected, actual, links, sockets_may_be_missing):
                    if isinstance(found, Difference):
                        yield found
                    else:
                        subdirectories.append(found)
                subdirectories.reverse()
                levels.append(Level(subdirectories, _inode(expected), _inode(actual)))
            if levels[-1].subdirectories:
                arriving = levels[-1].subdirectories.pop()
                try:
                    below = _descend(arriving, (expected, actual))
                except PermissionError as error:
                    reason = error.strerror or "refused"
                    yield Difference(path + arriving, "unreadable", "directory", reason)
                    arriving = None
                    continue
                os.close(expected)
                os.close(actual)
                expected, actual = below
                continue
            levels.pop()
            if not levels:
                return
            trail.pop()
            path = b"".join(name + b"/" for name in trail)
            arriving = None
            above = _climb(expected, levels[-1].expected_inode)
            os.close(expected)
            expected = above
            above = _climb(actual, levels[-1].actual_inode)
            os.close(actual)
            actual = above
    finally:
        os.close(expected)
        if actual >= 0:
            os.close(actual)


def compare_trees(
    expected_root: bytes,
    actual_root: bytes,
    *,
    ignored_kinds: frozenset[str] = frozenset(),
    sockets_may_be_missing: bool = True,
) -> list[Difference]:
    """All differences between two trees, in the order of the walk; empty when there are none.

    `ignored_kinds` are names of `difference.KINDS`. Sockets are what a backup leaves out, so a
    socket that only the expected side has is no difference unless asked for.
    """
    unknown = ignored_kinds - KINDS
    if unknown:
        raise ValueError(f"no such kinds of difference: {sorted(unknown)}")
    comparison = Comparison(ignored_kinds, sockets_may_be_missing)
    return list(comparison.differences(expected_root, actual_root))


def main() -> int:
    """Command line: list the differences, one a line, and count them."""
    parser = argparse.ArgumentParser(description="Compare two trees attribute by attribute.")
    parser.add_argument("expected", type=os.fsencode)
    parser.add_argument("actual", type=os.fsencode)
    parser.add_argument("--ignore", action="append", default=[], choices=sorted(KINDS))
    parser.add_argument("--sockets", action="store_true", help="a missing socket counts too")
    parser.add_argument("--json", action="store_true", help="one object a line")
    arguments = parser.parse_args()
    comparison = Comparison(frozenset(arguments.ignore), not arguments.sockets)
    count = 0
    for difference in comparison.differences(arguments.expected, arguments.actual):
        count += 1
        if arguments.json:
            print(json.dumps(difference.as_object()))
        else:
            print(
                f"{difference.kind}: {shown(difference.path)}: "
                f"expected {difference.expected}, found {difference.actual}"
            )
    if not arguments.json:
        print(f"{count} differences")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
