"""Replace snapshots by ones with other tags, without some paths, or of another client.

A stored snapshot never changes: a new one is committed, and only then the old one is removed, so
anyone who is interrupted has both, and doing the same again removes the old one. The new one keeps
what the old one was: its time, job, level and, where the rows stay, its pages, so nothing is stored
twice. `original` names the old one, as it does for copies.

Who holds a lease of the client may rely on what it reads under it: a prune removes no pack before
the lease has ended, and sees the new snapshot then.

Trust: rows are those of the old snapshot and refer to the same content, so no client reaches more
than before. Only for another client, which takes the restore key, content is read, checked and
stored anew under that client's keys. What a client stored and no one has verified is not replaced:
it would count as the appliance's own, so as verified.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import cached_property
from itertools import zip_longest
from typing import Final

import msgspec

from strongroom.base.errors import (
    DamageError,
    ObjectMissingError,
    RightError,
    UnknownFormatError,
    UsageError,
)
from strongroom.base.progress import Progress
from strongroom.engine.copy.copy import CopyOptions, SnapshotCopier, identity
from strongroom.engine.repository.index.client_blocks import ClientBlocks
from strongroom.engine.repository.leases import Lease
from strongroom.engine.repository.left_out import LeftOut
from strongroom.engine.repository.listing.reader import Listing
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.set_aside import SetAside
from strongroom.engine.repository.snapshots import (
    CATALOG_TAG,
    POOL_TAG,
    RUN_TAG,
    Snapshot,
    is_made_with_restore_key,
    witness_of,
)
from strongroom.engine.rows.entry_counts import count_entries
from strongroom.engine.rows.rows import COLUMN_COUNT, MODE, Rows, join_rows, kind_name, slice_rows
from strongroom.engine.rows.views import join_path
from strongroom.engine.scan.patterns import Patterns
from strongroom.engine.writing.listing import ListingWriter
from strongroom.engine.writing.new_packs import NewPacks

# The mark of a snapshot that was rewritten while the one it was made from stays.
REWRITE_TAG: Final = "rewrite"
_OF_THE_DIRECTOR: Final = (RUN_TAG, POOL_TAG, CATALOG_TAG)


class TagChanges(msgspec.Struct, frozen=True):
    """Tags to add and to remove, or all that a snapshot is to have, if `exactly` is not None."""

    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    exactly: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for tag in (*self.add, *self.remove, *(self.exactly or ())):
            if tag.startswith(_OF_THE_DIRECTOR):
                raise UsageError(
                    f"the tag {tag} is the director's: it says which run or pool a snapshot is of"
                )

    def of(self, tags: Sequence[str]) -> tuple[str, ...]:
        """The tags that a snapshot with `tags` is to have; those of the director stay."""
        kept = [tag for tag in tags if tag not in self.remove]
        if self.exactly is not None:
            kept = [tag for tag in tags if tag.startswith(_OF_THE_DIRECTOR)]
        return tuple(dict.fromkeys((*kept, *(self.exactly or ()), *self.add)))


class Changes(msgspec.Struct, frozen=True):
    """What is to change. excludes: what is dropped. host: the client whose it is to be, "" as is.

    forget: whether the old snapshots are removed.
    """

    tags: TagChanges = TagChanges()
    excludes: Patterns | None = None
    host: str = ""
    forget: bool = True


class Replaced(msgspec.Struct, frozen=True):
    """A snapshot and the one that replaces it.

    new: None in a dry run. dropped_files, dropped_bytes: what the new one lacks. refused: why the
    store kept the old one.
    """

    old: Snapshot
    new: Snapshot | None
    tags: tuple[str, ...]
    dropped_files: int = 0
    dropped_bytes: int = 0
    refused: RightError | None = None


def unverified(repository: Repository, snapshots: Iterable[Snapshot]) -> list[Snapshot]:
    """Those that a client stored and no one has verified."""
    unverified = repository.store.unverified("snapshots")
    return [one for one in snapshots if one.id in unverified]


def replace_snapshots(
    repository: Repository,
    wanted: Sequence[Snapshot],
    changes: Changes,
    progress: Progress,
    *,
    dry_run: bool = False,
) -> Iterator[Replaced]:
    """Replace each snapshot that changes, yielding it once that is done; the others are left out.

    wanted: without pages, as `Repository.snapshots` gives them. Raises UsageError before anything
    is changed if one may not be replaced, KeyRightError with a put key, DamageError, StoreError,
    LeaseError.
    """
    _require_replaceable(repository, wanted, changes)
    listed = repository.snapshots(SetAside())
    generations = [one.generation for one in listed if one.host == changes.host]
    for old in wanted:
        client = target = repository.for_client(old.host, old.generation)
        if changes.host not in ("", old.host):
            target = repository.for_client(changes.host, max(generations, default=0))
        progress.message(f"rewriting {old.short_id}")
        with ExitStack() as held:
            leases = []
            for writing in dict.fromkeys((client, target)):
                if not dry_run:
                    lease = writing.lease(platform.node(), os.getpid(), "rewrite")
                    leases.append(held.enter_context(lease))
                    lease.start_renewing()
            try:
                # Its beginning as it was believed: to be stored later must not make it later.
                full = msgspec.structs.replace(repository.snapshot(old.id), start_ns=old.start_ns)
            except ObjectMissingError:
                continue
            run = _Rewrite(client, target, full, changes, listed, progress)
            found = run.plan() if dry_run else run.replace(leases)
            if found is not None:
                yield found


def commit_rows(
    repository: Repository,
    old: Snapshot,
    groups: Iterable[Rows],
    blocks: ClientBlocks,
    lease: Lease,
    **fields: object,
) -> Snapshot | None:
    """Commit a snapshot of the same client like `old` with other rows; None where there are none.

    fields: of the new one. Raises StoreError, LeaseError.
    """
    packs = NewPacks(repository)
    writer = ListingWriter(repository.writer, blocks, packs)
    try:
        for rows in groups:
            writer.add(rows)
        pages = tuple(writer.finish())
    except BaseException:
        writer.abort()
        raise
    if not pages:
        return None
    packs.write_index()
    witness = b""
    if is_made_with_restore_key(repository.key, old):
        witness = witness_of(repository.key, old.owner, pages)
    totals = writer.totals(old.totals)
    new = msgspec.structs.replace(old, pages=pages, totals=totals, witness=witness, **fields)
    return repository.commit(new, lease)


def _require_replaceable(
    repository: Repository, wanted: Sequence[Snapshot], changes: Changes
) -> None:
    if suspect := unverified(repository, wanted):
        raise UsageError(
            f"snapshot {suspect[0].short_id} of {suspect[0].host} is not verified yet, and would "
            "count as verified; run strongroom vouch first. Nothing was changed"
        )
    drops = changes.excludes is not None or bool(changes.host)
    kept = [one for one in wanted if one.protected]
    if drops and changes.forget and kept:
        raise UsageError(
            f"snapshot {kept[0].short_id} is protected; leave out --forget. Nothing was changed"
        )


class _Rewrite:
    """One snapshot; see `replace_snapshots`."""

    def __init__(
        self,
        client: Repository,
        target: Repository,
        old: Snapshot,
        changes: Changes,
        listed: Sequence[Snapshot],
        progress: Progress,
    ) -> None:
        """client, target: the repository for writing as the old and as the new client."""
        self._client = client
        self._target = target
        self._old = old
        self._changes = changes
        self._listed = listed
        self._progress = progress
        self._dropper = Dropper(changes.excludes)
        self._tags = changes.tags.of(old.tags)
        if not changes.forget and REWRITE_TAG not in self._tags:
            self._tags = (*self._tags, REWRITE_TAG)
        if changes.excludes is not None:
            for _ in self._rows():
                pass
            self._dropper.count_again()

    @cached_property
    def _blocks(self) -> ClientBlocks:
        return self._client.load_index().of_client(self._old.owner)

    @property
    def _is_changed(self) -> bool:
        drops = self._dropper.dropped_rows or self._target is not self._client
        return bool(drops) or (self._changes.forget and self._tags != self._old.tags)

    def plan(self) -> Replaced | None:
        return self._replaced(None) if self._is_changed else None

    def replace(self, leases: Sequence[Lease]) -> Replaced | None:
        if not self._is_changed:
            return None
        new = self._there() or self._committed(leases)
        refused = None
        if self._changes.forget:
            try:
                self._client.store.delete("snapshots", self._old.id)
                self._client.store.sync()
            except RightError as error:
                # A storage daemon has its own Minimum Retention.
                refused = error
        return self._replaced(new, refused)

    def _replaced(self, new: Snapshot | None, refused: RightError | None = None) -> Replaced:
        dropped = self._dropper
        return Replaced(
            self._old, new, self._tags, dropped.dropped_files, dropped.dropped_bytes, refused
        )

    def _there(self) -> Snapshot | None:
        """What an interrupted run has committed.

        The old one is removed for it, so it must have the rows that stay, and nothing else will
        do: a snapshot that was rewritten before has the same identity as what comes of it.
        """
        old, host = self._old, self._target.writer.name
        origin = identity(self._client, old)
        files = old.totals.files - self._dropper.dropped_files
        unverified = self._client.store.unverified("snapshots")
        for one in self._listed:
            is_same = (one.original, one.host, one.tags) == (origin, host, self._tags)
            if not is_same or one.start_ns != old.start_ns or one.totals.files != files:
                continue
            if one.id != old.id and one.id not in unverified and self._has_what_stays(one):
                return one
        return None

    def _has_what_stays(self, listed: Snapshot) -> bool:
        """Whether another snapshot made from the same one has all paths that stay, and no more."""
        try:
            one = self._target.snapshot(listed.id)
            reader = self._target.reader_of(one, self._target.load_index(owner=one.owner))
            pages = Listing(one.pages, reader, 1).pages()
            theirs = _paths(rows for groups in pages for rows in groups)
            return all(path == other for path, other in zip_longest(_paths(self._rows()), theirs))
        except (DamageError, ObjectMissingError, UnknownFormatError):
            return False

    def _committed(self, leases: Sequence[Lease]) -> Snapshot:
        old, lease = self._old, leases[-1]
        fields: dict[str, object] = {
            "tags": self._tags,
            "original": identity(self._client, old),
            "left_out": self._dropper.of_left_out(old.left_out),
        }
        if self._target is not self._client:
            options = CopyOptions(platform.node())
            copier = SnapshotCopier(
                self._client, self._target, old.owner, lease, options, self._progress
            )
            try:
                # A parent is of the same client.
                return copier.copy(old, self._dropper.keep, parent="", **fields)
            except BaseException:
                copier.abort()
                raise
        if not self._dropper.dropped_rows:
            return self._client.commit(msgspec.structs.replace(old, **fields), lease)
        new = commit_rows(self._client, old, self._rows(), self._blocks, lease, **fields)
        if new is None:
            raise UsageError(f"nothing of {old.short_id} would be left; forget it instead")
        return new

    def _rows(self) -> Iterator[Rows]:
        """The rows that stay."""
        reader = self._client.block_reader(self._blocks)
        for groups in Listing(self._old.pages, reader, 1).pages():
            yield from self._dropper.keep(groups)


def _paths(listing: Iterable[Rows]) -> Iterator[tuple[bytes, bytes]]:
    return ((rows.directory, name) for rows in listing for name in rows.name_list())


class Dropper:
    """Drops what patterns exclude, with all that is in it; rows come in the order of a listing."""

    def __init__(self, excludes: Patterns | None) -> None:
        self._excludes = excludes
        self._gone: set[bytes] = set()
        self.dropped_rows = 0
        self.dropped_files = 0
        self.dropped_bytes = 0
        self._counts = True

    def count_again(self) -> None:
        """The rows come once more: they are counted already."""
        self._counts = False

    def keep(self, groups: Sequence[Rows]) -> list[Rows]:
        """The rows of a page that stay."""
        if self._excludes is None:
            return list(groups)
        kept = []
        for rows in groups:
            left = self._kept_of(rows)
            if left is not rows and self._counts:
                before = count_entries([rows])
                after = count_entries([left]) if left is not None else count_entries([])
                self.dropped_rows += rows.row_count - (0 if left is None else left.row_count)
                self.dropped_files += before.files - after.files
                self.dropped_bytes += before.content_bytes - after.content_bytes
            if left is not None:
                kept.append(left)
        return kept

    def of_left_out(self, left_out: LeftOut | None) -> LeftOut | None:
        """What was left out, of what stays; nothing may be deleted for want of what was dropped."""
        if left_out is None or self._excludes is None:
            return left_out
        places = {
            directory: {
                name: reason
                for name, reason in names.items()
                if not self._matched(directory, [name], [True])[0]
            }
            for directory, names in left_out.places.items()
            if not self._is_gone(directory)
        }
        return LeftOut(b"", {directory: names for directory, names in places.items() if names})

    def _kept_of(self, rows: Rows) -> Rows | None:
        """The rows of a directory that stay: the same object if all do, None if none does."""
        if self._is_gone(rows.directory):
            return None
        names = rows.name_list()
        modes = memoryview(rows.stats).cast("q")[MODE::COLUMN_COUNT]
        are_directories = [kind_name(mode) == "directory" for mode in modes]
        matched = self._matched(rows.directory, names, are_directories)
        if not any(matched):
            return rows
        for name, is_out, is_directory in zip(names, matched, are_directories, strict=True):
            if is_out and is_directory:
                self._gone.add(join_path(rows.directory, name))
        stay = [number for number, is_out in enumerate(matched) if not is_out]
        pieces = [slice_rows(rows, first, last) for first, last in _runs(stay)]
        return join_rows(pieces) if pieces else None

    def _matched(
        self, directory: bytes, names: Sequence[bytes], are_directories: Sequence[bool]
    ) -> list[bool]:
        asked = None if self._excludes is None else self._excludes.for_directory(directory)
        if asked is None:
            return [False] * len(names)
        # The row without a name is the root's.
        found = asked.match(names, are_directories)
        return [is_out and bool(name) for is_out, name in zip(found, names, strict=True)]

    def _is_gone(self, path: bytes) -> bool:
        while path:
            if path in self._gone:
                return True
            path = path.rpartition(b"/")[0]
        return False


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Ascending numbers as ranges: first, and the one after the last."""
    first = 0
    for place, number in enumerate(numbers):
        if place + 1 == len(numbers) or numbers[place + 1] != number + 1:
            yield numbers[first], number + 1
            first = place + 1
