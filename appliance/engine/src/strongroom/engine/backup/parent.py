"""Which snapshot a backup compares with, and how its listing is read.

Without the parent's listing a backup reads everything, with the same result. So the only error
here that ends a job is a parent that the user named and that does not exist.
"""

from __future__ import annotations

import stat
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from strongroom.base.errors import DamageError
from strongroom.engine.backup.options import BackupOptions
from strongroom.engine.backup.parent_cache import CachedListing, ParentCache
from strongroom.engine.backup.wide_directory import WIDE_DIRECTORY_ROWS
from strongroom.engine.content.digests import BLOCK_ID_SIZE
from strongroom.engine.repository.index.kept_index import KeptIndex
from strongroom.engine.repository.keys.roles import RestoreKey
from strongroom.engine.repository.listing.reader import ChunkReader, Listing
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import (
    ENVELOPE_SIZE_LIMIT,
    PageReference,
    Snapshot,
    find_snapshot,
    select_snapshots,
    totals_of,
)
from strongroom.engine.rows.block_runs import distinct_blocks
from strongroom.engine.rows.rows import (
    CHANGED,
    COLUMN_COUNT,
    MODE,
    Rows,
    comparison_digest,
    join_rows,
    slice_rows,
)
from strongroom.engine.scan.unchanged import newest_ctime_ns

# Looks up directories in the parent snapshot, for the coordinator.
#
# Rows are offered only when everything they refer to is still in the repository; otherwise the
# directory counts as new and is read again. A digest is offered only when equal digests prove that
# nothing changed: no row may have changed within a clock tick of the parent's start, and none may
# have been unreadable or changed while it was read. A damaged page only causes its directories to
# be read again.
#
# A file whose content was offered to share and is not to be any more, or the other way round,
# counts as changed, whatever the reason: references under the common keys are only to what is
# offered now.

# Which blocks that rows of the parent refer to are still there, and which are offered to share.

_BLOCK_ID: Final = np.dtype((np.void, BLOCK_ID_SIZE))
# Blocks of which it is remembered that they are in the repository; about 100 bytes each.
_KNOWN_LIMIT: Final = 65_536


class ParentBlocks:
    """Looks up the blocks of rows of `listing`: all of a page at once, neighbours share them."""

    def __init__(self, listing: Listing, blocks: KeptIndex) -> None:
        self._listing = listing
        self._blocks = blocks
        # Pages of which all blocks may be referred to, and either all are offered or none.
        self._alike: dict[int, bool] = {}
        # Whether blocks are offered; None: they may not be referred to.
        self._known: dict[bytes, bool | None] = {}

    def offered(self, rows: Rows) -> NDArray[np.bool_] | bool | None:
        """Whether the blocks of `rows`, which have some, are offered: all, none, or each reference.

        None: one of them may not be referred to.
        """
        number = self._listing.number_of(rows)
        alike = self._alike.get(number)
        if alike is not None:
            return alike
        blocks = np.frombuffer(rows.part_blocks, _BLOCK_ID).tolist()
        distinct = set(blocks)
        if not all(map(self._known.__contains__, distinct)):
            self._learn(number, rows)
        states = {self._known[block] for block in distinct}
        if None in states:
            return None
        if len(states) == 1:
            return True in states
        return np.fromiter([bool(self._known[block]) for block in blocks], np.bool_, len(blocks))

    def _learn(self, number: int, rows: Rows) -> None:
        """Look up the blocks of `rows` and of all others on their page, if it is at hand."""
        if len(self._known) > _KNOWN_LIMIT:
            self._known.clear()
        beside = self._listing.beside(rows)
        wanted = distinct_blocks(b"".join([one.part_blocks for one in (rows, *beside)]))
        new = list(wanted - self._known.keys())
        found = self._blocks.offered(b"".join(new)).tolist()
        states = (None if state < 0 else bool(state) for state in found)
        self._known.update(zip(new, states, strict=True))
        among = {self._known[block] for block in wanted}
        if beside and len(among) == 1 and None not in among:
            self._alike[number] = True in among


# Up to so many rows numpy takes longer than a loop does: six times as long for five.
_FEW_ROWS: Final = 256
# The kernel stamps files with a clock that ticks every 1 to 10 ms; twice the coarsest tick.
CLOCK_TICK_NS: Final = 20_000_000


