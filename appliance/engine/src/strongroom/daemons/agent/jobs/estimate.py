"""An estimate as a job of the agent: counts, and on request all paths in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strongroom import clock
from strongroom.daemons.agent.jobs.backup import tell_problems
from strongroom.daemons.job_process.messages import JobEnded
from strongroom.errors import EXIT_DONE
from strongroom.filesets.resolve import resolve_fileset
from strongroom.jobs.backup.estimate import estimate
from strongroom.printable import printable

if TYPE_CHECKING:
    from strongroom.daemons.agent.jobs.description import JobDescription
    from strongroom.daemons.job_process.output import JobOutput
    from strongroom.net.control.messages import StartEstimate

# Paths are joined, so that a million of them do not become a million lines of the log.
_LONGEST_TEXT: Final = 32 << 10


def run_estimate(
    description: JobDescription, request: StartEstimate, output: JobOutput
) -> JobEnded:
    """Walk the FileSet. Raises StrongroomError."""
    started = clock.elapsed_seconds()
    fileset = resolve_fileset(request.fileset, allow_commands=description.allow_commands)
    for note in fileset.notes:
        output.log("info", note)
    lines = _Lines(output)
    with output.shown_progress("estimate") as progress:
        counts = estimate(fileset, progress, lines.add if request.listing else None)
    lines.flush()
    tell_problems(tuple(counts.problems), output)
    return JobEnded(
        status="done",
        exit_code=EXIT_DONE,
        summary={
            "type": "summary",
            "files": counts.files,
            "directories": counts.directories,
            "others": counts.others,
            "size_bytes": counts.size_bytes,
            "problems": len(counts.problems),
            "elapsed_seconds": round(clock.elapsed_seconds() - started, 3),
        },
    )


class _Lines:
    def __init__(self, output: JobOutput) -> None:
        self._output = output
        self._lines: list[str] = []
        self._size = 0

    def add(self, directory: bytes, names: list[bytes]) -> None:
        prefix = "/" + (printable(directory) + "/" if directory else "")
        for name in names:
            self._lines.append(prefix + ("" if name == b"." else printable(name)))
            self._size += len(self._lines[-1]) + 1
            if self._size > _LONGEST_TEXT:
                self.flush()

    def flush(self) -> None:
        if self._lines:
            self._output.log("info", "\n".join(self._lines))
            self._lines, self._size = [], 0
