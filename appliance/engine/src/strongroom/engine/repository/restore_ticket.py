"""Restore tickets: the keys a machine needs to restore one snapshot, and nothing more.

The holder of the restore key makes a ticket of a snapshot, or of some paths in it, for one client;
together with that client's put key it reads the packs that hold what was chosen. A key opens a
whole pack, so other content of those packs can be read too by anyone who gets their bytes. Packs
are those of the snapshot's client and shared ones: a snapshot that refers to another client's
blocks gets no key for them.

    magic "SRTK" | version u8 | keyed BLAKE3 of the rest (16) | raw size u32 | zstd of msgpack of
    snapshot with its pages, id of its client, its keys of chunk and block ids,
    and of each pack its id, its key and the key of its footer (32 each);
    for another client: name and key of the first part of each index object of the snapshot's client

The digest's key is the receiver's ticket key: a ticket for somebody else, or one that was changed
on the way, is refused. Two million packs make 190 MB, which travel as a sealed object of the
repository (`ticket_objects`) and are kept in one piece of memory by anyone who restores. A ticket
is a secret and has no end of its own: what it opens it opens as long as the packs are there.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec
import numpy as np
from blake3 import blake3

from strongroom.base.decoding import decode
from strongroom.base.errors import (
    DamageError,
    ObjectMissingError,
    PathNotFoundError,
    SnapshotNotFoundError,
    UnknownFormatError,
)
from strongroom.base.printable import printable
from strongroom.engine.content.codecs import ZSTD, decompress
from strongroom.engine.content.digests import CHUNK_ID_SIZE
from strongroom.engine.repository.block_columns import dead_flags
from strongroom.engine.repository.index.block_rows import SHARED_NUMBER
from strongroom.engine.repository.index.index import Index
from strongroom.engine.repository.index.kept_index import KeptIndex
from strongroom.engine.repository.index.live_blocks import LiveBlocks
from strongroom.engine.repository.index.objects import first_part_key, read_index_head
from strongroom.engine.repository.index.shared_chunks import SharedChunks
from strongroom.engine.repository.keys.owners import SHARED, ContentKeys, OwnerKeys
from strongroom.engine.repository.keys.roles import (
    PACK_ENTRY_SIZE,
    PackKeys,
    PutKey,
    RestoreKey,
    TicketKey,
)
from strongroom.engine.repository.left_out import LeftOut
from strongroom.engine.repository.listing.reader import Listing
from strongroom.engine.repository.packs import HEADER_SIZE, parse_header, read_footer
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.set_aside import SetAside
from strongroom.engine.repository.snapshots import PageReference, Snapshot, Totals
from strongroom.engine.rows.rows import (
    BLOCK_ID_BYTES,
    COLUMN_COUNT,
    MODE,
    SIZE,
    Rows,
    bytes_together,
    part_starts,
)
from strongroom.engine.rows.views import join_path, path_key, split_path
from strongroom.engine.stores.store import Store

_MAGIC: Final = b"SRTK\1"
_HEAD: Final = struct.Struct("<5s16sI")
_RAW_SIZE_LIMIT: Final = 256 << 20
# Keys do not shrink, and what does not shrink grows by less than this.
LARGEST_TICKET_BYTES: Final = _RAW_SIZE_LIMIT + (1 << 20)
_FORMAT: Final = 0o170000
_REGULAR: Final = 0o100000
_DIRECTORY: Final = 0o040000


class _Ticket(msgspec.Struct, frozen=True, array_like=True):
    snapshot: Snapshot
    chunk_key: bytes
    block_key: bytes
    packs: bytes
    index_keys: dict[str, bytes]


class TicketRepository(Repository):
    """A repository of which one snapshot can be read, as restore, verify and ls do it."""

    def __init__(
        self,
        store: Store,
        config: Any,
        key: TicketKey,
        snapshot: Snapshot,
        cache_folder: bytes | None = None,
    ) -> None:
        """Use `open_with_ticket`."""
        super().__init__(store, config, key, cache_folder=cache_folder)
        self._ticket_key = key
        self._snapshot = snapshot

    def reopen(self) -> TicketRepository:
        """The same repository for a forked process."""
        return TicketRepository(
            self.store.reopen(),
            self.config,
            self._ticket_key,
            self._snapshot,
            self.cache_folder,
        )

    def kept_index(self) -> KeptIndex:
        """What the ticket opens of the index; packs that it lacks, from their footers."""
        owner = self._ticket_key.content.owner
        index = KeptIndex(self.store, self._ticket_key, owner, self.cache_folder)
        pack_ids = list(self._ticket_key.packs)
        known = index.has_packs(b"".join(pack_ids)).tolist()
        for pack_id in (one for one, is_known in zip(pack_ids, known, strict=True) if not is_known):
            with suppress(ObjectMissingError):
                index.add(read_footer(self.store, self._ticket_key, pack_id))
        return index

    def snapshots(self, set_aside: SetAside | None = None, *, anew: bool = False) -> list[Snapshot]:
        """The ticket's snapshot, without its pages."""
        del set_aside, anew
        return [msgspec.structs.replace(self._snapshot, pages=(), left_out=None)]

    def snapshot(self, name: str) -> Snapshot:
        """The ticket's snapshot; of chosen paths only the pages, and totals, of those."""
        if name != self._snapshot.id:
            raise SnapshotNotFoundError(
                f"the restore ticket is for snapshot {self._snapshot.short_id}, not {name[:8]}"
            )
        return self._snapshot


