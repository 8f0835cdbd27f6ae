"""Copy snapshots to another repository.

A copy is its own snapshot: restore, check and prune treat it like any other. Its `original`
field names its source as `REPOSITORY:SNAPSHOT`, also for copies of copies; from that, a second
run knows what exists already. The order of writes is that of a backup, so an interrupted copy
leaves packs that the next one reuses.

Content of an earlier copy is not read again: the listings of that snapshot in both repositories
are compared row by row to map its references.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final

import msgspec
import numpy as np

from strongroom.base.errors import DamageError, UsageError
from strongroom.base.progress import Progress
from strongroom.engine.content.codecs import Compression, parse_compression
from strongroom.engine.copy.content import KEY_SIZE, ContentMover, ReferenceMap, reference_keys
from strongroom.engine.repository.index.kept_index import KeptIndex
from strongroom.engine.repository.keys.roles import RestoreKey
from strongroom.engine.repository.leases import Lease
from strongroom.engine.repository.listing.reader import Listing
from strongroom.engine.repository.packs import PACK_SIZE_BYTES, PackFooter
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.set_aside import SetAside, is_of_one_object
from strongroom.engine.repository.snapshots import Snapshot, is_made_with_restore_key, witness_of
from strongroom.engine.rows.rows import BLOCK_ID_BYTES, Rows
from strongroom.engine.writing.deduplication import Deduplication, StoredChunks
from strongroom.engine.writing.listing import ListingWriter
from strongroom.engine.writing.new_packs import NewPacks
from strongroom.engine.writing.pack_lanes import BlockLane, LaneSettings

_WORKERS: Final = 2
_QUEUE_BLOCKS: Final = 16


class CopyOptions(msgspec.Struct, frozen=True):
    """compression: of the blocks written. host: named in the lease.

    ignored: snapshots of the target from which nothing is taken over, as `to_be_copied` has them.
    """

    host: str
    compression: Compression = parse_compression("auto")
    ignored: frozenset[str] = frozenset()


class CopiedSnapshot(msgspec.Struct, frozen=True):
    """One snapshot and its copy.

    read_bytes: raw content read from the source. new_bytes: what of it the target did not hold.
    stored_bytes: size of the packs written.
    """

    original: Snapshot
    copy: Snapshot
    read_bytes: int
    new_bytes: int
    stored_bytes: int


def identity(repository: Repository, snapshot: Snapshot) -> str:
    """The identity of a snapshot, which all its copies share."""
    return snapshot.original or f"{repository.config.id}:{snapshot.id}"


def _alike(repository: Repository, snapshot: Snapshot) -> tuple[object, ...]:
    """Equal for a snapshot and its copies, not for one that was tagged or rewritten since.

    Nor for one that a repair has replaced: it lacks content, which counts as errors.
    """
    listing = snapshot.listing
    of = (snapshot.host, frozenset(snapshot.tags), listing.row_count, listing.content_bytes)
    return (identity(repository, snapshot), *of, snapshot.error_count)


def to_be_copied(
    source: Repository,
    target: Repository,
    wanted: Iterable[Snapshot],
    ignored: Collection[str] = (),
) -> tuple[list[Snapshot], list[tuple[Snapshot, Snapshot]]]:
    """Those of `wanted` that the target does not have, the oldest first; the others with theirs.

    ignored: ids of snapshots of the target that count as not there, as does what cannot be read of
    it. Raises UsageError when both repositories are the same.
    """
    if source.config.id == target.config.id:
        raise UsageError("source and target are the same repository")
    listed = target.snapshots(SetAside(), anew=True)
    there = {_alike(target, one): one for one in listed if one.id not in ignored}
    missing: list[Snapshot] = []
    present: list[tuple[Snapshot, Snapshot]] = []
    distinct = {snapshot.id: snapshot for snapshot in wanted}.values()
    for snapshot in sorted(distinct, key=lambda item: (item.start_ns, item.id)):
        copy = there.get(_alike(source, snapshot))
        if copy is None:
            missing.append(snapshot)
        else:
            present.append((snapshot, copy))
    return missing, present


def copy_snapshots(
    source: Repository,
    target: Repository,
    missing: Sequence[Snapshot],
    options: CopyOptions,
    progress: Progress,
    set_aside: SetAside,
) -> Iterator[CopiedSnapshot]:
    """Copy each of `missing` (see `to_be_copied`), yielding it once it is committed.

    The copies are snapshots of the client of the same name, one client after the other. The source
    needs its restore key; for the target a put key of the client is enough, but then content of
    earlier copies is read again. set_aside: takes snapshots that cannot be read completely; the
    others are copied. Raises DamageError for what is damaged of the target, StoreError,
    LeaseError, KeyRightError.
    """
    by_client: dict[tuple[str, int], list[Snapshot]] = {}
    for snapshot in missing:
        by_client.setdefault((snapshot.host, snapshot.generation), []).append(snapshot)
    # All of them before anything is copied: the key may be one client's.
    writers = [(target.for_client(*client), mine) for client, mine in by_client.items()]
    for writing, mine in writers:
        with writing.lease(options.host, os.getpid(), "copy") as lease:
            lease.start_renewing()
            waiting = mine
            while waiting:
                # One that fails has left chunks half moved: the next ones begin anew.
                run = SnapshotCopier(source, writing, waiting[0].owner, lease, options, progress)
                try:
                    for copied in run.run(waiting):
                        waiting = waiting[1:]
                        yield copied
                except Exception as error:
                    if not is_of_one_object(error):
                        raise
                    set_aside.add("snapshots", waiting[0].id, error)
                    waiting = waiting[1:]


class _CopiedPacks(NewPacks):
    """Packs whose blocks the listings of later copies may refer to at once."""

    def __init__(self, target: Repository, index: KeptIndex) -> None:
        super().__init__(target)
        self._index = index

    def take(self, footer: PackFooter) -> None:
        """A pack was stored. Raises StoreError."""
        super().take(footer)
        self._index.add(footer)


class SnapshotCopier:
    """Copies snapshots of one client; see `copy_snapshots`."""

    def __init__(
        self,
        source: Repository,
        target: Repository,
        owner: bytes,
        lease: Lease,
        options: CopyOptions,
        progress: Progress,
    ) -> None:
        """owner: the id of the client in the source."""
        self._source = source
        self._target = target
        self._lease = lease
        self._progress = progress
        self._reader = source.block_reader(source.kept_index().of_client(owner))
        self._stored = StoredChunks(target)
        self._packs = _CopiedPacks(target, self._stored.blocks)
        for footer in self._stored.orphans:
            self._packs.adopt(footer)
        self._deduplication = Deduplication(self._stored.load_table, target.writer.client)
        self._lane = BlockLane(
            LaneSettings((options.compression,), _WORKERS, _QUEUE_BLOCKS, PACK_SIZE_BYTES),
            self._packs,
        )
        self._moved = ReferenceMap()
        self._read_bytes = 0
        self._listed = [one for one in source.snapshots(SetAside()) if one.owner == owner]
        self._identities = {snapshot.id: identity(source, snapshot) for snapshot in self._listed}
        there = [one for one in target.snapshots(SetAside()) if one.id not in options.ignored]
        self._copies = {identity(target, snapshot): snapshot.id for snapshot in there}

    def run(self, missing: Sequence[Snapshot]) -> Iterator[CopiedSnapshot]:
        """Copy each of `missing`; see `copy_snapshots`."""
        try:
            self._learn_from_earlier(missing)
            for snapshot in missing:
                yield self._counted_copy(self._source.snapshot(snapshot.id))
        except BaseException:
            self.abort()
            raise

    def abort(self) -> None:
        """Stop the threads, and leave out what is not stored yet."""
        self._lane.abort()

    def _counted_copy(self, snapshot: Snapshot) -> CopiedSnapshot:
        self._progress.message(f"copying {snapshot.short_id}")
        new_bytes, stored_bytes = self._deduplication.new_bytes, self._packs.stored_bytes
        original = identity(self._source, snapshot)
        parent = self._copy_of_parent(snapshot)
        copied = self.copy(snapshot, parent=parent, original=original)
        self._copies[original] = copied.id
        return CopiedSnapshot(
            snapshot,
            copied,
            self._read_bytes,
            self._deduplication.new_bytes - new_bytes,
            self._packs.stored_bytes - stored_bytes,
        )

    def _count_page(self, place: int, page: list[Rows]) -> None:
        self._progress.add(files=sum(rows.row_count for rows in page))

    def copy(
        self,
        snapshot: Snapshot,
        keep: Callable[[list[Rows]], list[Rows]] | None = None,
        **fields: object,
    ) -> Snapshot:
        """Store a snapshot, read with its pages, as one of the target's client.

        keep: the rows of a page that are copied, all by default. fields: of the copy.
        """
        mover = ContentMover(
            self._reader,
            self._target.writer.client,
            self._deduplication,
            self._lane,
            self._moved,
            self._progress,
        )
        writer = ListingWriter(
            self._target.writer,
            self._stored.blocks,
            self._packs,
            observe=self._count_page,
        )
        try:
            for groups in Listing(snapshot.pages, self._reader, 1).pages():
                for rows in mover.add(groups if keep is None else keep(groups)):
                    writer.add(rows)
            for rows in mover.finish():
                writer.add(rows)
            writer.finish()
        except BaseException:
            writer.abort()
            raise
        self._lane.finish()
        self._packs.write_index()
        self._read_bytes = mover.read_bytes
        witness = b""
        if is_made_with_restore_key(self._source.key, snapshot):
            witness = witness_of(self._target.key, self._target.writer.client_id, writer.pages)
        totals = snapshot.totals if keep is None else writer.totals(snapshot.totals)
        return self._target.commit(
            msgspec.structs.replace(
                snapshot,
                id="",
                witness=witness,
                pages=tuple(writer.pages),
                totals=totals,
                **fields,
            ),
            self._lease,
        )

    def _copy_of_parent(self, snapshot: Snapshot) -> str:
        """The id of the parent's copy, "" where the parent was not copied."""
        return self._copies.get(self._identities.get(snapshot.parent, ""), "")

    def _learn_from_earlier(self, missing: Sequence[Snapshot]) -> None:
        """Map references by the newest copy of each host and paths to be copied."""
        if not isinstance(self._target.key, RestoreKey):
            return
        kinds = {(snapshot.host, snapshot.job, snapshot.paths) for snapshot in missing}
        newest = {
            (snapshot.host, snapshot.job, snapshot.paths): snapshot
            for snapshot in self._listed
            if self._identities[snapshot.id] in self._copies
        }
        for kind in kinds & newest.keys():
            copy_id = self._copies[self._identities[newest[kind].id]]
            try:
                self._learn(self._source.snapshot(newest[kind].id), self._target.snapshot(copy_id))
            except DamageError:
                # The map only saves reads; damage is left to check and repair.
                continue

    def _learn(self, original: Snapshot, copy: Snapshot) -> None:
        """Walk both listings side by side; pages that differ are skipped."""
        reader = self._target.block_reader(self._stored.blocks)
        ours = Listing(original.pages, self._reader, 1)
        theirs = Listing(copy.pages, reader, 1)
        for number, (page, other) in enumerate(zip(original.pages, copy.pages, strict=False)):
            if (page.first_directory, page.first_name, page.row_count) != (
                other.first_directory,
                other.first_name,
                other.row_count,
            ):
                return
            for rows, same_rows in zip(ours.page(number), theirs.page(number), strict=True):
                if rows.names != same_rows.names or rows.part_counts != same_rows.part_counts:
                    raise DamageError("a copy of a snapshot holds other rows; run check")
                keys = reference_keys(rows.part_blocks, rows.part_slots)
                blocks = same_rows.part_blocks
                usable = self._stored.blocks.has_blocks(blocks) & ~self._moved.known(keys)
                places = np.flatnonzero(usable).tolist()
                self._moved.add(
                    b"".join([keys[place * KEY_SIZE : (place + 1) * KEY_SIZE] for place in places]),
                    [
                        (
                            blocks[place * BLOCK_ID_BYTES : (place + 1) * BLOCK_ID_BYTES],
                            same_rows.part_slots[place],
                        )
                        for place in places
                    ],
                )
