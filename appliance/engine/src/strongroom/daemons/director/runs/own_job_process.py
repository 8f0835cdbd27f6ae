"""A process that does one task of the director.

What is heavy is not done in the director itself: it stays small and quick, a task that dies takes
nothing with it, and one that is cancelled is killed. See task_messages.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from strongroom import clock
from strongroom.daemons.director.repositories.access import (
    RepositoryPlace,
    open_place,
    read_passphrase,
)
from strongroom.daemons.director.runs.own_job_messages import (
    BackUpFolder,
    CopySnapshots,
    Place,
    Prune,
    ReadSnapshot,
    RestoreSample,
    Vouch,
    decode_task,
)
from strongroom.daemons.job_process.messages import JobEnded, JobLog, JobProgress, encode_line
from strongroom.errors import EXIT_BUG, EXIT_DONE, EXIT_INCOMPLETE, StrongroomError
from strongroom.printable import printable
from strongroom.repo.repository import Repository

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strongroom.daemons.director.runs.own_job_messages import AnyTask
    from strongroom.net.control.messages import LogLevel
    from strongroom.progress import Progress

_TOLD_EVERY_SECONDS: Final = 1.0
_MOST_LINE_BYTES: Final = 8 << 20


class _Teller:
    """Progress and log lines, to standard output; from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = {"files": 0, "bytes": 0, "stored_bytes": 0, "errors": 0}
        self._totals: dict[str, int | None] = {"total_files": None, "total_bytes": None}
        self._message = ""
        self._told = 0.0

    def total(
        self,
        files: int | None = None,
        bytes: int | None = None,  # noqa: A002
        *,
        is_estimate: bool = False,
    ) -> None:
        """See Progress."""
        if files is not None:
            self._totals["total_files"] = files
        if bytes is not None:
            self._totals["total_bytes"] = bytes

    def add(
        self,
        files: int = 0,
        bytes: int = 0,  # noqa: A002
        stored_bytes: int = 0,
        errors: int = 0,
    ) -> None:
        """See Progress."""
        with self._lock:
            for name, count in (
                ("files", files),
                ("bytes", bytes),
                ("stored_bytes", stored_bytes),
                ("errors", errors),
            ):
                self._counts[name] += count
            now = clock.elapsed_seconds()
            if now - self._told < _TOLD_EVERY_SECONDS:
                return
            self._told = now
            self._tell()

    def message(self, text: str) -> None:
        """See Progress."""
        with self._lock:
            self._message = text
            self._tell()

    def log(self, level: LogLevel, text: str) -> None:
        """A line for the run's log."""
        with self._lock:
            _write(encode_line(JobLog(time_ns=clock.now_ns(), level=level, text=text)))

    @contextmanager
    def show(self) -> Iterator[Progress]:
        """Itself, for jobs that enter their progress."""
        yield self

    def _tell(self) -> None:
        _write(
            encode_line(JobProgress(**self._counts, **self._totals, message=self._message))  # type: ignore[arg-type]
        )


def main() -> int:
    """Do the task on standard input."""
    teller = _Teller()
    try:
        task = decode_task(sys.stdin.buffer.readline(_MOST_LINE_BYTES))
        ended = _do(task, teller)
    except StrongroomError as error:
        ended = JobEnded(
            status="failed",
            exit_code=error.exit_code,
            error_id=error.error_id,
            error=str(error),
        )
    _write(encode_line(ended))
    return EXIT_DONE


def _do(task: AnyTask, teller: _Teller) -> JobEnded:
    repository = _open(task.place, task.cache_folder)
    try:
        if isinstance(task, ReadSnapshot):
            return _read_snapshot(repository, task, teller)
        if isinstance(task, RestoreSample):
            return _restore_sample(repository, task, teller)
        if isinstance(task, CopySnapshots):
            return _copy(repository, task, teller)
        if isinstance(task, Prune):
            return _prune(repository, teller)
        if isinstance(task, Vouch):
            return _vouch(repository, teller)
        return _back_up(repository, task, teller)
    finally:
        repository.close()


def _open(place: Place, cache_folder: str) -> Repository:
    where = RepositoryPlace(place.place, place.passphrase_file)
    store = open_place(where.place, os.fsencode(cache_folder) if cache_folder else None)
    try:
        return Repository.open(store, read_passphrase(where))
    except BaseException:
        store.close()
        raise


def _read_snapshot(repository: Repository, task: ReadSnapshot, teller: _Teller) -> JobEnded:
    from strongroom.jobs.verify.stored import verify_stored

    report = verify_stored(repository, repository.snapshot(task.snapshot), teller)
    for text in report.damage:
        teller.log("error", text)
    summary = {
        "snapshot": task.snapshot,
        "pages": report.pages,
        "chunks": report.chunks,
        "read_bytes": report.read_bytes,
        "problems": report.damaged,
    }
    return _verified(summary, report.damaged, f"{report.damaged} chunks or pages are damaged")