def make_ticket(
    repository: Repository,
    snapshot: Snapshot,
    paths: Sequence[bytes] = (),
    receiver: PutKey | None = None,
) -> bytes:
    """A ticket for `snapshot` (read with its pages), or for `paths` in it and what is below.

    receiver: the client that will use it, by default the one of the snapshot. Paths are relative
    to the root; the directories on the way to them can be listed too, with whatever is on the
    same pages of the listing. Raises KeyRightError, PathNotFoundError when the snapshot has no such
    path, DamageError when its listing is not sound, StoreError.
    """
    restore_key = repository.restore_key
    index = repository.load_index(owner=snapshot.owner)
    client = index.of_client(snapshot.owner)
    listing = Listing(snapshot.pages, repository.block_reader(client), takes_any_xattrs=True)
    wanted = _Wanted(listing, snapshot.pages)
    chosen = [path for path in paths if not any(_is_above(other, path) for other in paths)]
    left_out = snapshot.left_out
    if not chosen or b"" in chosen:
        pages = snapshot.pages
        for rows in listing.rows():
            wanted.add(rows)
        totals = snapshot.totals
    else:
        for path in sorted(set(chosen), key=path_key):
            wanted.add_path(path)
        pages = wanted.pages()
        left_out = _left_out_of(snapshot.left_out, chosen)
        totals = wanted.totals()
    blocks = b"".join([*wanted.blocks, *(page.block_id for page in pages)])
    holding = {pack.pack_id for pack in client.packs_holding(blocks)}
    holding |= _packs_of_shared_chunks(repository, index, holding)
    if receiver is None:
        receiver = restore_key.put_key(snapshot.host, snapshot.generation)
    keys = restore_key.owner(snapshot.owner).own
    index_keys = {}
    if receiver.client_id != snapshot.owner:
        index_keys = _index_keys(repository, index, snapshot.owner)
    return _encode(
        receiver,
        _Ticket(
            msgspec.structs.replace(snapshot, pages=pages, totals=totals, left_out=left_out),
            keys.chunk_key,
            keys.block_key,
            b"".join(_pack_entries(repository.store, restore_key, snapshot.owner, sorted(holding))),
            index_keys,
        ),
    )


