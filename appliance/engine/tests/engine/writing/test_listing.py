"""The pages of a listing are the same no matter who encodes them, and whenever they come back."""

from __future__ import annotations

from array import array

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.memory_store import MemoryStore
from kit.rows_strategy import page_groups
from kit.tiny_backup import new_repository
from strongroom.engine.backup.shards.group import PageTasks
from strongroom.engine.backup.shards.messages import PageIsEncoded
from strongroom.engine.repository.listing.page import decode_page
from strongroom.engine.repository.listing.page_builder import MIN_PAGE_ROWS
from strongroom.engine.repository.packs import KIND_LISTING
from strongroom.engine.rows.rows import ROW_BYTES, Rows, decode_groups, new_rows
from strongroom.engine.writing.listing import ListingWriter, PageEncoder

KEY = new_repository(MemoryStore()).writer
PACK_BYTES = 1 << 20


class Pack:
    """Keeps what it is given; its footer is itself."""

    def __init__(self) -> None:
        self.blocks: dict[bytes, bytes] = {}
        self.size_bytes = 0
        self.is_finished = False

    def add(self, block_id, chunk_ids, chunk_lengths, codec, compressed, raw_length) -> None:
        assert block_id not in self.blocks
        self.blocks[block_id] = bytes(compressed)
        self.size_bytes += len(compressed)

    def finish(self) -> Pack:
        self.is_finished = True
        return self


class Blocks:
    """What the repository has already."""

    def __init__(self, known: set[bytes]) -> None:
        self.known = known

    def has_blocks(self, block: bytes):
        return np.array([block in self.known])


class Elsewhere:
    """Encodes every second page later, the last first."""

    def __init__(self) -> None:
        self.waiting = []
        self.offers = 0

    def offer(self, page, done, *, keeps_raw) -> bool:
        self.offers += 1
        if self.offers % 2:
            self.waiting.append((page, done))
        return bool(self.offers % 2)

    def answer(self) -> None:
        encoder = PageEncoder(KEY.client.own)
        while self.waiting:
            page, done = self.waiting.pop()
            done(encoder.encode(page, lambda _block: False, keeps_raw=True))


class Packs:
    """A PackTarget that keeps its packs."""

    def __init__(self) -> None:
        self.opened: list[Pack] = []

    def open_pack(self, kind: int) -> Pack:
        assert kind == KIND_LISTING
        self.opened.append(Pack())
        return self.opened[-1]

    def take(self, footer) -> None:
        """Nothing is indexed."""


class Kept(dict):
    """A PageKeeper of a backup without a parent."""

    def add(self, block_id: bytes, page: bytes) -> None:
        self[block_id] = page


def written(groups: list[Rows], elsewhere: Elsewhere | None, known: set[bytes]):
    """The pages, the blocks that were stored, and the pages as they were kept."""
    packs, kept = Packs(), Kept()
    writer = ListingWriter(
        KEY, Blocks(known), packs,
        pack_size_bytes=PACK_BYTES, keeper=kept, encoders=elsewhere,
    )  # fmt: skip
    for rows in groups:
        writer.add(rows)
    writer.end()
    if elsewhere is not None:
        elsewhere.answer()
    pages = writer.finish()
    assert all(pack.is_finished for pack in packs.opened)
    return (
        pages,
        {block: data for pack in packs.opened for block, data in pack.blocks.items()},
        kept,
    )


@pytest.fixture
def small_pages(monkeypatch):
    monkeypatch.setattr("strongroom.engine.repository.listing.page_builder.MIN_PAGE_ROWS", 4)
    monkeypatch.setattr("strongroom.engine.repository.listing.page_builder.MAX_PAGE_ROWS", 8)


@pytest.mark.usefixtures("small_pages")
@given(page_groups(), st.integers(0, 3))
def test_pages_encoded_elsewhere_are_the_same(groups, known_pages):
    pages, stored, kept = written(groups, None, set())
    assert [decode_page(kept[page.block_id])[0].directory for page in pages] == [
        page.first_directory for page in pages
    ]
    known = {page.block_id for page in pages[:known_pages]}
    elsewhere = Elsewhere()
    assert written(groups, elsewhere, known)[0] == pages
    assert elsewhere.offers == len(pages)
    _, again, kept_again = written(groups, Elsewhere(), known)
    assert kept_again == kept
    assert again == {block: data for block, data in stored.items() if block not in known}


class Channel:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent = []

    def send(self, message) -> None:
        self.sent.append(message)


def page_of(count: int) -> list[Rows]:
    names = [b"%06d" % number for number in range(count)]
    return [new_rows(b"folder", names, array("q", bytes(ROW_BYTES * count)))]


def test_shards_get_large_pages_and_not_more_than_they_have_room_for():
    channels = [Channel(), Channel()]
    tasks = PageTasks(channels)
    done = []
    small = page_of(MIN_PAGE_ROWS - 1)
    assert not tasks.offer(small, done.append, keeps_raw=False)
    assert not any(channel.sent for channel in channels)
    page = page_of(MIN_PAGE_ROWS)
    assert [tasks.offer(page, done.append, keeps_raw=False) for _ in range(5)] == [True] * 4 + [
        False
    ]
    assert [len(channel.sent) for channel in channels] == [2, 2]
    task = channels[1].sent[0]
    assert decode_groups(task.groups) == page
    encoded = PageEncoder(KEY.client.own).encode(page, lambda _block: False, keeps_raw=False)
    tasks.take(PageIsEncoded(task.number, encoded))
    assert done == [encoded]
    assert tasks.offer(page, done.append, keeps_raw=False)
    assert [len(channel.sent) for channel in channels] == [2, 3]


def test_a_page_that_does_not_come_back_is_an_error():
    elsewhere = Elsewhere()
    writer = ListingWriter(
        KEY, Blocks(set()), Packs(),
        pack_size_bytes=PACK_BYTES, encoders=elsewhere,
    )  # fmt: skip
    writer.add(page_of(10)[0])
    writer.end()
    with pytest.raises(RuntimeError, match="come back"):
        writer.finish()
