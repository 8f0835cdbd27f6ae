"""Restore and verify as jobs of the agent: both read one snapshot through a ticket."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from strongroom.agent.jobs.description import JobDescription
from strongroom.agent.jobs.repository import open_store, open_ticket
from strongroom.base.errors import EXIT_DONE, CheckFailedError, DamageError, UsageError
from strongroom.base.printable import printable
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import Snapshot
from strongroom.engine.restore.options import (
    LeftOut,
    Overwrite,
    RestoreOptions,
    RestoreProblem,
    Step,
)
from strongroom.engine.restore.target import WhereRules
from strongroom.engine.scan.patterns import Patterns
from strongroom.engine.stores.limited import Limiter
from strongroom.engine.verify.options import LiveDifference, VerifyOptions
from strongroom.net.control.messages import (
    LogLevel,
    Name,
    RunEnded,
    StartRestore,
    StartVerify,
    decode_name,
    encode_name,
)
from strongroom.service.job_process.program import JobOutput, persist

MOST_LOGGED: Final = 2000
_MOST_WORKERS: Final = 256


@contextmanager
def _opened(
    description: JobDescription, request: StartRestore | StartVerify, limiter: Limiter
) -> Iterator[tuple[Repository, Snapshot, dict[str, Any]]]:
    """The content of a ticket: repository, its one snapshot, and the connection's security."""
    store = open_store(description, request, limiter, request.grant)
    try:
        repository = open_ticket(store, description.identity_folder, request.ticket)
        (known,) = repository.snapshots()
        yield repository, repository.snapshot(known.id), store.security()
    finally:
        store.store.close()


def run_restore(
    description: JobDescription, request: StartRestore, output: JobOutput, limiter: Limiter
) -> RunEnded:
    """Write the files. Raises StrongroomError."""
    options = restore_options(request, description.processes, description.restore_folders)
    own = (description.identity_folder, description.cache_folder)
    options = msgspec.structs.replace(options, in_use=tuple(map(os.fsencode, own)))
    return persist(lambda: _restore(description, request, options, output, limiter), output)


def _restore(
    description: JobDescription,
    request: StartRestore,
    options: RestoreOptions,
    output: JobOutput,
    limiter: Limiter,
) -> RunEnded:
    from strongroom.engine.restore.restore import restore
    from strongroom.engine.restore.scope import spared_lines

    with _opened(description, request, limiter) as (repository, snapshot, security):
        entries = _EntryLog(output)
        if options.dry_run:
            output.log("info", "dry run, nothing is changed. Each entry would be:")
        report = restore(
            repository, snapshot, options, lambda: output.shown_progress("restore"), entries
        )
        entries.finish()
    head = "dry run, nothing was changed: " if options.dry_run else ""
    output.log("info", head + report.actions_text())
    for line in spared_lines(report.not_deleted):
        output.log("info", line)
    is_damaged = report.exit_code == DamageError.exit_code
    return RunEnded(
        status="done" if report.is_complete else "incomplete",
        exit_code=report.exit_code,
        error_id=DamageError.error_id if is_damaged else "",
        error="some stored content is damaged; the log names the files" if is_damaged else "",
        snapshot=snapshot.id,
        summary=_as_json(report.summary(snapshot.id, options, None)),
        security=security,
    )


def run_verify(
    description: JobDescription, request: StartVerify, output: JobOutput, limiter: Limiter
) -> RunEnded:
    """Compare. Raises StrongroomError."""
    options = verify_options(request, description.processes)
    return persist(lambda: _verify(description, request, options, output, limiter), output)


def _verify(
    description: JobDescription,
    request: StartVerify,
    options: VerifyOptions,
    output: JobOutput,
    limiter: Limiter,
) -> RunEnded:
    from strongroom.engine.verify.verify import verify

    with _opened(description, request, limiter) as (repository, snapshot, security):
        entries = _EntryLog(output)
        report = verify(
            repository, snapshot, options, lambda: output.shown_progress("verify"), entries
        )
        entries.finish()
    for note in report.notes():
        output.log("info", note)
    found = sum(report.differences.values())
    return RunEnded(
        status="incomplete" if found else "done",
        exit_code=CheckFailedError.exit_code if found else EXIT_DONE,
        error_id=CheckFailedError.error_id if found else "",
        error=f"{found} differences; the log names them" if found else "",
        snapshot=snapshot.id,
        summary=_as_json(report.summary(snapshot.id, options)),
        security=security,
    )