def open_with_ticket(
    store: Store, put_key: PutKey, ticket: bytes, cache_folder: bytes | None = None
) -> TicketRepository:
    """The repository as far as the ticket opens it; the caller closes it.

    Raises DamageError for a ticket that is none, or of another repository, UnknownFormatError,
    and what `Repository.open` raises.
    """
    decoded = _decode(put_key, ticket)
    config = Repository.open(store, put_key).config
    content = put_key.client
    if decoded.snapshot.owner != put_key.client_id:
        own = ContentKeys(decoded.chunk_key, decoded.block_key, b"")
        common, salt = put_key.shared.common, put_key.repository_id
        content = OwnerKeys(decoded.snapshot.owner, own, common, b"", salt)
    packs = PackKeys(_ascending(decoded.packs))
    key = TicketKey(put_key, content, packs, decoded.index_keys)
    return TicketRepository(store, config, key, decoded.snapshot, cache_folder)


class _Wanted:
    """Blocks and pages of the chosen paths, and their totals."""

    def __init__(self, listing: Listing, pages: Sequence[PageReference]) -> None:
        self._listing = listing
        self._pages = pages
        self._page_numbers: set[int] = set()
        self._files = self._directories = self._others = self._content_bytes = 0
        self.blocks: set[bytes] = set()

    def add_path(self, path: bytes) -> None:
        """Add a path and all below it, with the directories leading to it."""
        row = self._listing.lookup(path)
        if row is None:
            shown = printable(path)
            raise PathNotFoundError(f"the snapshot has no /{shown}; list it with strongroom ls")
        steps = path.split(b"/")
        for depth in range(len(steps) + 1):
            number = self._listing.page_number_of(b"/".join(steps[:depth]))
            if number is not None:
                self._page_numbers.add(number)
        directory, name = split_path(path)
        self.add(next(self._listing.directory_from(directory, name)), only=name)
        if row.mode & _FORMAT == _DIRECTORY:
            self._page_numbers.update(self._listing.page_numbers_below(path))
            for rows in self._listing.rows(path):
                self.add(rows)

    def add(self, rows: Rows, only: bytes | None = None) -> None:
        """Add rows; with `only` just the first of them, which has that name."""
        starts = part_starts(rows)
        count = rows.row_count if only is None else 1
        end = starts[count]
        self.blocks.update(
            rows.part_blocks[start : start + BLOCK_ID_BYTES]
            for start in range(0, end * BLOCK_ID_BYTES, BLOCK_ID_BYTES)
        )
        columns = memoryview(rows.stats).cast("q")
        modes = columns[MODE::COLUMN_COUNT].tolist()[:count]
        sizes = columns[SIZE::COLUMN_COUNT].tolist()[:count]
        for mode, size in zip(modes, sizes, strict=True):
            if mode & _FORMAT == _REGULAR:
                self._files += 1
                self._content_bytes += size
            elif mode & _FORMAT == _DIRECTORY:
                self._directories += 1
            else:
                self._others += 1

    def pages(self) -> tuple[PageReference, ...]:
        """The pages with the rows that were added, in order."""
        return tuple(self._pages[number] for number in sorted(self._page_numbers))

    def totals(self) -> Totals:
        """The totals of the rows that were added."""
        return Totals(
            files=self._files,
            directories=self._directories,
            others=self._others,
            content_bytes=bytes_together((self._content_bytes,)),
        )


def _is_above(other: bytes, path: bytes) -> bool:
    """Whether `path` is below another chosen path."""
    return path != other and (not other or path.startswith(join_path(other, b"")))


def _left_out_of(left_out: LeftOut | None, chosen: Sequence[bytes]) -> LeftOut | None:
    """What was left out in the chosen paths and in the directories that lead to them."""
    if left_out is None:
        return None
    places = {
        directory: names
        for directory, names in left_out.places.items()
        if any(
            directory == path or _is_above(path, directory) or _is_above(directory, path)
            for path in chosen
        )
    }
    return msgspec.structs.replace(left_out, places=places)