class ParentListing:
    """Looks directories up in the parent's listing."""

    def __init__(
        self,
        listing: Listing,
        blocks: KeptIndex,
        start_ns: int,
        widest_rows: int,
        signature: str,
        warn: Callable[[str], None],
        cached: CachedListing | None = None,
    ) -> None:
        """`widest_rows`: directories of more rows are only offered in slices.

        `warn` gets each damage once. `cached`: where `listing` gets its pages, if it is a cache.
        """
        self._warn = warn
        self._warned: set[str] = set()
        self._listing = listing
        self.cached = cached
        self._blocks = ParentBlocks(listing, blocks)
        self._widest_rows = widest_rows
        self._signature = signature
        self.recent_limit_ns = start_ns - CLOCK_TICK_NS

    def directory(self, path: bytes, *, offers: bool) -> list[Rows]:
        """The rows of `path`; [] when it is not there, too wide, or not all in the repository.

        offers: whether public files in it are to be offered.
        """
        pieces = []
        row_count = 0
        try:
            for rows in self._listing.directory(path):
                row_count += rows.row_count
                if row_count > self._widest_rows:
                    return []
                pieces.append(rows)
        except DamageError as error:
            return self._damaged(error)
        return self._sound(pieces, offers)

    def between(self, path: bytes, first: bytes, last: bytes, *, offers: bool) -> list[Rows]:
        """The rows of `path` from name `first` to name `last`, both included."""
        pieces = []
        try:
            for rows in self._listing.directory_from(path, first):
                names = rows.name_list()
                if names[-1] <= last:
                    pieces.append(rows)
                    continue
                end = bisect_right(names, last)
                if end:
                    pieces.append(slice_rows(rows, 0, end))
                break
        except DamageError as error:
            return self._damaged(error)
        return self._sound(pieces, offers)

    def reference_of(self, page: list[Rows]) -> PageReference | None:
        """The parent's page whose rows these are, as they came from here; None: not known."""
        return self._listing.reference_of(page)

    def page_of(self, rows: Rows) -> list[Rows]:
        """The rows of the parent's page that `rows`, the very object, are of; [] if not known.

        Other rows may give those of any page.
        """
        return self._listing.beside(rows)

    @property
    def page_blocks(self) -> list[bytes]:
        """The ids of the blocks that hold the parent's pages, in order."""
        return self._listing.page_blocks

    def page(self, number: int) -> list[Rows]:
        """The rows of page `number`. Raises DamageError."""
        return self._listing.page(number)

    def joined(self, pieces: list[Rows]) -> Rows:
        """Join the pieces."""
        return join_rows(pieces)

    def digest(self, pieces: list[Rows]) -> bytes | None:
        """What `comparison_digest` gives for a live directory that is unchanged; or None."""
        if any(piece.states for piece in pieces):
            return None
        rows = join_rows(pieces)
        if newest_ctime_ns(rows.stats) >= self.recent_limit_ns:
            return None
        return comparison_digest(rows.names, rows.stats)

    def _damaged(self, error: DamageError) -> list[Rows]:
        text = str(error)
        if text not in self._warned:
            self._warned.add(text)
            self._warn(f"the parent's listing is damaged, so files are read again: {text}")
        return []

    def _sound(self, pieces: list[Rows], offers: bool) -> list[Rows]:
        sound = []
        for rows in pieces:
            if rows.signature_name != self._signature:
                return []
            if not rows.part_blocks:
                sound.append(rows)
                continue
            offered = self._blocks.offered(rows)
            if offered is None:
                return []
            if offers or offered is not False:
                sound.append(_to_be_read(rows, offered, offers))
            else:
                sound.append(rows)
        return sound


def _are_public(rows: Rows) -> bool:
    """Whether everybody may read each row that has content."""
    modes = memoryview(rows.stats).cast("q")[MODE::COLUMN_COUNT]
    return all(
        mode & stat.S_IROTH for mode, count in zip(modes, rows.part_counts, strict=True) if count
    )


def _to_be_read(rows: Rows, offered: NDArray[np.bool_] | bool, offers: bool) -> Rows:
    """`rows` with those marked as changed whose references are not `offered` as they are to be."""
    if offers and offered is True and rows.row_count <= _FEW_ROWS and _are_public(rows):
        return rows
    modes = np.frombuffer(rows.stats, "<i8")[MODE::COLUMN_COUNT]
    counts = np.frombuffer(rows.part_counts, np.uint32)
    wanted = np.repeat(modes & stat.S_IROTH != 0, counts) & offers
    differing = wanted != offered
    if not differing.any():
        return rows
    numbers = np.repeat(np.arange(rows.row_count), counts)[differing]
    return msgspec.structs.replace(
        rows, states={**rows.states, **dict.fromkeys(numbers.tolist(), CHANGED)}
    )


