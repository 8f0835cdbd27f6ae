"""A backup of a tree done by hand, one step after the other: real rows, packs, index, snapshot.

It has none of the engine's backup job in it, so that a restore can be tested by itself, and a
test may change the rows before they are stored (`edit`) to make snapshots no backup would.
"""

from __future__ import annotations

import os
import stat
from array import array
from collections.abc import Callable
from pathlib import Path

from strongroom.engine.content.codecs import ZSTD
from strongroom.engine.content.digests import BLOCK_ID_SIZE, block_id, chunk_id, ids_and_lengths
from strongroom.engine.filesets.recorded import encode_selection
from strongroom.engine.repository.keys.wrapping import Argon2Cost
from strongroom.engine.repository.left_out import LeftOut
from strongroom.engine.repository.listing.page import encode_page
from strongroom.engine.repository.listing.page_builder import PageBuilder
from strongroom.engine.repository.packs import KIND_DATA, KIND_LISTING, PackWriter
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import (
    PageReference,
    Snapshot,
    Totals,
)
from strongroom.engine.rows.entry_counts import count_entries
from strongroom.engine.rows.rows import COLUMN_COUNT, MODE, SIZE, Rows, new_rows
from strongroom.engine.rows.views import join_path
from strongroom.engine.scan.attributes import read_flags_of, read_xattrs
from strongroom.engine.scan.directory import open_beneath, read_names, stat_rows
from strongroom.engine.sources.regular_files import data_extents
from strongroom.engine.stores.local import LocalStore

SMALL = 512 << 10
CHUNK = 1 << 20
BATCH_BYTES = 1 << 20
BATCH_CHUNKS = 512


def new_repository(place: Path, *, encryption: str = "auto") -> Repository:
    cost = Argon2Cost(1024, 1, 1)
    store = LocalStore(str(place))
    made = Repository.create(store, b"passphrase", encryption=encryption, cost=cost)
    return made.for_client("host")


class _Content:
    """Blocks of one data pack; small files share them."""

    def __init__(self, repository: Repository, pack: PackWriter) -> None:
        import zstandard

        self._compress = zstandard.ZstdCompressor(1).compress
        self._keys = repository.writer.client.own
        self._pack = pack
        self._batch: list[tuple[Rows, int, bytes]] = []
        self._bytes = 0

    def add(self, rows: Rows, part: int, data: bytes) -> None:
        if len(data) > SMALL:
            self._store([(rows, part, data)])
            return
        if self._bytes + len(data) > BATCH_BYTES or len(self._batch) >= BATCH_CHUNKS:
            self.flush()
        self._batch.append((rows, part, data))
        self._bytes += len(data)

    def flush(self) -> None:
        if self._batch:
            self._store(self._batch)
        self._batch, self._bytes = [], 0

    def _store(self, chunks: list[tuple[Rows, int, bytes]]) -> None:
        lengths = array("I", [len(data) for _, _, data in chunks])
        ids = b"".join(chunk_id(self._keys.chunk_key, data) for _, _, data in chunks)
        block = block_id(self._keys.block_key, ids_and_lengths(ids, lengths))
        for slot, (rows, part, _) in enumerate(chunks):
            blocks = bytearray(rows.part_blocks)
            blocks[part * BLOCK_ID_SIZE : (part + 1) * BLOCK_ID_SIZE] = block
            rows.part_blocks = bytes(blocks)
            rows.part_slots[part] = slot
        raw = b"".join(data for _, _, data in chunks)
        self._pack.add(block, ids, list(lengths), ZSTD, self._compress(raw), len(raw))


def back_up(
    repository: Repository,
    tree: bytes,
    *,
    edit: Callable[[Rows], None] | None = None,
    forge: Callable[[bytes], bytes] = bytes,
    paths: tuple[bytes, ...] = (b"",),
    records: bool = True,
) -> Snapshot:
    """Store everything in the directory `tree` as if it were the root; its own row comes first.

    `edit` may change rows, `forge` the bytes of a listing page, before they are stored.
    """
    root_fd = os.open(tree, os.O_RDONLY | os.O_DIRECTORY)
    here = os.open(b".", os.O_PATH)
    pack = repository.new_pack(KIND_DATA)
    content = _Content(repository, pack)
    found: list[Rows] = []
    try:
        _scan(root_fd, b"", content, found)
    finally:
        os.fchdir(here)
        os.close(here)
        os.close(root_fd)
    content.flush()
    if edit is not None:
        for rows in found:
            edit(rows)
    return store(repository, pack, found, forge, paths, records=records)


