"""The tree: counted exactly, and costs that are there."""

import os
import struct
import tempfile

import pytest

from strongroom.base.errors import UsageError
from strongroom.cli.measure.processor import machine
from strongroom.cli.measure.profile import Profile, parse_profile, profile_json
from strongroom.cli.measure.tree import measure_tree


def silent(text):
    """What is reported each step is not shown."""
    assert text


def test_a_tree_is_counted_and_its_content_sampled(tmp_path):
    for number in range(30):
        folder = tmp_path / f"d{number % 3}"
        folder.mkdir(exist_ok=True)
        (folder / str(number)).write_bytes(b"some text " * (100 + number))
    (tmp_path / "link").symlink_to("/nowhere")
    os.mkfifo(tmp_path / "pipe")
    tree, notes = measure_tree(str(tmp_path), 1, cold=False, tell=silent)
    assert (tree.files, tree.directories) == (32, 4)
    assert tree.size_bytes == sum(10 * (100 + number) for number in range(30))
    assert tree.largest_bytes == 1290
    assert [walk.state for walk in tree.walks] == ["first", "warm"]
    assert all(walk.entries == 36 and walk.seconds > 0 for walk in tree.walks)
    assert all(0 < walk.processor_seconds <= walk.seconds + 1e-3 for walk in tree.walks)
    assert tree.attributes_us > 0
    assert tree.open_us > 0
    assert tree.sampled == 30
    assert tree.content_bytes_per_second > 0
    assert tree.ratio > 3
    assert notes == []


# An ACL as the kernel takes it: version, then tag, permissions and id of each entry.
ACL = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, permissions, who)
    for tag, permissions, who in (
        (1, 6, 0xFFFFFFFF), (2, 4, 12345), (4, 4, 0xFFFFFFFF), (16, 4, 0xFFFFFFFF),
        (32, 4, 0xFFFFFFFF),
    )
)  # fmt: skip


def test_acls_are_told_apart_from_other_attributes(tmp_path):
    for number in range(10):
        (tmp_path / str(number)).write_text("text")
    os.setxattr(tmp_path / "1", "system.posix_acl_access", ACL)
    os.setxattr(tmp_path, "system.posix_acl_default", ACL)
    for name in ("user.one", "user.two"):
        os.setxattr(tmp_path / "2", name, b"value")
    tree, _ = measure_tree(str(tmp_path), 0.05, cold=False, tell=silent)
    found = tree.attributes
    assert found.is_supported
    assert found.sampled == 11
    assert found.list_us > 0
    assert (found.acls.entries, found.acls.values) == (2, 2)
    assert (found.others.entries, found.others.values) == (1, 2)
    assert found.acls.read_us > 0
    assert found.others.read_us > 0
    assert tree.attributes_us > found.list_us


def test_a_tree_without_attributes_costs_what_listing_costs(tmp_path):
    (tmp_path / "file").write_text("text")
    tree, _ = measure_tree(str(tmp_path), 0.05, cold=False, tell=silent)
    assert tree.attributes.acls == tree.attributes.others
    assert (tree.attributes.acls.entries, tree.attributes.acls.read_us) == (0, 0.0)
    assert tree.attributes_us == tree.attributes.list_us


def test_reads_are_counted_or_it_is_said_why_not(tmp_path):
    tree, _ = measure_tree(str(tmp_path), 0.05, cold=False, tell=silent)
    is_counted = all(walk.read_ios is not None for walk in tree.walks)
    assert is_counted == (tree.reads_uncounted == "")
    # Memory has no block device, wherever this runs.
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        tree, _ = measure_tree(folder, 0.05, cold=False, tell=silent)
    assert all(walk.read_ios is None for walk in tree.walks)
    assert tree.reads_uncounted == (
        "the kernel counts reads by block device, and tmpfs has none of its own"
    )


def test_noise_is_not_compressed(tmp_path):
    (tmp_path / "noise").write_bytes(os.urandom(3 << 20))
    tree, _ = measure_tree(str(tmp_path), 1, cold=False, tell=silent)
    assert tree.ratio == pytest.approx(1.0, abs=0.01)


def test_an_empty_folder_and_no_folder(tmp_path):
    tree, _ = measure_tree(str(tmp_path), 1, cold=False, tell=silent)
    assert (tree.files, tree.directories, tree.size_bytes) == (0, 1, 0)
    with pytest.raises(UsageError, match="folder"):
        measure_tree(str(tmp_path / "none"), 1, cold=False, tell=silent)


def test_a_folder_whose_name_is_no_text_can_be_written_down(tmp_path):
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    os.mkdir(folder)
    tree, _ = measure_tree(folder, 0.05, cold=False, tell=silent)
    profile = Profile("now", machine(), tree=tree)
    assert parse_profile(profile_json(profile)) == profile
