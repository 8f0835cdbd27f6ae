"""The tree: counted exactly, and costs that are there."""

import os

import pytest

from strongroom.errors import UsageError
from strongroom.measure.processor import machine
from strongroom.measure.profile import Profile, parse_profile, profile_json
from strongroom.measure.tree import measure_tree


def silent(text):
    """What is told of each step is not shown."""
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


def test_noise_is_not_compressed(tmp_path):
    (tmp_path / "noise").write_bytes(os.urandom(3 << 20))
    tree, _ = measure_tree(str(tmp_path), 1, cold=False, tell=silent)
    assert tree.ratio == pytest.approx(1.0, abs=0.01)


def test_an_empty_folder_and_no_folder(tmp_path):
    tree, _ = measure_tree(str(tmp_path), 1, cold=False, tell=silent)
    assert (tree.files, tree.directories, tree.size_bytes) == (0, 1, 0)
    with pytest.raises(UsageError, match="is no folder"):
        measure_tree(str(tmp_path / "none"), 1, cold=False, tell=silent)


def test_a_folder_whose_name_is_no_text_can_be_written_down(tmp_path):
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    os.mkdir(folder)
    tree, _ = measure_tree(folder, 0.05, cold=False, tell=silent)
    profile = Profile("now", machine(), tree=tree)
    assert parse_profile(profile_json(profile)) == profile