def store(
    repository: Repository,
    pack: PackWriter,
    found: list[Rows],
    forge: Callable[[bytes], bytes] = bytes,
    paths: tuple[bytes, ...] = (b"",),
    *,
    records: bool = True,
) -> Snapshot:
    """Commit rows whose content is in `pack`; records: and that nothing was left out."""
    footers = [pack.finish()] if pack.block_count else []
    listing_pack = repository.new_pack(KIND_LISTING)
    builder = PageBuilder()
    pages = [page for rows in found for page in builder.add(rows)] + builder.finish()
    references = []
    keys = repository.writer.client.own
    for page in pages:
        raw = forge(encode_page(page))
        an_id = chunk_id(keys.chunk_key, raw)
        length = len(raw).to_bytes(4, "little")
        block = block_id(keys.block_key, ids_and_lengths(an_id, length))
        listing_pack.add(block, an_id, [len(raw)], 0, raw, len(raw))
        first_name = page[0].names.partition(b"\0")[0]
        counts = count_entries(page)
        row_count = sum(rows.row_count for rows in page)
        references.append(
            PageReference(page[0].directory, first_name, block, row_count, counts.content_bytes)
        )
    footers.append(listing_pack.finish())
    repository.write_index(footers)
    whole = count_entries(found)
    totals = Totals(whole.files, whole.directories, whole.others, whole.content_bytes)
    # Nothing is left out but sockets.
    left_out = LeftOut(encode_selection(None)) if records else None
    pages_of_it = tuple(references)
    snapshot = Snapshot(
        host="host", paths=paths, totals=totals, pages=pages_of_it, left_out=left_out
    )
    with repository.lease("host", os.getpid(), "test") as lease:
        committed = repository.commit(snapshot, lease)
    return repository.snapshot(committed.id)


def _scan(root_fd: int, path: bytes, content: _Content, found: list[Rows]) -> None:
    waiting = [path]
    while waiting:
        path = waiting.pop()
        fd = open_beneath(root_fd, path)
        try:
            names = read_names(fd) or []
            own = [b"."] if not path else []
            flat, failures = stat_rows(own + names)
            assert not failures
            rows = _rows(path, own + names, flat, content)
            found.append(rows)
        finally:
            os.close(fd)
        modes = flat[MODE::COLUMN_COUNT][len(own) :]
        below = [join_path(path, n) for n, m in zip(names, modes, strict=True) if stat.S_ISDIR(m)]
        waiting += reversed(below)


def _rows(path: bytes, names: list[bytes], flat: array[int], content: _Content) -> Rows:
    modes = flat[MODE::COLUMN_COUNT]
    keep = [row for row, mode in enumerate(modes) if not stat.S_ISSOCK(mode)]
    flat = array("q", [flat[row * COLUMN_COUNT + c] for row in keep for c in range(COLUMN_COUNT)])
    names = [names[row] for row in keep]
    rows = new_rows(path, names, flat)
    rows.xattrs, _ = read_xattrs(names, range(len(names)))
    chunks: list[tuple[int, bytes]] = []
    for row, name in enumerate(names):
        mode = flat[row * COLUMN_COUNT + MODE]
        if flags := read_flags_of(name, mode):
            rows.flags[row] = flags
        if stat.S_ISLNK(mode):
            rows.targets[row] = os.readlink(name)
        elif stat.S_ISREG(mode):
            found = _read(rows, row, name, flat[row * COLUMN_COUNT + SIZE])
            rows.part_counts[row] = len(found)
            chunks += [(row, data) for data in found]
    rows.part_blocks = bytes(BLOCK_ID_SIZE * len(chunks))
    rows.part_slots = array("H", [0] * len(chunks))
    for part, (_, data) in enumerate(chunks):
        content.add(rows, part, data)
    if names[:1] == [b"."] and not path:
        rows.names = rows.names[1:]
    return rows


def _read(rows: Rows, row: int, name: bytes, size: int) -> list[bytes]:
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        extents = data_extents(fd, size)
        if extents is not None:
            rows.extents[row] = extents
        stretches = [(0, size)] if extents is None else extents
        data = b"".join(os.pread(fd, length, start) for start, length in stretches)
    finally:
        os.close(fd)
    step = SMALL if len(data) <= SMALL else CHUNK
    return [data[start : start + step] for start in range(0, len(data), step)]
