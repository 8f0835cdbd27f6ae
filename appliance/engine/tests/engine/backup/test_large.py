"""Files of several segments, sparse ones too, and directories of very many entries."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kit.user import PASSPHRASE, User
from strongroom.engine.backup.deferred_content import SEGMENT_BYTES
from strongroom.engine.backup.wide_directory import WIDE_DIRECTORY_ROWS, NameSlice, name_slices
from strongroom.engine.repository.listing.page_builder import MIN_PAGE_ROWS
from strongroom.engine.repository.repository import Repository
from strongroom.engine.stores.local import LocalStore

MEBIBYTE = 1 << 20
# A backup whose coordinator cannot encode.
ENCODES_NOTHING = """
import sys
from strongroom.cli.main import main
from strongroom.engine.writing import listing
# It takes the encoder of the shards from there before the coordinator's is replaced.
import strongroom.engine.backup.shards.coordinator_link
class Refusing(listing.PageEncoder):
    def encode(self, *page, **how):
        raise RuntimeError("the coordinator encodes a page")
listing.PageEncoder = Refusing
sys.exit(main(sys.argv[1:]))
"""


def test_a_sparse_file_of_several_segments_comes_back_with_its_holes(
    user: User, source: Path
) -> None:
    path = source / "sparse"
    with path.open("wb") as file:
        for start, size in (
            (0, 5),
            (SEGMENT_BYTES - 3 * MEBIBYTE, 6 * MEBIBYTE),  # across a boundary
            (2 * SEGMENT_BYTES, 4096),  # begins at one
            (3 * SEGMENT_BYTES - 8192, 8192),  # ends at one
            (4 * SEGMENT_BYTES + 12345, 100_000),  # nothing before it in its segment
        ):
            file.seek(start)
            file.write(os.urandom(size))
        file.truncate(5 * SEGMENT_BYTES + 777)
    (source / "hole").touch()
    os.truncate(source / "hole", 2 * SEGMENT_BYTES + 1)
    (source / "other").write_bytes(os.urandom(1000))
    first = user.backup(source).summary
    assert (first["files_read"], first["problems"]) == (3, 0)
    assert first["bytes_read"] < 16 * MEBIBYTE, "holes are not read"
    user.assert_restores(source)
    time.sleep(0.1)
    with path.open("r+b") as file:
        file.seek(SEGMENT_BYTES + MEBIBYTE)
        file.write(b"changed")
    second = user.backup(source).summary
    assert second["files_read"] == 1
    assert 0 < second["new_bytes"] < 9 * MEBIBYTE
    user.assert_restores(source)


def test_a_file_of_several_segments_deduplicates_after_an_insertion(
    user: User, source: Path
) -> None:
    size = SEGMENT_BYTES + 30 * MEBIBYTE
    chance = random.Random(5)
    pieces = [chance.randbytes(MEBIBYTE) for _ in range(size // MEBIBYTE)]
    (source / "large").write_bytes(b"".join(pieces))
    first = user.backup(source).summary
    assert (first["files_read"], first["bytes_read"], first["new_bytes"]) == (1, size, size)
    (source / "large").write_bytes(b"inserted" + b"".join(pieces))
    (source / "copy").write_bytes(b"".join(pieces))
    second = user.backup(source).summary
    assert second["files_read"] == 2
    assert second["new_bytes"] < 40 * MEBIBYTE
    assert user.backup(source).summary["files_read"] == 0
    user.assert_restores(source)


@pytest.mark.parametrize("words", [[], ["--scan-threads", "8"]], ids=["", "threads"])
def test_a_directory_of_very_many_entries(user: User, source: Path, words: list[str]) -> None:
    wide = source / "wide"
    wide.mkdir()
    count = 2 * WIDE_DIRECTORY_ROWS + 100
    for number in range(count):
        os.close(os.open(wide / f"{number * 7919 % 1_000_003:07}", os.O_CREAT | os.O_WRONLY))
    (wide / "below").mkdir()
    (wide / "below/file").write_bytes(b"below")
    time.sleep(0.1)
    first = user.backup(source, *words).summary
    assert (first["files"], first["files_read"]) == (count + 1, count + 1)
    second = user.backup(source, *words).summary
    assert (second["files_read"], second["new_chunks"]) == (0, 0)
    pages = _listing_pages(user, first["snapshot"])
    assert len(pages) > 1
    assert pages == _listing_pages(user, second["snapshot"])
    (wide / "0000000").write_bytes(b"changed")
    (wide / "0500000x").write_bytes(b"added")
    third = user.backup(source, *words).summary
    assert (third["files"], third["files_read"], third["new_bytes"]) == (count + 2, 2, 12)
    assert third["stored_bytes"] < first["stored_bytes"], "not all pages of the listing changed"
    user.assert_restores(source)


def _listing_pages(user: User, snapshot: str) -> list[Any]:
    """What each page is found by; of the first one only how many rows it has.

    It also has the folders above the source, in which others write meanwhile.
    """
    repository = Repository.open(LocalStore(str(user.repository)), PASSPHRASE.encode())
    first, *others = repository.snapshot(snapshot).pages
    repository.close()
    return [first.row_count, *(page.block_id for page in others)]


def test_slices_of_a_wide_directory_keep_their_cuts() -> None:
    names = sorted(b"%x" % (number * 2654435761 % (1 << 32)) for number in range(60_000))
    slices = list(name_slices([names], []))
    assert b"\0".join(slices).split(b"\0") == names
    assert list(name_slices([names[:100], names[100:40_000], names[40_000:]], [])) == slices
    changed = set(name_slices([sorted([*names, b"7777777"])], []))
    assert len(changed - set(slices)) <= 2
    assert list(name_slices([[b"a"]], [b"."])) == [b".\0a"]


@pytest.mark.parametrize("names", [[b"a"], [b".", b"\xff" * 255], [b"a", b"b", b"c"]])
def test_a_slice_knows_its_ends_and_all_between_them(names: list[bytes]) -> None:
    part = NameSlice.of(b"\0".join(names))
    assert (part.first, part.last) == (names[0], names[-1])
    assert part.joined().split(b"\0") == names


def test_names_of_slices_that_wait_take_little_memory() -> None:
    joined = b"\0".join([b"message-%07d.eml" % number for number in range(16_000)])
    assert len(NameSlice.of(joined).packed) < len(joined) / 4


def test_shards_encode_large_pages_of_the_listing(user: User, source: Path) -> None:
    for number in range(MIN_PAGE_ROWS):
        (source / f"{number:06}").touch()
    words = [sys.executable, "-c", ENCODES_NOTHING, *user.credentials, "backup", str(source)]
    done = subprocess.run(words, env=user.environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    user.assert_restores(source)
    (source / "one").mkdir()
    words[-1] = str(source / "one")
    done = subprocess.run(words, env=user.environment, capture_output=True, text=True, check=False)
    assert "the coordinator encodes a page" in done.stderr, "small ones are not sent"


def test_pages_end_alike_in_a_full_backup_and_after_changes_to_the_parent(
    user: User, source: Path
) -> None:
    """Pages that follow the parent's are those that every row anew would give."""
    for number in range(1500):
        folder = source / f"{number:04}"
        folder.mkdir()
        for name in range(12):
            (folder / f"file-{name}").touch()
    for number in range(3 * MIN_PAGE_ROWS):
        (source / f"n{number:06}").touch()
    user.backup(source)
    (source / "0400/file-3").unlink()
    (source / "0700").rename(source / "0700-moved")
    (source / "0900/new").touch()
    (source / "n002000").write_bytes(b"changed")
    # The second one finds those unchanged that the first one had to doubt.
    for _ in range(2):
        time.sleep(0.1)
        followed = user.backup(source).summary["snapshot"]
    pages = _listing_pages(user, followed)
    assert len(pages) > 4
    anew = user.backup(source, "--level", "full").summary["snapshot"]
    assert _listing_pages(user, anew) == pages
