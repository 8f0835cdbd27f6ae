"""Paths that a job's FileSet names and that are not there, and backups of far less than usual.

Each is its own incident, so that a second one is reported while a first one lasts. Only a backup
that made a snapshot says which are there. The names come from agents.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from blake3 import blake3

from strongroom.base.printable import printable
from strongroom.config.settings.job import JobSettings
from strongroom.director.catalog.incidents import Condition
from strongroom.director.results.runs import Run
from strongroom.director.snapshots.shortfalls import shortfalls_of

TOPIC: Final = "path:"
# An agent can report any number of them.
_MOST_NAMED: Final = 20
_LONGEST_NAME: Final = 300


def topic_of_paths(job: JobSettings) -> str:
    """What the topics of a job's paths begin with."""
    return f"{TOPIC}{job.name}@{job.client}"


def job_part(topic: str) -> str:
    """The part of a path's topic that `topic_of_paths` gives."""
    return topic.rpartition(":")[0]


def says_of_paths(job: JobSettings, last: Run) -> bool:
    """Whether the last run says which paths are there."""
    return job.kind == "backup" and last.state in ("done", "incomplete")


def count_missing(last: Run) -> int:
    """How many paths the last run did not find."""
    count = last.summary.get("missing_paths")
    return max(0, count) if last.state == "incomplete" and isinstance(count, int) else 0


def missing_paths(job: JobSettings, last: Run) -> Iterator[Condition]:
    """What is missing as of the last run."""
    count = count_missing(last)
    names = _names(last.summary.get("missing_path_names"))[:count]
    for name in names:
        yield _condition(job, last, printable(name, _LONGEST_NAME), name)
    if (more := count - len(names)) > 0:
        others = "more paths" if names else "paths"
        yield _condition(job, last, f"{more:,} {others} that its FileSet names", "")
    for path, text in shortfalls_of(last.summary):
        yield _short(job, last, path, text)


def _condition(job: JobSettings, last: Run, what: str, name: str) -> Condition:
    return Condition(
        event="path-missing",
        topic=f"{topic_of_paths(job)}:{_digest(name)}",
        title=f"the job {job.name} of {job.client} does not find {what}",
        detail="it is not backed up; the rest of the FileSet is",
        remedy=f"restore it, or remove it from the FileSet; strongroom log {last.id[:8]}",
        since_ns=last.ended_ns,
        job=job.name,
        client=job.client,
    )


def _short(job: JobSettings, last: Run, path: str, text: str) -> Condition:
    return Condition(
        event="backup-short",
        topic=f"{topic_of_paths(job)}:{_digest(f'short {path}')}",
        title=f"the backup {job.name} of {job.client} holds far less than usual",
        detail=f"{text}. It displaces no other snapshot",
        remedy=f"mount or fix it; if it is intended: strongroom accept {last.id[:8]}",
        since_ns=last.ended_ns,
        job=job.name,
        client=job.client,
    )


def _digest(name: str) -> str:
    return blake3(name.encode("utf-8", "backslashreplace")).hexdigest(8)


def _names(reported: Any) -> list[str]:
    if not isinstance(reported, list):
        return []
    names = dict.fromkeys(one for one in reported if isinstance(one, str) and one)
    return list(names)[:_MOST_NAMED]
