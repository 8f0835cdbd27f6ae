"""Metrics of the agent in a file for node_exporter's textfile collector (Metrics File).

An agent has no HTTP port, so it writes its metrics to a file that the machine's node_exporter
collects. The file is replaced whenever a run has ended and every INTERVAL_SECONDS, so its age
(`node_textfile_mtime_seconds`) shows whether the agent is alive; a reader always sees one complete
version. A file that cannot be written is logged once, and does not disturb runs.

Everything runs in the event loop's thread except reading and writing files.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import stat
from typing import TYPE_CHECKING, Final

import strongroom
from strongroom import clock
from strongroom.clock import SECOND_NS
from strongroom.daemons.agent.last_runs import LastRuns
from strongroom.daemons.exposition import Metric, exposition
from strongroom.errors import StrongroomError
from strongroom.net.identities.identity import Identity
from strongroom.net.identities.private_files import PUBLIC_MODE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from strongroom.daemons.agent.journal import RunJournal
    from strongroom.daemons.agent.last_runs import LastRun
    from strongroom.daemons.agent.settings import AgentSettings

INTERVAL_SECONDS: Final = 30.0
_STATUS: Final = {"done": 0, "incomplete": 1, "failed": 2, "cancelled": 3}
_PREFIX: Final = "strongroom_agent_"

_log = logging.getLogger(__name__)


class MetricsFile:
    """See the module. `is_connected`: whether a director is. active_count: of active runs."""

    def __init__(self, settings: AgentSettings, is_connected: Callable[[str], bool]) -> None:
        self._settings = settings
        self._is_connected = is_connected
        self.active_count: Callable[[], int] = int
        self._last_runs = LastRuns(settings.last_runs_file)
        self._started_ns = clock.now_ns()
        self._connected_ns: dict[str, int] = {}
        self._wake = asyncio.Event()
        self._is_changed = False
        self._is_up = True
        self._fault = ""

    def note(self, journal: RunJournal) -> None:
        """Note that a run has ended."""
        if self._last_runs.note(journal):
            self._is_changed = True
            self._wake.set()

    def use(self, settings: AgentSettings) -> None:
        """Apply new settings; a file that is no longer configured is removed, as it is stale."""
        before, self._settings = self._settings, settings
        if before.metrics_file and before.metrics_file != settings.metrics_file:
            with contextlib.suppress(OSError):
                os.unlink(before.metrics_file)
        self._wake.set()

    async def keep_writing(self) -> None:
        """Write the file until `stop`, and then a last time."""
        while True:
            self._wake.clear()
            is_up = self._is_up
            await self._write(is_up=is_up)
            if not is_up:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(INTERVAL_SECONDS):
                    await self._wake.wait()

    def stop(self) -> None:
        """End `run`, as the agent ends."""
        self._is_up = False
        self._wake.set()

    async def _write(self, *, is_up: bool) -> None:
        keeps, self._is_changed = self._is_changed, False
        path = os.fsencode(self._settings.metrics_file)
        try:
            if keeps:
                await asyncio.to_thread(self._last_runs.keep)
            if path:
                figures = exposition(
                    [*self._own(is_up=is_up), *(await asyncio.to_thread(_on_disk, self._settings))]
                )
                await asyncio.to_thread(_replace, path, figures)
            self._fault = ""
        except OSError as error:
            self._is_changed = self._is_changed or keeps
            fault = f"{error.strerror}: {os.fsdecode(error.filename or path)}"
            if fault != self._fault:
                _log.error("metrics cannot be written: %s; see Metrics File", fault)
            self._fault = fault

    def _own(self, *, is_up: bool) -> Iterable[Metric]:
        version = {"client": self._settings.name, "version": strongroom.__version__}
        yield _gauge("build_info", (version, 1))
        yield _gauge("up", ({}, is_up))
        yield _gauge("start_time_seconds", ({}, self._started_ns / SECOND_NS))
        yield _gauge("active_runs", ({}, self.active_count()))
        connected = {
            name: is_up and self._is_connected(name) for name in sorted(self._settings.directors)
        }
        now_ns = clock.now_ns()
        self._connected_ns.update({name: now_ns for name, is_so in connected.items() if is_so})
        yield _gauge(
            "director_connected",
            *(({"director": name}, is_so) for name, is_so in connected.items()),
        )
        yield _gauge(
            "director_last_connected_timestamp_seconds",
            *(
                ({"director": name}, self._connected_ns[name] / SECOND_NS)
                for name in connected
                if name in self._connected_ns
            ),
        )
        yield from _of_runs(self._last_runs.all())


def _of_runs(runs: list[LastRun]) -> Iterable[Metric]:
    def of(name: str, value: Callable[[LastRun], float | None]) -> Metric:
        samples = (
            ({"director": run.director, "backup_job": run.job, "kind": run.kind}, value(run))
            for run in runs
        )
        return _gauge(name, *((labels, number) for labels, number in samples if number is not None))

    yield of("last_run_timestamp_seconds", lambda run: run.ended_ns / SECOND_NS)
    yield of(
        "last_run_duration_seconds", lambda run: max(0, run.ended_ns - run.begun_ns) / SECOND_NS
    )
    yield of("last_run_status", lambda run: _STATUS.get(run.status))
    yield of(
        "last_success_timestamp_seconds",
        lambda run: run.success_ns / SECOND_NS if run.success_ns else None,
    )
    for figure in ("files", "bytes", "read_bytes", "stored_bytes", "problems", "used_parent"):
        yield of(f"last_run_{figure}", lambda run, figure=figure: run.figures.get(figure))  # type: ignore[misc]


def _on_disk(settings: AgentSettings) -> list[Metric]:
    """Metrics of the certificate and the parent cache. Raises OSError."""
    found = []
    # An identity that cannot be read has no metric; the log reports it.
    with contextlib.suppress(StrongroomError, OSError):
        ends = Identity.load(settings.identity_folder).not_after.timestamp()
        found.append(_gauge("certificate_expiry_timestamp_seconds", ({}, ends)))
    listings, size_bytes = 0, 0
    with contextlib.suppress(FileNotFoundError), os.scandir(settings.parents_folder) as entries:
        for entry in entries:
            # A file that was removed meanwhile does not count.
            with contextlib.suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    listings += 1
                    size_bytes += status.st_size
    found.append(_gauge("parent_cache_listings", ({}, listings)))
    found.append(_gauge("parent_cache_bytes", ({}, size_bytes)))
    return found


def _replace(path: bytes, data: bytes) -> None:
    """Replace a world-readable file by `data`. Raises OSError.

    It is not synced: after a crash of the machine the next version is written at once.
    """
    # Its name does not end with .prom, so a half-written one is never read.
    beside = path + b".new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(beside)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(beside, flags, PUBLIC_MODE), "wb") as file:
        os.fchmod(file.fileno(), PUBLIC_MODE)
        file.write(data)
    os.rename(beside, path)


def _gauge(name: str, *samples: tuple[dict[str, str], float]) -> Metric:
    return Metric(_PREFIX + name, samples)