def _restore_sample(repository: Repository, task: RestoreSample, teller: _Teller) -> JobEnded:
    from strongroom.jobs.verify.sample import restore_sample

    report = restore_sample(
        repository,
        repository.snapshot(task.snapshot),
        os.fsencode(task.scratch),
        task.most_files,
        task.most_bytes,
        teller.show,
    )
    for text in report.faults:
        teller.log("error", text)
    summary = {
        "snapshot": task.snapshot,
        "files": report.files,
        "read_bytes": report.bytes,
        "problems": report.fault_count,
    }
    text = f"{report.fault_count} things were not restored as they were backed up"
    return _verified(summary, report.fault_count, text)


def _verified(summary: dict[str, Any], faults: int, text: str) -> JobEnded:
    if not faults:
        return JobEnded(status="done", exit_code=EXIT_DONE, summary=summary)
    return JobEnded(
        status="failed",
        exit_code=EXIT_INCOMPLETE,
        error_id="check-failed",
        error=text,
        summary=summary,
    )


def _copy(repository: Repository, task: CopySnapshots, teller: _Teller) -> JobEnded:
    from strongroom.jobs.copy.copy import CopyOptions, copy_snapshots, to_be_copied

    target = _open(task.target, task.cache_folder)
    try:
        present = {snapshot.id: snapshot for snapshot in repository.snapshots()}
        wanted = [present[name] for name in task.snapshots if name in present]
        missing, there = to_be_copied(repository, target, wanted)
        copies: list[list[str]] = []
        stored_bytes = 0
        options = CopyOptions(host=task.host)
        for copied in copy_snapshots(repository, target, missing, options, teller):
            stored_bytes += copied.stored_bytes
            copies.append([copied.original.id, copied.copy.id])
            teller.log("info", f"{copied.original.short_id} is {copied.copy.short_id} there")
    finally:
        target.close()
    summary = {"copies": copies, "present": len(there), "stored_bytes": stored_bytes}
    return JobEnded(status="done", exit_code=EXIT_DONE, summary=summary)


def _prune(repository: Repository, teller: _Teller) -> JobEnded:
    from strongroom.jobs.check.vouch import is_judged
    from strongroom.jobs.upkeep.prune import PruneOptions, prune

    vouched = JobEnded(status="done", exit_code=EXIT_DONE)
    if is_judged(repository.store):
        # What an agent forged would keep prune from its work for ever.
        vouched = _vouch(repository, teller)
    report = prune(repository, PruneOptions(), teller)
    summary = {
        **vouched.summary,
        "packs": report.packs,
        "removed_packs": report.removed_packs,
        "waiting_packs": report.waiting_packs,
        "freed_bytes": report.freed_bytes,
    }
    teller.log("info", f"{report.removed_packs} packs removed, {report.freed_bytes} bytes freed")
    return JobEnded(status=vouched.status, exit_code=vouched.exit_code, summary=summary)


def _vouch(repository: Repository, teller: _Teller) -> JobEnded:
    from strongroom.jobs.check.vouch import required_judge, vouch

    report = vouch(repository, required_judge(repository.store), teller)
    for title, found in (("false", report.false_objects), ("damaged", report.damaged_objects)):
        for kind, name, why in found:
            teller.log("error", f"{title}: {kind} {name}: {why}")
    teller.log(
        "info",
        f"vouched for {report.packs} packs and {report.index_objects} index objects",
    )
    wrong = len(report.false_objects) + len(report.damaged_objects)
    summary = {
        "vouched_packs": report.packs,
        "vouched_index_objects": report.index_objects,
        "false_objects": len(report.false_objects),
        "damaged_objects": len(report.damaged_objects),
    }
    if wrong:
        return JobEnded(status="incomplete", exit_code=EXIT_INCOMPLETE, summary=summary)
    return JobEnded(status="done", exit_code=EXIT_DONE, summary=summary)


def _back_up(repository: Repository, task: BackUpFolder, teller: _Teller) -> JobEnded:
    from strongroom.jobs.backup.backup import back_up
    from strongroom.jobs.backup.options import BackupOptions
    from strongroom.sources.registry import open_source
    from strongroom.sources.source import SourceRequest

    folders = tuple(os.fsencode(folder) for folder in task.folders)
    source = open_source("files", SourceRequest(folders, b"", {}))
    options = BackupOptions(host=task.host, job=task.job, level="full", tags=task.tags)
    report = back_up(repository, source, options, teller.show)
    for problem in report.problems:
        path = printable(problem.path)
        teller.log("warning", f"/{path}: {problem.text}")
    assert report.snapshot is not None
    return JobEnded(
        status="done" if report.is_complete else "incomplete",
        exit_code=EXIT_DONE if report.is_complete else EXIT_INCOMPLETE,
        snapshot=report.snapshot.id,
        summary={
            "files": report.files,
            "size_bytes": report.size_bytes,
            "stored_bytes": report.stored_bytes,
            "problems": len(report.problems),
        },
    )


def _write(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    try:
        code = main()
    except BrokenPipeError:
        code = EXIT_BUG
    sys.exit(code)
