"""Content that is damaged or missing costs the files it belongs to, and they are named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kit.hand_backup import back_up
from kit.observed_restore import run_restore
from strongroom.engine.repository.packs import KIND_DATA
from strongroom.engine.repository.repository import Repository
from strongroom.engine.restore.existing_entries import INCOMPLETE
from strongroom.engine.restore.options import EntryKind
from strongroom.engine.rows.rows import UNREADABLE, Rows


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "one").write_bytes(os.urandom(700_000))
    (tree / "two").write_bytes(os.urandom(3 << 20))
    (tree / "small").write_bytes(b"in a block with others")
    return tree


def flip_byte(repository: Repository, folder: Path, number: int) -> None:
    """Change a byte in the middle of block `number` of the data pack."""
    index = repository.load_index()
    (pack,) = [pack for pack in index.packs() if pack.kind == KIND_DATA]
    location = index.location_of(pack.first_row + number)
    name = pack.pack_id.hex()
    (path,) = (folder / "repository").rglob(name)
    path.chmod(0o600)
    with path.open("r+b") as file:
        file.seek(location.offset + location.stored_length // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))


def named(seen) -> list[tuple[EntryKind, bytes]]:
    return [(problem.kind, problem.path) for problem in seen.problems]


def test_a_damaged_block_costs_one_file_which_is_not_there_then(repository, tree, tmp_path, folder):
    snapshot = back_up(repository, os.fsencode(tree))
    flip_byte(repository, folder, 2)
    seen = run_restore(repository, snapshot, tmp_path / "out")
    assert named(seen) == [(EntryKind.CONTENT, b"two")]
    assert sorted(os.listdir(tmp_path / "out")) == ["one", "small"]
    assert (tmp_path / "out" / "one").read_bytes() == (tree / "one").read_bytes()
    assert not seen.report.is_complete


def test_a_missing_pack_costs_the_files_in_it(repository, tree, tmp_path, folder):
    snapshot = back_up(repository, os.fsencode(tree))
    os.symlink("small", tree / "link")
    index = repository.load_index()
    (pack,) = [pack for pack in index.packs() if pack.kind == KIND_DATA]
    (path,) = (folder / "repository").rglob(pack.pack_id.hex())
    path.unlink()
    seen = run_restore(repository, snapshot, tmp_path / "out")
    assert sorted(named(seen)) == [(EntryKind.CONTENT, name) for name in (b"one", b"small", b"two")]
    assert os.listdir(tmp_path / "out") == []


def test_a_file_that_cannot_be_replaced_stays_as_it_was(repository, tree, tmp_path, folder):
    snapshot = back_up(repository, os.fsencode(tree))
    index = repository.load_index()
    (pack,) = [pack for pack in index.packs() if pack.kind == KIND_DATA]
    flip_byte(repository, folder, pack.block_count - 1)
    out = tmp_path / "out"
    out.mkdir()
    (out / "small").write_bytes(b"the old one")
    seen = run_restore(repository, snapshot, out)
    assert named(seen) == [(EntryKind.CONTENT, b"small")]
    assert (out / "small").read_bytes() == b"the old one"
    assert sorted(os.listdir(out)) == ["one", "small", "two"]


def test_a_file_written_half_way_in_place_is_not_taken_for_whole(
    repository, tree, tmp_path, folder
):
    snapshot = back_up(repository, os.fsencode(tree))
    flip_byte(repository, folder, 3)
    out = tmp_path / "out"
    out.mkdir()
    (out / "two").write_bytes(bytes(3 << 20))
    seen = run_restore(repository, snapshot, out)
    assert named(seen) == [(EntryKind.CONTENT, b"two")]
    assert not (out / "two").exists()
    assert (out / ("two" + INCOMPLETE.decode())).stat().st_size == 3 << 20


def test_another_name_takes_the_place_of_one_that_is_kept(repository, tree, tmp_path):
    from strongroom.engine.restore.options import Overwrite

    os.link(tree / "one", tree / "second name")
    os.link(tree / "one", tree / "third name")
    snapshot = back_up(repository, os.fsencode(tree))
    out = tmp_path / "out"
    out.mkdir()
    (out / "one").write_bytes(b"mine")
    seen = run_restore(repository, snapshot, out, overwrite=Overwrite.NEVER)
    assert not seen.problems
    assert (out / "one").read_bytes() == b"mine"
    assert (out / "second name").read_bytes() == (tree / "one").read_bytes()
    assert (out / "third name").samefile(out / "second name")


def test_every_name_of_a_lost_file_is_named(repository, tree, tmp_path, folder):
    os.link(tree / "two", tree / "zwei")
    snapshot = back_up(repository, os.fsencode(tree))
    for number in (2, 5):  # this backup stores the content of both names
        flip_byte(repository, folder, number)
    seen = run_restore(repository, snapshot, tmp_path / "out")
    assert sorted(named(seen)) == [(EntryKind.CONTENT, b"two"), (EntryKind.CONTENT, b"zwei")]
    assert sorted(os.listdir(tmp_path / "out")) == ["one", "small"]


def test_what_the_backup_could_not_read_is_said_and_not_made_up(repository, tree, tmp_path):
    def mark(rows: Rows) -> None:
        rows.states[rows.name_list().index(b"small")] = UNREADABLE

    snapshot = back_up(repository, os.fsencode(tree), edit=mark)
    seen = run_restore(repository, snapshot, tmp_path / "out")
    assert named(seen) == [(EntryKind.UNREAD, b"small")]
    assert not (tmp_path / "out" / "small").exists()


def test_content_of_another_length_than_the_row_says_is_refused(repository, tree, tmp_path):
    def shorten(rows: Rows) -> None:
        row = rows.name_list().index(b"small")
        stats = bytearray(rows.stats)
        stats[row * 80 + 24 : row * 80 + 32] = (3).to_bytes(8, "little")
        rows.stats = bytes(stats)

    snapshot = back_up(repository, os.fsencode(tree), edit=shorten)
    seen = run_restore(repository, snapshot, tmp_path / "out")
    assert named(seen) == [(EntryKind.CONTENT, b"small")]
