"""Backup: from a source to a committed snapshot. `back_up` reads from top to bottom.

Order of writes: packs (by the shards, while they work), indexes (at checkpoints and at the end),
then, after everything is durable, the snapshot. An interrupted backup leaves packs that the next
one reuses. It needs no lock, only a lease, which prune respects.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager

import msgspec

# Before the modules that import it from deeper in the stack: there its loading crosses the end of a
# piece of CPython's stack 1,800 times, which is mapped and unmapped each time (13 ms).
import numpy as np  # noqa: F401

import strongroom
from strongroom.base import clock, process_memory
from strongroom.base.errors import (
    DamageError,
    ObjectMissingError,
    SnapshotNotFoundError,
    SourceError,
)
from strongroom.base.printable import printable
from strongroom.base.progress import Progress
from strongroom.engine.backup.coordinator import Coordinator
from strongroom.engine.backup.options import BackupOptions
from strongroom.engine.backup.own_memory import OwnMemory
from strongroom.engine.backup.parent import choose_parent, open_parent, recorded_paths
from strongroom.engine.backup.report import BackupReport
from strongroom.engine.backup.shards.examined import ExaminedEntry
from strongroom.engine.backup.shards.group import ShardGroup
from strongroom.engine.backup.unchanged import ContentComparison
from strongroom.engine.filesets.rules import FileSetRules
from strongroom.engine.repository.keys.roles import RestoreKey
from strongroom.engine.repository.left_out import LeftOut
from strongroom.engine.repository.packs import PACK_SIZE_BYTES
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.set_aside import SetAside
from strongroom.engine.repository.snapshots import (
    Snapshot,
    Totals,
    is_made_with_restore_key,
    read_snapshot,
    witness_of,
)
from strongroom.engine.rows.left_out import NOT_ENTERED, OWN_REPOSITORY
from strongroom.engine.rows.views import join_path, split_path
from strongroom.engine.sources.files import look_at
from strongroom.engine.stores.capabilities import found_false
from strongroom.engine.writing.deduplication import Deduplication, StoredChunks
from strongroom.engine.writing.listing import ListingWriter
from strongroom.engine.writing.new_packs import NewPacks
from strongroom.sources.source import Source


def back_up(
    repository: Repository,
    source: Source,
    options: BackupOptions,
    show: Callable[[], AbstractContextManager[Progress]],
    tell: Callable[[ExaminedEntry], None] | None = None,
) -> BackupReport:
    """Make a snapshot of `source`.

    `tell` gets what becomes of each entry, in no order, where the options ask for that. `show`
    gives the progress; it is entered after the shards were started, so it may start threads.
    Raises SourceError, StoreError, LeaseError, DamageError; then nothing is listed.
    """
    started = clock.elapsed_seconds()
    repository = repository.for_client(options.host, _generation(repository))
    # The lease comes first: what a prune marks from now on stays until the lease has ended, so all
    # that is found below may be referred to.
    with repository.lease(options.host, os.getpid(), "backup") as lease:
        if not options.dry_run:
            # Left-overs of killed jobs may be what fills the disk.
            repository.store.remove_abandoned()
        children_seconds, start_ns = clock.children_seconds(), clock.now_ns()
        warnings: list[str] = []
        memory = OwnMemory(repository, options, warnings.append)
        stored = StoredChunks(repository)
        packs = NewPacks(repository, is_dry=options.dry_run)
        for footer in stored.orphans:
            packs.adopt(footer)
        deduplication = Deduplication(stored.load_table, repository.writer.client)

        # What is backed up, and what it is compared with.
        paths = source.paths()
        selection = options.selection
        roots = selection.roots if isinstance(selection, FileSetRules) else ()
        named = [root.path for root in roots] or list(paths)
        begin = look_at(named)
        recorded = recorded_paths(paths)
        base = _choose_parent(repository, recorded, options, memory, warnings)
        memory.open_cache(recorded)
        parent = None
        if base is not None:
            blocks, cache = stored.blocks, memory.cache
            parent = open_parent(repository, blocks, base, options, cache, warnings.append)

        compared = ContentComparison(recorded) if options.skips_unchanged else None

        # The shards are forked before any thread exists: a forked process has one thread, and a
        # lock that another one held at the fork would stay locked there forever.
        counts_ahead = options.counts_ahead and base is None and bool(paths)
        limit_ns = 0 if parent is None else parent.recent_limit_ns
        shard_group = ShardGroup(
            repository, source, paths, options, limit_ns, counts_ahead=counts_ahead
        )
        with memory.keeper(parent) as keeper, shard_group as shards, show() as progress:
            lease.start_renewing()
            # After the fork: tables of chunks grow and are merged here, while shards allocate packs
            # again and again.
            process_memory.free_large_at_once()
            if base is not None:
                totals = base.totals
                progress.total(totals.files, totals.data_bytes, is_estimate=True)
            listing = ListingWriter(
                repository.writer,
                stored.blocks,
                packs,
                pack_size_bytes=options.pack_size_bytes or PACK_SIZE_BYTES,
                parent=parent,
                keeper=keeper,
                encoders=shards.pages,
                observe=None if compared is None else compared.note,
            )
            coordinator = Coordinator(
                shards, options, deduplication, packs, parent, listing, progress, tell
            )

            def warn_of_tree() -> None:
                warnings.extend(_own_repository_warnings(repository, coordinator))
                warnings.extend(_strange_time_warnings(listing))

            def finish() -> Snapshot:
                """Write the rest, in this order: listing, index; the snapshot that names them."""
                listing.finish()
                if not listing.pages:
                    shown = ", ".join(f"/{printable(path)}" for path in paths[:3])
                    raise SourceError(f"there is nothing to back up in {shown or 'no path'}")
                packs.write_index()
                warn_of_tree()
                # The rules say nothing of names beside those that were listed.
                rules = shards.recorded_rules if recorded == paths else b""
                left_out = _left_out(coordinator, rules, warnings)
                if recorded != paths:
                    warnings.append(
                        f"{len(paths):,} paths are too many for the snapshot, which records the "
                        f"{len(recorded):,} folders above them, so restore --delete will remove "
                        "nothing with this snapshot"
                    )
                totals = _totals(listing, coordinator, deduplication, packs)
                head = _SnapshotHead(options, recorded, base, start_ns)
                return _snapshot(repository, head, totals, coordinator, listing, left_out)

            snapshot = None
            try:
                coordinator.run()
                spent = shards.spent()
                # Before the index is written, which takes as much memory again.
                deduplication.release()
                progress.message("committing")
                is_unchanged = False
                if compared is not None and base is not None and parent is not None:
                    before = parent.page_blocks
                    is_unchanged = (
                        # What was lost is stored again, and with it a snapshot.
                        deduplication.new_chunks == 0
                        and bool(stored.blocks.has_blocks(b"".join(before)).all())
                        and compared.finds_nothing_new(listing.pages, parent)
                        and _serves_as_this(repository, base, recorded, coordinator)
                    )
                if is_unchanged:
                    listing.abort()
                    warn_of_tree()
                elif options.dry_run:
                    finish()
                else:
                    snapshot = repository.conclude(finish, lease)
            except BaseException:
                listing.abort()
                raise
            if snapshot is not None:
                memory.note(snapshot, keeper, parent)

        counts = coordinator.counts
        return BackupReport(
            snapshot=snapshot,
            parent_id="" if base is None else base.id,
            files=listing.files,
            directories=listing.directories,
            others=listing.others,
            size_bytes=listing.size_bytes,
            files_read=counts.files_read,
            bytes_read=counts.bytes_read,
            new_chunks=deduplication.new_chunks,
            new_bytes=deduplication.new_bytes,
            stored_bytes=packs.stored_bytes,
            elapsed_seconds=clock.elapsed_seconds() - started,
            stage_seconds=spent.stage_seconds,
            scan=spent.scan,
            queue_blocks=spent.queue_blocks,
            coordinator_seconds=clock.thread_seconds(),
            shard_seconds=clock.children_seconds() - children_seconds,
            problems=tuple(counts.problems),
            missing=tuple(problem.path for problem in options.known_problems),
            warnings=tuple(warnings),
            named=begin.and_later(look_at(named)),
            is_unchanged=is_unchanged,
        )


def _generation(repository: Repository) -> int:
    """That of the put key, the first with a key that may be any client."""
    return 0 if repository.client is None else repository.client.generation


def _choose_parent(
    repository: Repository,
    paths: tuple[bytes, ...],
    options: BackupOptions,
    memory: OwnMemory,
    warnings: list[str],
) -> Snapshot | None:
    is_full = options.level == "full"
    if is_full and not memory.is_newest_gone():
        return None
    # With damaged snapshots a new backup is needed most: its parent is one of the others.
    set_aside = SetAside()
    snapshots = repository.snapshots(set_aside)
    set_aside.report(lambda kind, name, problem: warnings.append(f"{kind}/{name}: {problem}"))
    memory.warn_if_behind(snapshots, set(set_aside.names("snapshots")))
    return None if is_full else choose_parent(snapshots, paths, options)


def _serves_as_this(
    repository: Repository,
    base: Snapshot,
    paths: tuple[bytes, ...],
    coordinator: Coordinator,
) -> bool:
    """Whether `base`, which holds the same, may do so instead of a snapshot of `paths`."""
    problems = sum(not problem.is_harmless for problem in coordinator.counts.problems)
    if set(base.paths) != set(paths) or base.error_count != problems:
        return False
    try:
        # It may have been forgotten meanwhile.
        repository.store.info("snapshots", base.id)
        if isinstance(repository.key, RestoreKey):
            # A put key could have made it with any content: a restore trusts that less.
            whole = repository.snapshot(base.id)
            if not is_made_with_restore_key(repository.key, whole):
                return False
        else:
            # It may be damaged since it was noted in the cache.
            read_snapshot(repository.store, repository.key, base.id)
    except (ObjectMissingError, SnapshotNotFoundError, DamageError):
        return False
    # What was found false counts for nothing.
    return base.id not in found_false(repository.store)


def _own_repository_warnings(repository: Repository, coordinator: Coordinator) -> list[str]:
    left_out = coordinator.left_out.places() or {}
    places = [
        join_path(folder, name)
        for folder, names in left_out.items()
        for name, reason in names.items()
        if reason == OWN_REPOSITORY
    ]
    location = repository.store.location
    if location.startswith("/"):
        place = os.path.realpath(os.fsencode(location)).strip(b"/")
        above, name = split_path(place)
        if left_out.get(above, {}).get(name) == NOT_ENTERED:
            places.append(place)
    why = "it would grow while it is backed up. To keep a second copy use strongroom copy"
    return [
        f"/{printable(place)} is the repository itself, which is left out: {why}"
        for place in places
    ]


def _strange_time_warnings(listing: ListingWriter) -> list[str]:
    count = listing.strange_times
    if not count:
        return []
    entries = "1 entry has" if count == 1 else f"{count:,} entries have"
    others = " and others" if count > 1 else ""
    shown = f"/{printable(listing.strange_path)}{others}"
    years = "a time outside the years 1677 to 2262"
    return [f"{entries} {years}, of which the nearest is stored: {shown}"]


def _left_out(coordinator: Coordinator, rules: bytes, warnings: list[str]) -> LeftOut | None:
    places = coordinator.left_out.places()
    if places is None:
        warnings.append(
            "too much was left out to record all of it, so restore --delete will remove "
            "nothing with this snapshot"
        )
        return None
    return LeftOut(rules, places)


def _totals(
    listing: ListingWriter,
    coordinator: Coordinator,
    deduplication: Deduplication,
    packs: NewPacks,
) -> Totals:
    counts = coordinator.counts
    return Totals(
        files=listing.files,
        directories=listing.directories,
        others=listing.others,
        content_bytes=listing.size_bytes,
        hole_bytes=listing.hole_bytes,
        files_new=counts.files_read - counts.files_changed,
        files_changed=counts.files_changed,
        files_unchanged=max(0, listing.files - counts.files_read),
        read_bytes=counts.bytes_read,
        new_bytes=deduplication.new_bytes,
        stored_bytes=packs.stored_bytes,
    )


class _SnapshotHead(msgspec.Struct, frozen=True):
    """What is known of a snapshot when its backup begins; paths: those recorded."""

    options: BackupOptions
    paths: tuple[bytes, ...]
    base: Snapshot | None
    start_ns: int


def _snapshot(
    repository: Repository,
    head: _SnapshotHead,
    totals: Totals,
    coordinator: Coordinator,
    listing: ListingWriter,
    left_out: LeftOut | None,
) -> Snapshot:
    options, base = head.options, head.base
    tuning = options.tuning
    return Snapshot(
        host=options.host,
        job=options.job,
        fileset=options.fileset,
        level=options.level if base is not None else "full",
        parent="" if base is None else base.id,
        tags=options.tags,
        paths=head.paths,
        start_ns=head.start_ns,
        end_ns=clock.now_ns(),
        totals=totals,
        error_count=sum(not problem.is_harmless for problem in coordinator.counts.problems),
        missing_paths=len(options.known_problems),
        engine_version=strongroom.__version__,
        options={
            "compression": str(tuning.compression),
            "signature": tuning.signature,
            **{name: text for name, text in options.attribute_options().items() if text},
        },
        witness=witness_of(repository.key, repository.writer.client_id, listing.pages),
        pages=tuple(listing.pages),
        left_out=left_out,
    )
