"""Results of the last run of each job, kept on disk so that metrics survive a restart.

One small file in the Working Directory. It is used for metrics only: if it is lost or damaged, a
new one is started.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any, Final

import msgspec

from strongroom.daemons.agent.jobs.description import kind_of
from strongroom.errors import UsageError
from strongroom.net.identities.private_files import SECRET_MODE, read_bounded, write_file

if TYPE_CHECKING:
    from strongroom.daemons.agent.journal import RunJournal

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
        return msgspec.json.decode(read_bounded(path, _GREATEST_BYTES), type=list[LastRun])
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
