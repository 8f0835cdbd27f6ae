"""Backup: from a source to a committed snapshot.

Order of writes: packs (by the shards, while they work), indexes (at checkpoints and at the end),
then, after everything is durable, the snapshot. An interrupted backup leaves packs that the next
one reuses. It needs no lock, only a lease, which prune respects.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import strongroom
from strongroom import clock, heap
from strongroom.errors import ObjectMissingError, SourceError
from strongroom.filesets.rules import FileSetRules
from strongroom.jobs.backup.coordinator import Coordinator
from strongroom.jobs.backup.parent import choose_parent, open_parent
from strongroom.jobs.backup.parent_cache import ParentCache
from strongroom.jobs.backup.recorded_paths import recorded_paths
from strongroom.jobs.backup.shards.group import ShardGroup
from strongroom.jobs.backup.shards.page_tasks import PageTasks
from strongroom.jobs.writing.deduplication import Deduplication
from strongroom.jobs.writing.dry_pack import DryPack
from strongroom.jobs.writing.listing import ListingWriter
from strongroom.jobs.writing.stored_chunks import StoredChunks
from strongroom.printable import printable
from strongroom.progress import NullProgress
from strongroom.repo.left_out import LeftOut
from strongroom.repo.newest_known import NewestKnown
from strongroom.repo.packs import KIND_LISTING, PACK_SIZE_BYTES
from strongroom.repo.set_aside import SetAside
from strongroom.repo.snapshots import Snapshot, Totals, witness_of
from strongroom.rows.left_out import NOT_ENTERED, OWN_REPOSITORY
from strongroom.rows.views import join_path, split_path
from strongroom.sources.named_paths import NamedPaths, look_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from strongroom.jobs.backup.options import BackupOptions
    from strongroom.jobs.backup.parent_cache import ListingKeeper
    from strongroom.jobs.backup.shards.examined import ExaminedEntry
    from strongroom.jobs.backup.shards.shared_pace import ScanChoice
    from strongroom.jobs.writing.pack_lanes import OpenPack
    from strongroom.progress import Progress
    from strongroom.repo.leases import Lease
    from strongroom.repo.packs import PackFooter
    from strongroom.repo.repository import Repository
    from strongroom.sources.problem import Problem
    from strongroom.sources.source import Source

# An index is written whenever packs hold so many chunks: this bounds the footers in memory, and a
# backup that resumes after an interruption has fewer of them to read.
INDEX_CHUNKS: Final = 100_000
# The summary names so many of the paths that are not there; the others are counted.
MOST_NAMED_PATHS: Final = 20


@dataclass(frozen=True, slots=True)
class BackupReport:
    """Totals of one backup. Sizes in bytes, durations in seconds.

    `files`, `directories`, `others`, `size_bytes`: what the snapshot holds. `files_read`,
    `bytes_read`: what was new or changed and therefore read. `new_chunks`, `new_bytes`: chunks
    the repository did not hold, before compression; `stored_bytes`: the packs added for them and
    for the listing. `stage_seconds`: what the threads spent on each stage of writing.stages, added
    up. `scan`: the scan threads of a shard. `queue_blocks`: how many blocks could wait to be stored
    in one, 0 where shards did it themselves. `coordinator_seconds`: processor time of this thread
    since it began, which nothing can share; `shard_seconds`: of all shards. `snapshot` is None
    after a dry run. `missing`: paths that were named and are not there, which are among the
    `problems`. `warnings`: what made the job slower than it should be. `named`: how the paths were
    that were named.
    """

    snapshot: Snapshot | None
    parent_id: str
    files: int
    directories: int
    others: int
    size_bytes: int
    files_read: int
    bytes_read: int
    new_chunks: int
    new_bytes: int
    stored_bytes: int
    elapsed_seconds: float
    stage_seconds: dict[str, float]
    scan: ScanChoice
    queue_blocks: int
    coordinator_seconds: float
    shard_seconds: float
    problems: tuple[Problem, ...]
    missing: tuple[bytes, ...] = ()
    warnings: tuple[str, ...] = ()
    named: NamedPaths = field(default_factory=NamedPaths)

    @property
    def is_complete(self) -> bool:
        """Whether everything could be read and nothing changed while it was read."""
        return all(problem.is_harmless for problem in self.problems)

    def summary(self, options: BackupOptions) -> dict[str, Any]:
        """The fields of the JSON report (docs/reference/json-output.md)."""
        return {
            "type": "summary",
            "snapshot": None if self.snapshot is None else self.snapshot.id,
            "parent": self.parent_id or None,
            "level": options.level if self.parent_id else "full",
            "dry_run": options.dry_run,
            "files": self.files,
            "directories": self.directories,
            "others": self.others,
            "size_bytes": self.size_bytes,
            "files_read": self.files_read,
            "bytes_read": self.bytes_read,
            "new_chunks": self.new_chunks,
            "new_bytes": self.new_bytes,
            "stored_bytes": self.stored_bytes,
            "elapsed_seconds": round(self.elapsed_seconds, 3),
            "missing_paths": len(self.missing),
            "missing_path_names": [
                f"/{printable(path)}" for path in self.missing[:MOST_NAMED_PATHS]
            ],
            **self.named.summary(),
            "stage_seconds": {name: round(one, 3) for name, one in self.stage_seconds.items()},
            "scan_threads": self.scan.threads,
            "scan_bound": self.scan.bound,
            "queue_blocks": self.queue_blocks,
            "coordinator_seconds": round(self.coordinator_seconds, 3),
            "shard_seconds": round(self.shard_seconds, 3),
            "problems": sum(not problem.is_harmless for problem in self.problems),
            "vanished": sum(problem.is_harmless for problem in self.problems),
        }


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
    with repository.lease(options.host, os.getpid(), "backup") as lease:
        if not options.dry_run:
            # Left-overs of killed jobs may be what fills the disk.
            repository.store.remove_abandoned()
        return _Backup(repository, source, options, lease, started).run(show, tell)


def _generation(repository: Repository) -> int:
    """That of the put key, the first with a key that may be any client."""
    return 0 if repository.client is None else repository.client.generation


class _Backup:
    """One run; see `back_up`."""

    def __init__(
        self,
        repository: Repository,
        source: Source,
        options: BackupOptions,
        lease: Lease,
        started: float,
    ) -> None:
        self._repository = repository
        self._source = source
        self._options = options
        self._lease = lease
        self._started = started
        self._children_seconds = clock.children_seconds()
        self._start_ns = clock.now_ns()
        self._footers: list[PackFooter] = []
        self._stored_bytes = 0
        self._warnings: list[str] = []
        self._newest = self._open_newest()
        self._stored = StoredChunks(repository)
        for footer in self._stored.orphans:
            self._keep_footer(footer)
        self._deduplication = Deduplication(self._stored.load_table, repository.writer.client)

    def run(
        self,
        show: Callable[[], AbstractContextManager[Progress]],
        tell: Callable[[ExaminedEntry], None] | None,
    ) -> BackupReport:
        """Scan, store, commit."""
        options = self._options
        paths = self._source.paths()
        selection = self._options.selection
        roots = selection.roots if isinstance(selection, FileSetRules) else ()
        named = [root.path for root in roots] or list(paths)
        begin = look_at(named)
        recorded = recorded_paths(paths)
        base = self._choose_parent(recorded)
        cache = self._open_cache(recorded)
        parent = None
        if base is not None:
            parent = open_parent(
                self._repository, self._stored.blocks, base, options, cache, self._warnings.append
            )
        limit_ns = 0 if parent is None else parent.recent_limit_ns
        with (
            self._keeper(cache) as keeper,
            ShardGroup(
                self._repository,
                self._source,
                paths,
                options,
                limit_ns,
                self._new_pack,
                counts_ahead=options.counts_ahead and base is None and bool(paths),
            ) as shards,
            show() as progress,
        ):
            self._lease.start_renewing()
            # After the fork: tables of chunks grow and are merged here, while shards allocate packs
            # again and again.
            heap.free_large_at_once()
            if base is not None:
                totals = base.totals
                progress.total(totals.files, totals.data_bytes, is_estimate=True)
            pages = PageTasks(shards.channels, keeps_raw=keeper is not None)
            listing = ListingWriter(
                self._repository.writer,
                self._stored.blocks,
                lambda: self._new_pack(self._repository, KIND_LISTING),
                self._take_footer,
                options.pack_size_bytes or PACK_SIZE_BYTES,
                NullProgress(),
                None if keeper is None else keeper.add,
                None if parent is None else parent.reference_of,
                pages.offer,
                None if parent is None else partial(parent.keep_again, keeper),
                None if parent is None else parent.page_of,
            )
            coordinator = Coordinator(
                shards.channels,
                paths,
                self._deduplication.claim,
                self._take_footer,
                parent,
                listing,
                pages,
                progress,
                shards.tally,
                shards.pace,
                options.known_problems + options.doubts,
                options.share_below,
                shards.count,
                tell,
            )

            def finish() -> Snapshot:
                listing.finish()
                if not listing.pages:
                    shown = ", ".join(f"/{printable(path)}" for path in paths[:3])
                    raise SourceError(f"there is nothing to back up in {shown or 'no path'}")
                self._write_index()
                self._warn_of_own_repository(coordinator)
                if count := listing.strange_times:
                    entries = "1 entry has" if count == 1 else f"{count:,} entries have"
                    others = " and others" if count > 1 else ""
                    self._warnings.append(
                        f"{entries} a time outside the years 1677 to 2262, of which the nearest "
                        f"is stored: /{printable(listing.strange_path)}{others}"
                    )
                # The rules say nothing of names beside those that were listed.
                rules = shards.recorded_rules if recorded == paths else b""
                left_out = self._left_out(coordinator, rules)
                if recorded != paths:
                    self._warnings.append(
                        f"{len(paths):,} paths are too many for the snapshot, which records the "
                        f"{len(recorded):,} folders above them, so restore --delete will remove "
                        "nothing with this snapshot"
                    )
                return self._snapshot(recorded, base, coordinator, listing, left_out)

            snapshot = None
            try:
                coordinator.run()
                stage_seconds = shards.tally.stage_seconds()
                scan = shards.pace.choice()
                queue_blocks = shards.tally.longest_queue()
                # Before the index is written, which takes as much memory again.
                self._deduplication.release()
                progress.message("committing")
                if options.dry_run:
                    finish()
                else:
                    snapshot = self._repository.conclude(finish, self._lease)
            except BaseException:
                listing.abort()
                raise
            if snapshot is not None and keeper is not None and cache is not None:
                cache.keep(keeper, snapshot, had_parent=parent is not None)
        if snapshot is not None:
            self._remember(snapshot)
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
            new_chunks=self._deduplication.new_chunks,
            new_bytes=self._deduplication.new_bytes,
            stored_bytes=self._stored_bytes,
            elapsed_seconds=clock.elapsed_seconds() - self._started,
            stage_seconds=stage_seconds,
            scan=scan,
            queue_blocks=queue_blocks,
            coordinator_seconds=clock.thread_seconds(),
            shard_seconds=clock.children_seconds() - self._children_seconds,
            problems=tuple(counts.problems),
            missing=tuple(problem.path for problem in options.known_problems),
            warnings=tuple(self._warnings),
            named=begin.and_later(look_at(named)),
        )

    def _warn_of_own_repository(self, coordinator: Coordinator) -> None:
        left_out = coordinator.left_out.places() or {}
        places = [
            join_path(folder, name)
            for folder, names in left_out.items()
            for name, reason in names.items()
            if reason == OWN_REPOSITORY
        ]
        location = self._repository.store.location
        if location.startswith("/"):
            place = os.path.realpath(os.fsencode(location)).strip(b"/")
            above, name = split_path(place)
            if left_out.get(above, {}).get(name) == NOT_ENTERED:
                places.append(place)
        self._warnings += [
            f"/{printable(place)} is the repository itself, which is left out: it would grow "
            "while it is backed up. To keep a second copy use strongroom copy"
            for place in places
        ]

    def _choose_parent(self, paths: tuple[bytes, ...]) -> Snapshot | None:
        is_full = self._options.level == "full"
        if is_full and not self._is_newest_gone():
            return None
        # With damaged snapshots a new backup is needed most: its parent is one of the others.
        set_aside = SetAside()
        snapshots = self._repository.snapshots(set_aside)
        set_aside.report(
            lambda kind, name, problem: self._warnings.append(f"{kind}/{name}: {problem}")
        )
        if self._newest is not None:
            mine = self._repository.writer.client_id
            # Of one that cannot be read it was said already.
            unread = set_aside.names("snapshots")
            behind = [
                one
                for one in self._newest.behind(snapshots)
                if one.owner == mine and one.snapshot_id not in unread
            ]
            self._warnings += [one.text() for one in behind]
        return None if is_full else choose_parent(snapshots, paths, self._options)

    def _open_newest(self) -> NewestKnown | None:
        if self._options.cache_folder is None:
            return None
        try:
            return NewestKnown(self._options.cache_folder, self._repository.config.id)
        except OSError as error:
            self._warn_of_memory(error)
            return None

    def _is_newest_gone(self) -> bool:
        """Whether the store does not have the newest snapshot known; spares listing all."""
        mine = self._repository.writer.client_id
        known = "" if self._newest is None else self._newest.known(mine)
        if not known:
            return False
        try:
            self._repository.store.info("snapshots", known)
        except ObjectMissingError:
            return True
        return False

    def _remember(self, snapshot: Snapshot) -> None:
        if self._newest is not None:
            try:
                self._newest.note([snapshot])
            except OSError as error:
                self._warn_of_memory(error)

    def _warn_of_memory(self, error: OSError) -> None:
        self._warnings.append(
            f"the newest snapshot is not remembered, so a store that is set back is not noticed: "
            f"{error}"
        )

    def _open_cache(self, paths: tuple[bytes, ...]) -> ParentCache | None:
        options = self._options
        if options.cache_folder is None or self._repository.key.can_read:
            return None
        try:
            return ParentCache.open(
                options.cache_folder, self._repository, options.host, options.job, paths
            )
        except OSError as error:
            self._warn_of_cache(error)
            return None

    @contextlib.contextmanager
    def _keeper(self, cache: ParentCache | None) -> Iterator[ListingKeeper | None]:
        """Keeps the new listing for the next backup where the key cannot read it back."""
        keeper = None
        if cache is not None and not self._options.dry_run:
            try:
                keeper = cache.keeper(self._warnings.append)
            except OSError as error:
                self._warn_of_cache(error)
        try:
            yield keeper
        finally:
            if keeper is not None:
                keeper.abort()

    def _warn_of_cache(self, error: OSError) -> None:
        self._warnings.append(f"there is no cache, so every backup reads everything: {error}")

    def _new_pack(self, repository: Repository, kind: int) -> OpenPack:
        if self._options.dry_run:
            return DryPack(kind)
        return repository.new_pack(kind)

    def _take_footer(self, footer: PackFooter) -> None:
        self._stored_bytes += footer.size_bytes
        self._keep_footer(footer)

    def _keep_footer(self, footer: PackFooter) -> None:
        if self._options.dry_run:
            return
        self._footers.append(footer)
        if sum(kept.columns.chunk_count for kept in self._footers) >= INDEX_CHUNKS:
            self._write_index()

    def _write_index(self) -> None:
        if self._footers:
            self._repository.write_index(self._footers)
        self._footers = []

    def _snapshot(
        self,
        paths: tuple[bytes, ...],
        base: Snapshot | None,
        coordinator: Coordinator,
        listing: ListingWriter,
        left_out: LeftOut | None,
    ) -> Snapshot:
        options = self._options
        counts = coordinator.counts
        totals = Totals(
            files=listing.files,
            directories=listing.directories,
            others=listing.others,
            content_bytes=listing.size_bytes,
            hole_bytes=listing.hole_bytes,
            files_new=counts.files_read - counts.files_changed,
            files_changed=counts.files_changed,
            files_unchanged=max(0, listing.files - counts.files_read),
            read_bytes=counts.bytes_read,
            new_bytes=self._deduplication.new_bytes,
            stored_bytes=self._stored_bytes,
        )
        tuning = options.tuning
        return Snapshot(
            host=options.host,
            job=options.job,
            fileset=options.fileset,
            level=options.level if base is not None else "full",
            parent="" if base is None else base.id,
            tags=options.tags,
            paths=paths,
            start_ns=self._start_ns,
            end_ns=clock.now_ns(),
            totals=totals,
            error_count=sum(not problem.is_harmless for problem in counts.problems),
            missing_paths=len(options.known_problems),
            engine_version=strongroom.__version__,
            options={
                "compression": str(tuning.compression),
                "signature": tuning.signature,
                **{name: text for name, text in options.attribute_options().items() if text},
            },
            witness=witness_of(
                self._repository.key, self._repository.writer.client_id, listing.pages
            ),
            pages=tuple(listing.pages),
            left_out=left_out,
        )

    def _left_out(self, coordinator: Coordinator, rules: bytes) -> LeftOut | None:
        places = coordinator.left_out.places()
        if places is None:
            self._warnings.append(
                "too much was left out to record all of it, so restore --delete will remove "
                "nothing with this snapshot"
            )
            return None
        return LeftOut(rules, places)