def restore_options(
    request: StartRestore, processes: int, folders: tuple[str, ...] = ()
) -> RestoreOptions:
    """The options of a request; folders: Allowed Restore Dir. Raises UsageError."""
    given = request.options
    if given.in_place:
        target = b"/"
    else:
        target = _name(request.target, "target")
        if not target.startswith(b"/") or os.path.normpath(target) == b"/":
            raise UsageError(
                f"the target {printable(target)} is not an absolute path of a folder below /; to "
                "restore into / use in_place"
            )
    return RestoreOptions(
        target=os.path.normpath(target),
        subpath=_name(given.subpath, "subpath").strip(b"/"),
        includes=_patterns(given.includes, "includes"),
        excludes=_patterns(given.excludes, "excludes"),
        overwrite=Overwrite(given.overwrite),
        where=WhereRules(request.where, folders) if request.where or folders else None,
        in_place=given.in_place,
        delete=given.delete,
        dry_run=given.dry_run,
        processes=_processes(given.workers, processes),
        tells_steps=given.tells_steps,
        keeps_privileges=given.keeps_privileges,
    )


def verify_options(request: StartVerify, processes: int) -> VerifyOptions:
    """The options of a request. Raises UsageError."""
    given = request.options
    root = _name(given.root, "root")
    if not root.startswith(b"/"):
        raise UsageError(f"the root {printable(root)} is not an absolute path")
    return VerifyOptions(
        root=os.path.normpath(root),
        base=_name(given.base, "base").strip(b"/"),
        subpath=_name(given.subpath, "subpath").strip(b"/"),
        includes=_patterns(given.includes, "includes"),
        excludes=_patterns(given.excludes, "excludes"),
        reads_content=given.reads_content,
        reads_signatures=given.reads_signatures,
        from_disk=given.from_disk,
        finds_extra=given.finds_extra,
        processes=_processes(given.workers, processes),
    )


class _EntryLog:
    """Logs single entries, up to a limit."""

    def __init__(self, output: JobOutput) -> None:
        self._output = output
        self._logged = 0

    def problem(self, problem: RestoreProblem) -> None:
        self._tell("warning", f"/{printable(problem.path)}: {problem.kind}: {problem.reason}")

    def step(self, step: Step) -> None:
        self._tell("info", f"{step.action} /{printable(step.path)}")

    def left_out(self, left_out: LeftOut) -> None:
        self._tell("info", f"/{printable(left_out.path)}: left out: {left_out.kind}")

    def difference(self, difference: LiveDifference) -> None:
        self._tell(
            "warning", f"/{printable(difference.path)}: {difference.kind}: {difference.reason}"
        )

    def finish(self) -> None:
        if self._logged > MOST_LOGGED:
            self._output.log("warning", f"... and {self._logged - MOST_LOGGED} more entries")

    def _tell(self, level: LogLevel, text: str) -> None:
        self._logged += 1
        if self._logged <= MOST_LOGGED:
            self._output.log(level, text)


def _processes(workers: int, processes: int) -> int:
    if not 0 <= workers <= _MOST_WORKERS:
        raise UsageError(f"workers cannot be {workers}")
    return min(workers or processes, processes)


def _name(value: Name, what: str) -> bytes:
    try:
        return decode_name(value)
    except ValueError as error:
        raise UsageError(f"{what}: {error}") from error


def _patterns(values: tuple[Name, ...], what: str) -> Patterns | None:
    if not values:
        return None
    return Patterns([(_name(value, what), False) for value in values])


def _as_json(summary: dict[str, Any]) -> dict[str, Any]:
    """A report's summary with names that JSON can hold."""
    return {
        field: encode_name(value) if isinstance(value, bytes) else value
        for field, value in summary.items()
    }