def _pack_entries(
    store: Store, key: RestoreKey, owner: bytes, pack_ids: Iterable[bytes]
) -> Iterator[bytes]:
    """Id and keys of each pack that is the client's or shared, whatever its index says."""
    for pack_id in pack_ids:
        try:
            header = parse_header(store.get("packs", pack_id.hex(), 0, HEADER_SIZE))
        except ObjectMissingError:
            # Its content is in another pack, or the restore reports it as missing.
            continue
        if header.owner not in (owner, SHARED):
            raise DamageError(
                f"pack {pack_id.hex()} is another client's than the index says; run check"
            )
        yield pack_id + key.pack_key(header, pack_id) + key.footer_key(header, pack_id)


def _packs_of_shared_chunks(
    repository: Repository, index: Index, holding: Collection[bytes]
) -> set[bytes]:
    """Shared packs that have what the client's own packs leave to them."""
    thinned = index.thinned & index.offered
    leaving = [
        pack
        for pack in map(index.pack, holding)
        if pack is not None and thinned[pack.first_row : pack.first_row + pack.block_count].any()
    ]
    if not leaving:
        return set()
    shared = SharedChunks.load(repository.store, repository.key, index, marked=True)
    live = LiveBlocks()
    for pack in leaving:
        columns = read_footer(repository.store, repository.key, pack.pack_id).columns
        wanted = shared.covers(columns) & dead_flags(columns)
        ids = np.frombuffer(columns.chunk_ids, np.uint8).reshape(-1, CHUNK_ID_SIZE)
        shared.mark(ids[wanted].tobytes(), live)
    return {
        pack.pack_id
        for pack in index.packs()
        if pack.owner == SHARED_NUMBER
        and live.uses(index.block_ids(pack.first_row, pack.block_count), SHARED).any()
    }


def _index_keys(repository: Repository, index: Index, owner: bytes) -> dict[str, bytes]:
    keys = {}
    for name in index.object_names:
        with suppress(ObjectMissingError):
            if read_index_head(repository.store, name).owner == owner:
                keys[name] = first_part_key(repository.store, repository.key, name)
    return keys


def _ascending(entries: bytes) -> bytes:
    """Entries of packs in order; they may come from a version that did not sort them."""
    # Trailing zeros do not count when these are compared, and come back all the same.
    return np.sort(np.frombuffer(entries, f"S{PACK_ENTRY_SIZE}")).tobytes()


def _encode(put_key: PutKey, ticket: _Ticket) -> bytes:
    import zstandard

    raw = msgspec.msgpack.encode(ticket)
    size = len(raw)
    packed = zstandard.compress(raw, 3)
    return _HEAD.pack(_MAGIC, _digest(put_key, size, packed), size) + packed


def _decode(put_key: PutKey, data: bytes) -> _Ticket:
    if len(data) < _HEAD.size or data[:4] != _MAGIC[:4]:
        raise DamageError("this is not a restore ticket; ask for a new one")
    magic, digest, size = _HEAD.unpack_from(data)
    if magic != _MAGIC:
        raise UnknownFormatError(f"a restore ticket of version {magic[4]}; update strongroom")
    packed = data[_HEAD.size :]
    if digest != _digest(put_key, size, packed) or size > _RAW_SIZE_LIMIT:
        raise DamageError("the restore ticket is damaged or of another repository; ask for one")
    ticket = decode(decompress(ZSTD, packed, size), _Ticket, "the restore ticket")
    if len(ticket.packs) % PACK_ENTRY_SIZE:
        raise DamageError("the restore ticket is cut off; ask for a new one")
    return ticket


def _digest(put_key: PutKey, size: int, packed: bytes) -> bytes:
    return blake3(size.to_bytes(8, "little") + packed, key=put_key.client.ticket_key).digest(16)
