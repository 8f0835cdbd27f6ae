"""verify tells each difference between a snapshot and a tree by its kind, and no other."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kit.hand_backup import back_up
from strongroom.base.errors import OperatingSystemError, PathNotFoundError
from strongroom.base.progress import NullProgress
from strongroom.engine.scan.patterns import Patterns
from strongroom.engine.verify.options import LiveDifference, VerifyOptions
from strongroom.engine.verify.verify import verify

YEAR_2001 = (1_000_000_000, 1_000_000_000)


@dataclass
class Seen:
    differences: list[LiveDifference] = field(default_factory=list)

    def difference(self, difference: LiveDifference) -> None:
        self.differences.append(difference)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    (tree / "sub" / "deep").mkdir(parents=True)
    (tree / "sub" / "file").write_bytes(b"content")
    (tree / "sub" / "deep" / "big").write_bytes(os.urandom(3 << 20))
    (tree / "link").symlink_to("sub/file")
    os.link(tree / "sub" / "file", tree / "name")
    (tree / "hollow").mkdir()
    for path in ("sub/file", "sub/deep/big", "hollow", "sub/deep", "sub"):
        os.utime(tree / path, YEAR_2001)
    return tree


def found(repository, snapshot, root: Path, **choices: object) -> set[tuple[str, bytes]]:
    seen = Seen()
    options = VerifyOptions(os.fsencode(root), processes=2, **choices)  # type: ignore[arg-type]
    report = verify(repository, snapshot, options, lambda: nullcontext(NullProgress()), seen)
    assert sum(report.differences.values()) == len(seen.differences)
    return {(difference.kind, difference.path) for difference in seen.differences}


def test_an_untouched_tree_has_no_difference(repository, tree):
    snapshot = back_up(repository, os.fsencode(tree))
    assert not found(repository, snapshot, tree)
    assert not found(repository, snapshot, tree, reads_content=True, from_disk=True)


def test_extra_entries_are_not_known_without_a_record_of_what_was_left_out(repository, tree):
    snapshot = back_up(repository, os.fsencode(tree), records=False)
    (tree / "extra").touch()
    options = VerifyOptions(os.fsencode(tree), processes=1)
    report = verify(repository, snapshot, options, lambda: nullcontext(NullProgress()), Seen())
    assert "extra" not in report.differences
    assert not report.knows_extra


def test_content_that_differs_unseen_is_found_by_reading(repository, tree):
    snapshot = back_up(repository, os.fsencode(tree))
    with (tree / "sub" / "deep" / "big").open("r+b") as file:
        file.seek(2 << 20)
        file.write(b"x")
    (tree / "sub" / "file").write_bytes(b"CONTENT")
    for path in ("sub/deep/big", "sub/file"):
        os.utime(tree / path, YEAR_2001)
    assert not found(repository, snapshot, tree)
    assert found(repository, snapshot, tree, reads_content=True) == {
        ("content", b"sub/deep/big"),
        ("content", b"sub/file"),
        ("content", b"name"),
    }


def test_each_kind_of_change_is_told(repository, tree):
    snapshot = back_up(repository, os.fsencode(tree))
    (tree / "sub" / "file").write_bytes(b"longer content")
    (tree / "sub").chmod(0o700)
    (tree / "link").unlink()
    (tree / "link").symlink_to("elsewhere")
    (tree / "hollow" / "surplus").mkdir()
    (tree / "zzz").touch()
    (tree / "sub" / "deep" / "big").unlink()
    (tree / "sub" / "deep" / "big").mkdir()
    assert found(repository, snapshot, tree) - {("mtime", b"link")} == {
        ("size", b"sub/file"),
        ("size", b"name"),
        ("mtime", b"sub/file"),
        ("mtime", b"name"),
        ("mode", b"sub"),
        ("target", b"link"),
        ("mtime", b"hollow"),
        ("extra", b"hollow/surplus"),
        ("extra", b"zzz"),
        ("mtime", b"sub/deep"),
        ("type", b"sub/deep/big"),
    }


def test_a_missing_directory_is_told_once(repository, tree):
    snapshot = back_up(repository, os.fsencode(tree))
    os.rename(tree / "sub", tree.parent / "away")
    assert found(repository, snapshot, tree) == {("missing", b"sub")}


def test_names_that_are_no_longer_one_file_are_told(repository, tree):
    snapshot = back_up(repository, os.fsencode(tree))
    (tree / "name").unlink()
    (tree / "name").write_bytes(b"content")
    os.utime(tree / "name", YEAR_2001)
    assert [kind for kind, _ in found(repository, snapshot, tree)] == ["links"]


def test_a_directory_exchanged_for_a_link_is_not_followed(repository, tree, tmp_path):
    snapshot = back_up(repository, os.fsencode(tree))
    os.rename(tree / "sub", tmp_path / "moved")
    (tree / "sub").symlink_to(tmp_path / "moved")
    assert found(repository, snapshot, tree) == {("type", b"sub")}


def test_only_what_was_backed_up_can_have_extra_entries(repository, tree):
    snapshot = back_up(repository, os.fsencode(tree), paths=(b"/sub",))
    (tree / "of somebody else").touch()
    (tree / "sub" / "extra").touch()
    assert found(repository, snapshot, tree) == {("extra", b"sub/extra"), ("mtime", b"sub")}


def test_a_sub_path_and_patterns_narrow_it_down(repository, tree):
    snapshot = back_up(repository, os.fsencode(tree))
    (tree / "name").chmod(0o600)
    (tree / "extra").touch()
    assert found(repository, snapshot, tree, subpath=b"sub/deep") == set()
    excludes = Patterns([(b"name", False), (b"sub", False), (b"extra", False)])
    assert found(repository, snapshot, tree, excludes=excludes) == set()
    includes = Patterns([(b"file", False)])
    assert found(repository, snapshot, tree, includes=includes) == {("mode", b"sub/file")}
    assert found(repository, snapshot, tree / "sub", base=b"sub", subpath=b"sub") == {
        ("mode", b"file")
    }


def test_what_is_not_there_is_an_error(repository, tree):
    snapshot = back_up(repository, os.fsencode(tree))
    with pytest.raises(PathNotFoundError):
        found(repository, snapshot, tree, subpath=b"nope")
    with pytest.raises(OperatingSystemError):
        found(repository, snapshot, tree / "nope")
