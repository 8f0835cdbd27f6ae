"""Walks the listings of new snapshots (`jobs.check.walk`), in their own processes.

A listing of a hundred million rows, or one that explodes, must not hold up or fill the director.
The processes stay: they remember the pages that were sound, so of an unchanged client's next
snapshot nothing is decoded again, and the keys of repositories. One that dies is replaced.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing import get_context
from typing import TYPE_CHECKING, Final

from strongroom.base.errors import (
    DamageError,
    JobDiedError,
    KeyRightError,
    ObjectMissingError,
    UnknownFormatError,
)
from strongroom.base.process_memory import forbid_inspection
from strongroom.director.repositories.access import Repositories, RepositoryAccess
from strongroom.engine.prune.time_shares import TimeShares
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import Snapshot

if TYPE_CHECKING:
    from strongroom.engine.check.walk import SoundPages

# As many walks at once; each may take a core.
PROCESSES: Final = 2
LONGEST_WALK_SECONDS: Final = 3600.0
_NICE: Final = 5


class Walks:
    """Runs walks; safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: ProcessPoolExecutor | None = None

    def walk(
        self, place: RepositoryAccess, cache_folder: bytes | None, ids: Sequence[str]
    ) -> dict[str, str]:
        """What is wrong with each snapshot, "" if nothing; those that are gone are left out.

        Blocks. Raises what opening and reading the repository does, and JobDiedError.
        """
        try:
            return self._walk(place, cache_folder, ids)
        except BrokenProcessPool:
            # Another walk may have been the reason.
            pass
        try:
            return self._walk(place, cache_folder, ids)
        except BrokenProcessPool as error:
            raise JobDiedError(
                "the process that walks listings died or was killed: see the system's log"
            ) from error

    def close(self) -> None:
        """End all walks."""
        with self._lock:
            pool = self._pool
        if pool is not None:
            self._end(pool)

    def _walk(
        self, place: RepositoryAccess, cache_folder: bytes | None, ids: Sequence[str]
    ) -> dict[str, str]:
        pool = self._running()
        try:
            task = pool.submit(walk_in_process, place, cache_folder, tuple(ids))
            return task.result(LONGEST_WALK_SECONDS)
        except BrokenProcessPool:
            self._end(pool)
            raise
        except (TimeoutError, CancelledError, RuntimeError) as error:
            self._end(pool)
            raise JobDiedError(
                f"walking listings was stopped, or took more than {LONGEST_WALK_SECONDS:.0f} s"
            ) from error

    def _running(self) -> ProcessPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = ProcessPoolExecutor(
                    PROCESSES, get_context("spawn"), initializer=_begin
                )
            return self._pool

    def _end(self, pool: ProcessPoolExecutor) -> None:
        with self._lock:
            if self._pool is pool:
                self._pool = None
        processes = list((pool._processes or {}).values())  # noqa: SLF001 - it has no other way
        for process in processes:
            with suppress(ProcessLookupError, ValueError):
                process.kill()
        pool.shutdown(wait=True, cancel_futures=True)


def walk_in_process(
    place: RepositoryAccess, cache_folder: bytes | None, ids: Sequence[str]
) -> dict[str, str]:
    """What `Walks.walk` does, in its process."""
    known = _repositories.get(place)
    if known is None:
        known = _repositories[place] = Repositories({"": place}, cache_folder)
    repository = known.open("").for_all_clients()
    try:
        return _walk_all(repository, ids)
    finally:
        repository.close()


def _walk_all(repository: Repository, ids: Sequence[str]) -> dict[str, str]:
    from strongroom.engine.check.walk import Walker
    from strongroom.engine.repository.index.index import Index

    found: dict[str, str] = {}
    whole: list[Snapshot] = []
    for name in ids:
        try:
            whole.append(repository.snapshot(name))
        except ObjectMissingError:
            continue
        except (DamageError, UnknownFormatError, KeyRightError) as error:
            found[name] = str(error)
    if not whole:
        return found
    owners = {snapshot.owner for snapshot in whole}
    # After the snapshots were read: what they refer to was indexed before them.
    owner = owners.pop() if len(owners) == 1 else None
    index = Index.load(repository.store, repository.key, owner, marks=False)
    walker = Walker(repository, index, _sound_pages())
    shares = TimeShares()
    for snapshot in whole:
        try:
            with shares.spending(snapshot.owner):
                found[snapshot.id] = walker.walk(snapshot, shares.require)
        except UnknownFormatError as error:
            # It takes too much memory or time.
            found[snapshot.id] = str(error)
    return found


def _begin() -> None:
    # It holds restore keys.
    forbid_inspection()
    # The director ends its processes itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Politeness: a sandbox that forbids it must not end the process.
    with suppress(OSError):
        os.nice(_NICE)


def _sound_pages() -> SoundPages:
    from strongroom.engine.check.walk import SoundPages

    if not _sound:
        _sound.append(SoundPages())
    return _sound[0]


_repositories: dict[RepositoryAccess, Repositories] = {}
_sound: list[SoundPages] = []