# Pages are read about in order, each once or twice: a small cache is enough for their blocks.
_CACHE_BYTES: Final = 4 << 20


def choose_parent(
    snapshots: Sequence[Snapshot], paths: tuple[bytes, ...], options: BackupOptions
) -> Snapshot | None:
    """The snapshot to compare with; None for a full backup.

    Without one named in the options it is the newest of the same host, job, paths and kept
    attributes, for the level `differential` the newest full one of those; where there is none of
    the same paths, the newest that shares one, since a path may be missing for a day. Raises
    SnapshotNotFoundError for a named one.
    """
    if options.level == "full":
        return None
    if options.parent is not None:
        return find_snapshot(select_snapshots(snapshots, host=options.host), options.parent)
    fitting = [
        snapshot
        for snapshot in select_snapshots(snapshots, host=options.host, job=options.job)
        if not set(snapshot.paths).isdisjoint(paths)
        and _keeps_the_same(snapshot, options)
        and (options.level == "incremental" or snapshot.level == "full")
    ]
    same = [snapshot for snapshot in fitting if set(snapshot.paths) == set(paths)]
    return find_snapshot(same or fitting, "latest") if fitting else None


def open_parent(
    repository: Repository,
    blocks: KeptIndex,
    base: Snapshot,
    options: BackupOptions,
    cache: ParentCache | None,
    warn: Callable[[str], None],
) -> ParentListing | None:
    """The listing of `base`; None when it cannot be read: then all files are read.

    A key that cannot read gets it from `cache`. Raises StoreError.
    """
    tuning = options.tuning
    if not _keeps_the_same(base, options):
        warn(
            "the named parent was made with other choices of ACLs, extended attributes or flags, "
            "so everything is read"
        )
        return None
    cached = None
    try:
        if isinstance(repository.key, RestoreKey):
            pages = repository.snapshot(base.id).pages
            chunks: ChunkReader = repository.block_reader(blocks, _CACHE_BYTES)
        else:
            cached = None if cache is None else _cached_listing(cache, base)
            if cached is None:
                return None
            pages, chunks = cached.pages, cached
        listing = Listing(pages, chunks, tuning.lru_size)
    except (DamageError, OSError) as error:
        warn(f"the parent's listing cannot be used, so everything is read: {error}")
        return None
    return ParentListing(
        listing, blocks, base.start_ns, WIDE_DIRECTORY_ROWS, tuning.signature, warn, cached
    )


def _cached_listing(cache: ParentCache, base: Snapshot) -> CachedListing | None:
    """The listing of `base`; of one that was only tagged that of its original. DamageError."""
    found = cache.find(base.id)
    if found is None and base.original:
        found = cache.find(base.original.partition(":")[2])
        seal = (base.listing.row_count, base.listing.content_bytes)
        if found is not None and totals_of(found.pages) != seal:
            return None
    return found


def _keeps_the_same(snapshot: Snapshot, options: BackupOptions) -> bool:
    """Whether unchanged rows of a snapshot hold what ours would.

    An attribute that was left out does not show in the columns that are compared.
    """
    wanted = options.attribute_options()
    return all(snapshot.options.get(name, "") == choice for name, choice in wanted.items())


# The paths that a snapshot says it was made of: those named, or the folders above them.
#
# A list may name millions of files, and an envelope, which everybody who lists snapshots reads, has
# room for some thousands.

# The rest is for tags and options.
_MOST_BYTES: Final = ENVELOPE_SIZE_LIMIT // 2
_OVERHEAD_BYTES: Final = 5


def recorded_paths(paths: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """`paths` where there is room for them, else the deepest folders above them that fit."""
    if _fits(paths):
        return paths
    parts = [path.split(b"/") for path in paths]
    # All of them fit at the depth `low` and not at `high`.
    low, high = 0, max(map(len, parts))
    while high - low > 1:
        middle = (low + high) // 2
        if _fits(_cut(parts, middle)):
            low = middle
        else:
            high = middle
    return _cut(parts, low)


def _cut(parts: list[list[bytes]], depth: int) -> tuple[bytes, ...]:
    found = {tuple(one[:depth]) for one in parts}
    # One that is its own path holds those below it.
    shorter = {one for one in found if len(one) < depth}
    kept = [
        one
        for one in found
        if not shorter or not any(one[:end] in shorter for end in range(1, len(one)))
    ]
    return tuple(b"/".join(one) for one in sorted(kept))


def _fits(paths: tuple[bytes, ...]) -> bool:
    return sum(map(len, paths)) + _OVERHEAD_BYTES * len(paths) <= _MOST_BYTES
