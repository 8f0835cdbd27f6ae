"""The torture tree holds what it says, says what it had to leave out, and can be removed."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from kit.directory_descriptors import IMMUTABLE, PATH_MAX_BYTES, get_flags, open_inode
from kit.killed_process import NOBODY, in_child
from kit.torture_tree import FEATURES, make_tree, torture_tree
from kit.tree_compare import compare_trees
from kit.tree_removal import remove_tree

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

# What a file system may lack while its kernel and our rights are in order.
MAY_BE_REFUSED_TO_ROOT = {
    "times-before-1970",
    "times-after-2038",
    "xattrs-64-kib",
    "sparse-huge",
    "preallocated",
    "flags",
    "flags-protective",
}
NEEDS_ROOT = {
    "hard-links-of-devices",
    "devices",
    "modes-unreadable",
    "directory-modes-impassable",
    "owners",
    "set-group-directories",
    "xattrs-trusted",
    "xattrs-security",
    "capabilities",
    "flags-protective",
}


def test_root_gets_every_feature_the_file_system_can_hold(tmp_path: Path) -> None:
    root = os.fsencode(tmp_path / "tree")
    with torture_tree(root) as made:
        assert set(made.features) | set(made.refused) == set(FEATURES)
        allowed = MAY_BE_REFUSED_TO_ROOT | (NEEDS_ROOT if os.geteuid() else set())
        assert set(made.refused) <= allowed, made.refused
        assert {os.fsencode(name) for name in os.listdir(root)} == {
            name.encode() for name in made.features
        }
        assert compare_trees(root, root, sockets_may_be_missing=False) == []
    assert not os.path.exists(root)


def test_paths_go_beyond_path_max_and_python_s_stack(tmp_path: Path) -> None:
    root = os.fsencode(tmp_path / "tree")
    with torture_tree(root, ["path-past-path-max", "deep-nesting"]):
        listed = subprocess.run(["find", root, "-print0"], capture_output=True, check=True).stdout
        lengths = [len(path) for path in listed.split(b"\0")]
        assert max(lengths) > 2 * PATH_MAX_BYTES
        assert max(path.count(b"/") for path in listed.split(b"\0")) > 2_000


def test_names_hold_every_byte(tmp_path: Path) -> None:
    with torture_tree(
        os.fsencode(tmp_path / "tree"), ["names-every-byte", "names-longest"]
    ) as made:
        names = os.listdir(made.root + b"/names-every-byte")
        assert set(b"".join(map(os.fsencode, names))) == set(range(256)) - {0, ord("/")}
        assert max(map(len, os.listdir(made.root + b"/names-longest"))) == 255


def test_sparse_files_occupy_little_and_claim_much(tmp_path: Path) -> None:
    with torture_tree(os.fsencode(tmp_path / "tree"), ["sparse-huge"]) as made:
        if made.refused:
            pytest.skip(made.refused["sparse-huge"])
        stats = [entry.stat() for entry in os.scandir(made.root + b"/sparse-huge")]
        assert sum(found.st_size for found in stats) > 2 << 40
        assert sum(found.st_blocks * 512 for found in stats) < 1 << 20


@ROOT_ONLY
def test_a_careless_copy_is_found_out_in_most_features(tmp_path: Path) -> None:
    """cp -a is not a backup program: each of these features must show what it loses."""
    careless = ["flags", "flags-protective", "sparse", "hard-links", "times", "owners", "acls"]
    with torture_tree(os.fsencode(tmp_path / "tree"), careless) as made:
        copy = tmp_path / "copy"
        subprocess.run(
            ["cp", "-r", "--no-preserve=all", "--sparse=never", tmp_path / "tree", copy],
            capture_output=True,
            check=False,
        )
        found = compare_trees(made.root, os.fsencode(copy))
        seen = {difference.path.split(b"/")[0].decode() for difference in found}
        assert set(made.features) <= seen
        kinds = {difference.kind for difference in found}
        assert {"mode", "owner", "group", "mtime", "acl", "holes", "hard-links"} <= kinds
        remove_tree(os.fsencode(copy))


@ROOT_ONLY
def test_immutable_trees_are_removed_where_plain_removal_fails(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    made = make_tree(os.fsencode(root), ["flags-protective", "directory-modes-impassable"])
    try:
        if "flags-protective" in made.refused:
            pytest.skip(made.refused["flags-protective"])
        directory = os.open(root / "flags-protective", os.O_RDONLY)
        with open_inode(b"immutable", directory) as descriptor:
            assert get_flags(descriptor) & IMMUTABLE
        os.close(directory)
        with pytest.raises(PermissionError):
            shutil.rmtree(root)
    finally:
        remove_tree(made.root)
    assert not root.exists()


@ROOT_ONLY
def test_without_root_the_rest_is_made_and_the_missing_is_told(public_folder: Path) -> None:
    home = public_folder / "home"
    home.mkdir()
    os.chown(home, NOBODY, NOBODY)

    def make_and_remove() -> None:
        root = os.fsencode(home / "tree")
        made = make_tree(root)
        assert compare_trees(root, root, sockets_may_be_missing=False) == []
        remove_tree(root)
        assert NEEDS_ROOT <= set(made.refused) <= NEEDS_ROOT | MAY_BE_REFUSED_TO_ROOT
        assert not os.listdir(home)

    assert in_child(make_and_remove, NOBODY) == 0


def test_a_failure_that_is_no_refusal_is_an_error(tmp_path: Path) -> None:
    root = os.fsencode(tmp_path / "tree")
    os.mkdir(root)
    with pytest.raises(FileExistsError):
        make_tree(root)


@ROOT_ONLY
def test_every_large_device_number_is_kept(tmp_path: Path) -> None:
    with torture_tree(os.fsencode(tmp_path / "tree"), ["devices"]) as made:
        numbers = {
            (os.major(found.st_rdev), os.minor(found.st_rdev), stat.S_ISBLK(found.st_mode))
            for found in (entry.stat() for entry in os.scandir(made.root + b"/devices"))
        }
        assert {(4_095, 1_048_575, True), (4_095, 1_048_575, False)} <= numbers
