"""Restore a snapshot, or a part of it, into a directory.

Promises
- Nothing is written outside the target, whatever the snapshot claims and anyone who plants links in
  the target meanwhile (`target_directories`); and the target is where it may be (`target`).
- A restored file holds exactly what the snapshot holds, verified chunk by chunk before it is
  written. A file whose content is damaged or missing is reported, and does not remain: a new one
  is removed; one that was to be replaced is unchanged; one that was being changed in place gets
  the suffix `existing_entries.INCOMPLETE`. Everything else is restored.
- Unless the options keep them, nothing restored has a privilege (`scan.privileges`); what is left
  out is reported. A target that was there before keeps its mode, its owner and all its attributes.
- A restore that was killed can be run again and resumes: until a file is complete its mtime is the
  current time, so `if-changed` restores it; names like `.strongroom-0123456789abcdef` are
  left-overs.
- Memory does not grow with the number of files (but see `stream` for small parts that do).

Processes: this one streams the listing, creates directories and links, and reports; children
(`child`) are forked from it and write files.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import stat
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from types import FrameType
from typing import NoReturn, Protocol

from strongroom.base.clock import elapsed_seconds
from strongroom.base.errors import NothingMatchedError, PathNotFoundError
from strongroom.base.printable import printable
from strongroom.base.progress import NullProgress, Progress
from strongroom.engine.processes.channel import ChannelClosedError, ChildChannel
from strongroom.engine.processes.pool import ProcessPool
from strongroom.engine.repository.index.block_rows import PlacesByClient
from strongroom.engine.repository.listing.reader import Listing
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import Snapshot
from strongroom.engine.restore.child import Preview, RowRestorer, serve
from strongroom.engine.restore.choice import Choice
from strongroom.engine.restore.messages import (
    RestorePool,
    RestoreTask,
    Tally,
    decode_reply,
    decode_task,
)
from strongroom.engine.restore.options import (
    Action,
    EntryKind,
    LeftOut,
    RestoreOptions,
    RestoreProblem,
    RestoreReport,
    Step,
)
from strongroom.engine.restore.scope import Scope, Spared, program_folders, store_folders
from strongroom.engine.restore.stored_content import StoredContent
from strongroom.engine.restore.stream import RestoreStream
from strongroom.engine.restore.target import open_target
from strongroom.engine.rows.views import split_path
from strongroom.engine.scan.privileges import Privilege

CHILD_CACHE_BYTES = 8 << 20
_LISTING_CACHE_BYTES = 8 << 20
_LISTING_PAGES = 4
_NEEDED_FILES = 4096


class RestoreObserver(Protocol):
    """Receives events of single entries, in the process that restores."""

    def problem(self, problem: RestoreProblem) -> None:
        """Something could not be restored or set."""

    def step(self, step: Step) -> None:
        """An entry is done; only if the options ask for steps."""

    def left_out(self, left_out: LeftOut) -> None:
        """A privilege was not restored."""


def restore(
    repository: Repository,
    snapshot: Snapshot,
    options: RestoreOptions,
    show: Callable[[], AbstractContextManager[Progress]],
    observer: RestoreObserver,
) -> RestoreReport:
    """Restore `snapshot` (read with its pages) by `options`.

    `show` gives the progress; it is entered after the children were forked, so it may start
    threads. `observer` gets events of single entries meanwhile.

    Raises PathNotFoundError when it has no such sub-path, NothingMatchedError when the includes
    match nothing in it, OperatingSystemError when the target cannot be created or is full,
    NotPermittedError when `where` denies it, DamageError when the listing is not sound, StoreError.
    """
    return _Restore(repository, snapshot, options, show, observer).run()


class _Restore:
    def __init__(
        self,
        repository: Repository,
        snapshot: Snapshot,
        options: RestoreOptions,
        show: Callable[[], AbstractContextManager[Progress]],
        observer: RestoreObserver,
    ) -> None:
        self._repository = repository
        self._snapshot = snapshot
        self._options = options
        self._show = show
        self._progress: Progress = NullProgress()
        self._observer = observer
        self._actions: Counter[Action] = Counter()
        self._problems: Counter[EntryKind] = Counter()
        self._left_out: Counter[Privilege] = Counter()
        self._spared: Counter[Spared] = Counter()
        self._scope: Scope | None = None
        self._written_bytes = 0
        self._tally: Tally | None = None
        self._running: RestoreStream | None = None
        self._umask = 0

    def run(self) -> RestoreReport:
        started = elapsed_seconds()
        index = self._repository.kept_index()
        # Opened before children are forked, which share it.
        index.of_client(self._snapshot.owner)
        _allow_open_files()
        options = self._options
        root_fd, target_is_new = open_target(options.target, options.where, dry_run=options.dry_run)
        self._umask = os.umask(0)
        here = os.open(b".", os.O_PATH | os.O_CLOEXEC)
        try:
            self._restore(index, root_fd, target_is_new)
            self._require_match()
        except (PathNotFoundError, NothingMatchedError):
            if target_is_new and not options.dry_run:
                with suppress(OSError):
                    os.rmdir(options.target)
            raise
        finally:
            if root_fd >= 0:
                os.close(root_fd)
            os.fchdir(here)
            os.close(here)
            os.umask(self._umask)
        return RestoreReport(
            dict(self._actions),
            dict(self._problems),
            dict(self._left_out),
            dict(self._spared),
            self._written_bytes,
            elapsed_seconds() - started,
        )

    def _require_match(self) -> None:
        """Raise NothingMatchedError where --include found nothing: it may be misspelt."""
        options = self._options
        if self._actions or self._problems or self._left_out or self._spared:
            return
        if Choice(options.includes, None).includes(options.subpath):
            return
        below = f" below /{printable(options.subpath)}" if options.subpath else ""
        raise NothingMatchedError(
            f"nothing in snapshot {self._snapshot.short_id}{below} is included (and not excluded), "
            "so nothing was restored; see its names with strongroom find"
        )

    def _restore(self, index: PlacesByClient, root_fd: int, target_is_new: bool) -> None:
        pool = None
        if self._options.delete:
            self._scope = self._new_scope(index)
        if not self._options.dry_run:
            pool = self._pool(index, root_fd)
        try:
            with self._show() as progress:
                self._progress = progress
                self._stream(index, root_fd, pool, target_is_new)
                if pool is not None:
                    pool.close()
        except BaseException:
            if pool is not None:
                pool.close(kill=True)
            if self._running is not None:
                self._running.abort()
            raise

    def _stream(
        self, index: PlacesByClient, root_fd: int, pool: RestorePool | None, target_is_new: bool
    ) -> None:
        options = self._options
        reader = self._repository.reader_of(self._snapshot, index, _LISTING_CACHE_BYTES)
        make = Preview if options.dry_run else RowRestorer
        restorer = make(root_fd, StoredContent(reader), options, self._scope)
        self._tally = restorer.tally
        listing = Listing.of(self._snapshot, reader, _LISTING_PAGES, takes_any_xattrs=True)
        self._tell_totals(listing)
        stream = self._running = RestoreStream(
            listing,
            self._snapshot,
            options,
            restorer,
            pool,
            root_fd,
            self._report,
            self._scope,
        )
        stream.run(target_is_new=target_is_new)
        if target_is_new and not stream.has_target_row and not options.dry_run:
            os.chmod(b"/proc/self/fd/%d" % root_fd, 0o777 & ~self._umask)

    def _tell_totals(self, listing: Listing) -> None:
        path, totals = self._options.subpath, self._snapshot.totals
        files, size_bytes = totals.files + totals.directories + totals.others, totals.data_bytes
        if path and (row := listing.lookup(path)) is not None:
            files, size_bytes = listing.totals_below(path)
            files += 1
            if not stat.S_ISDIR(row.mode):
                size_bytes = row.size
            size_bytes = min(size_bytes, totals.data_bytes)
        # No one has counted what the patterns choose, nor where the holes of the files are.
        takes_all = Choice(self._options.includes, self._options.excludes).takes_all
        is_estimate = not takes_all or bool(path and totals.hole_bytes)
        self._progress.total(files=files, bytes=size_bytes, is_estimate=is_estimate)

    def _new_scope(self, index: PlacesByClient) -> Scope:
        options = self._options
        reader = self._repository.reader_of(self._snapshot, index, _LISTING_CACHE_BYTES)
        listing = Listing.of(self._snapshot, reader, 1, takes_any_xattrs=True)
        base = b"" if options.in_place else options.subpath
        row = listing.lookup(options.subpath)
        if row is not None and base and not stat.S_ISDIR(row.mode):
            base = split_path(base)[0]
        return Scope(
            self._snapshot,
            listing,
            Choice(options.includes, options.excludes),
            base,
            options.subpath,
            (*options.in_use, *program_folders(), *store_folders(self._repository.store)),
        )

    def _pool(self, index: PlacesByClient, root_fd: int) -> RestorePool:
        def work(channel: ChildChannel[RestoreTask]) -> None:
            signal.signal(signal.SIGTERM, _stop)
            repository = self._repository.reopen()
            reader = repository.reader_of(self._snapshot, index, CHILD_CACHE_BYTES)
            source = StoredContent(reader)
            try:
                serve(channel, RowRestorer(root_fd, source, self._options, self._scope), source)
            finally:
                # An orderly close, so that a storage daemon does not see a broken connection. It
                # would wait for a thread that connects, and must not meet one that reads.
                if reader.close():
                    repository.close()

        gc.freeze()  # so that children continue sharing what is loaded
        return ProcessPool(self._options.process_count(), work, decode_task, decode_reply)

    def _report(self, row_count: int, content_bytes: int) -> None:
        tally = self._tally
        assert tally is not None
        for problem in tally.problems:
            self._problems[problem.kind] += 1
            self._observer.problem(problem)
        for left_out in tally.left_out:
            self._left_out[left_out.kind] += 1
            self._observer.left_out(left_out)
        for step in tally.steps:
            self._observer.step(step)
        self._actions.update(tally.actions)
        self._spared.update(tally.spared)
        self._written_bytes += tally.written_bytes
        self._progress.add(files=row_count, bytes=content_bytes, errors=len(tally.problems))
        tally.clear()


def _allow_open_files() -> None:
    """Raise the limit of descriptors: removing a deep tree holds one for each level."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < _NEEDED_FILES and soft != resource.RLIM_INFINITY:
        limit = _NEEDED_FILES if hard == resource.RLIM_INFINITY else min(hard, _NEEDED_FILES)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    """End a child by raising an error, so that it removes the file it is writing."""
    raise ChannelClosedError
