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
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

import strongroom
from strongroom.agent.jobs.description import kind_of
from strongroom.agent.journal import RunJournal
from strongroom.agent.settings import AgentSettings
from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.decoding import decodable
from strongroom.base.errors import StrongroomError, UsageError
from strongroom.net.identities.identity import Identity
from strongroom.net.identities.private_files import (
    PUBLIC_MODE,
    SECRET_MODE,
    read_bounded,
    write_file,
)
from strongroom.service.exposition import Metric, exposition, metric

# Results of the last run of each job, kept on disk so that metrics survive a restart.
#
# One small file in the Working Directory. It is used for metrics only: if it is lost or damaged, a
# new one is started.

# A director that names a new job for every run must not fill the disk, nor a metrics database.
MOST_JOBS: Final = 1000
_GREATEST_BYTES: Final = 4 << 20
_WENT_WELL: Final = ("done", "incomplete")

_log = logging.getLogger(__name__)


class LastRun(msgspec.Struct, frozen=True, kw_only=True):
    """The last run of a job; success_ns: when the last successful one ended, 0 for none.

    figures: the counts of its report, by the names of `_FIGURES`; missing ones are absent.
    """

    director: str
    job: str
    kind: str
    begun_ns: int
    ended_ns: int
    status: str
    success_ns: int
    figures: dict[str, float] = {}


class LastRuns:
    """All of them; for one thread. `path`: the file, b"" keeps nothing."""

    def __init__(self, path: bytes) -> None:
        self._path = path
        self._runs: dict[tuple[str, str, str], LastRun] = {}
        for run in _read(path):
            self._runs[run.director, run.job, run.kind] = run

    def all(self) -> list[LastRun]:
        """By director, job and kind."""
        return [self._runs[key] for key in sorted(self._runs)]

    def note(self, journal: RunJournal) -> bool:
        """Note that a run has ended; returns whether that is new."""
        ended, entry = journal.ended, journal.entry
        if ended is None:
            return False
        key = (entry.director, entry.start.job, kind_of(entry.start))
        before = self._runs.pop(key, None)
        if before is not None and before.ended_ns >= ended.time_ns:
            self._runs[key] = before
            return False
        success_ns = 0 if before is None else before.success_ns
        self._runs[key] = LastRun(
            director=key[0],
            job=key[1],
            kind=key[2],
            begun_ns=journal.begun_ns or ended.time_ns,
            ended_ns=ended.time_ns,
            status=ended.status,
            success_ns=ended.time_ns if ended.status in _WENT_WELL else success_ns,
            figures=_figures(ended.summary),
        )
        while len(self._runs) > MOST_JOBS:
            del self._runs[next(iter(self._runs))]
        return True

    def keep(self) -> None:
        """Write the file. Raises OSError."""
        write_file(self._path, msgspec.json.encode(list(self._runs.values())), SECRET_MODE)


def _read(path: bytes) -> list[LastRun]:
    try:
        return msgspec.json.decode(
            read_bounded(path, _GREATEST_BYTES), type=decodable(list[LastRun])
        )
    except FileNotFoundError:
        return []
    except (OSError, UsageError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        _log.warning("%s: %s; metrics of the last runs start empty", os.fsdecode(path), error)
        return []


# Metric -> the report fields it comes from: of a backup or estimate, of a restore, of a verify.
_FIGURES: Final = {
    "files": ("files", "entries"),
    "bytes": ("size_bytes", "written_bytes", "read_bytes"),
    "read_bytes": ("bytes_read",),
    "stored_bytes": ("stored_bytes",),
}


def _figures(summary: dict[str, Any]) -> dict[str, float]:
    found: dict[str, float] = {}
    for figure, fields in _FIGURES.items():
        for field in fields:
            if isinstance(summary.get(field), int):
                found[figure] = summary[field]
                break
    actions = summary.get("actions")
    if isinstance(actions, dict):
        found["files"] = sum(actions.values())
    problems = summary.get("problems", summary.get("differences"))
    if isinstance(problems, dict):
        problems = sum(problems.values())
    if isinstance(problems, int):
        found["problems"] = problems
    if "parent" in summary:
        found["used_parent"] = float(summary["parent"] is not None)
    return found


INTERVAL_SECONDS: Final = 30.0
_STATUS: Final = {"done": 0, "incomplete": 1, "failed": 2, "cancelled": 3}


class MetricsFile:
    """Writes the metrics. `is_connected`: whether a director is. active_count: of active runs."""

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
        yield metric("agent_build_info", [(version, 1)])
        yield metric("agent_up", is_up)
        yield metric("agent_start_time_seconds", self._started_ns / SECOND_NS)
        yield metric("agent_active_runs", self.active_count())
        connected = {
            name: is_up and self._is_connected(name) for name in sorted(self._settings.directors)
        }
        now_ns = clock.now_ns()
        self._connected_ns.update({name: now_ns for name, is_so in connected.items() if is_so})
        yield metric(
            "agent_director_connected",
            (({"director": name}, is_so) for name, is_so in connected.items()),
        )
        yield metric(
            "agent_director_last_connected_timestamp_seconds",
            (
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
        found = ((labels, number) for labels, number in samples if number is not None)
        return metric(f"agent_{name}", found)

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
        found.append(metric("agent_certificate_expiry_timestamp_seconds", ends))
    listings, size_bytes = 0, 0
    with contextlib.suppress(FileNotFoundError), os.scandir(settings.parents_folder) as entries:
        for entry in entries:
            # A file that was removed meanwhile does not count.
            with contextlib.suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    listings += 1
                    size_bytes += status.st_size
    found.append(metric("agent_parent_cache_listings", listings))
    found.append(metric("agent_parent_cache_bytes", size_bytes))
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
