"""One own job of the director, in its own process.

See job_process for its input and output, and descriptions for its jobs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from strongroom.base.errors import EXIT_DONE, EXIT_INCOMPLETE, RightError, SetAsideError
from strongroom.base.printable import printable
from strongroom.base.quantities import counted, size_text
from strongroom.director.own_jobs.descriptions import (
    BackUpFolder,
    CopySnapshots,
    OwnJobDescription,
    Prune,
    ReadSnapshot,
    RestoreSample,
    ShareJob,
    Sharing,
    VerifyUploads,
)
from strongroom.director.repositories.access import (
    RepositoryAccess,
    open_place,
    read_passphrase,
)
from strongroom.engine.prune.prune_options import PruneReport
from strongroom.engine.repository.object_owners import ObjectOwners
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.set_aside import SetAside, set_aside_text
from strongroom.engine.stores.capabilities import (
    KeepsJudgements,
    found_false,
    stored_by_agents,
)
from strongroom.net.control.messages import RunEnded
from strongroom.service.job_process.program import (
    JobInput,
    JobOutput,
    ended_by,
    give_way,
    persist,
    run_program,
)


def _do(job: OwnJobDescription, job_input: JobInput, output: JobOutput) -> RunEnded:
    # Own jobs have no bandwidth limit, and the director itself enforces their time limit.
    job_input.listen(lambda _: None, 0)
    # Who cannot be reached at all is reported at once.
    opened = [_open(job.place, job.cache_folder)]

    copies: dict[str, str] = {}

    def attempt() -> RunEnded:
        repository = opened.pop() if opened else _open(job.place, job.cache_folder)
        try:
            return _execute(repository, job, output, copies)
        finally:
            repository.close()

    try:
        ended = persist(attempt, output)
    except BaseException as error:
        job_input.ignore()
        if not copies:
            raise
        # What was copied before counts, whatever ended the job.
        failed, summary = ended_by(error, output), {"copies": [*copies.items()]}
        return msgspec.structs.replace(failed, summary=summary)
    job_input.ignore()
    return ended


def _execute(
    repository: Repository, job: OwnJobDescription, output: JobOutput, copies: dict[str, str]
) -> RunEnded:
    """copies: original -> copy, filled by a job that copies."""
    if isinstance(job, ReadSnapshot):
        return _read_snapshot(repository, job, output)
    if isinstance(job, RestoreSample):
        return _restore_sample(repository, job, output)
    if isinstance(job, CopySnapshots):
        return _copy(repository, job, output, copies)
    if isinstance(job, Prune):
        return _prune(repository, job, output)
    if isinstance(job, ShareJob):
        return _share(repository, job.sharing, output)
    if isinstance(job, VerifyUploads):
        return _verify_uploads(repository, output)
    return _back_up(repository, job, output)


def _open(place: RepositoryAccess, cache_folder: str) -> Repository:
    store = open_place(place.place, os.fsencode(cache_folder) if cache_folder else None)
    try:
        repository = Repository.open(store, read_passphrase(place))
        repository.cache_folder = os.fsencode(cache_folder) or None
        return repository
    except BaseException:
        store.close()
        raise


def _read_snapshot(repository: Repository, job: ReadSnapshot, output: JobOutput) -> RunEnded:
    from strongroom.engine.verify.stored import verify_stored

    with output.shown_progress("verify") as progress:
        report = verify_stored(repository, repository.snapshot(job.snapshot), progress)
    for text in report.damage:
        output.log("error", text)
    summary = {
        "snapshot": job.snapshot,
        "pages": report.pages,
        "chunks": report.chunks,
        "read_bytes": report.read_bytes,
        "problems": report.damaged,
    }
    return _verified(summary, report.damaged, f"{report.damaged:,} damaged chunks or pages")


def _restore_sample(repository: Repository, job: RestoreSample, output: JobOutput) -> RunEnded:
    from strongroom.engine.verify.sample import restore_sample

    report = restore_sample(
        repository,
        repository.snapshot(job.snapshot),
        os.fsencode(job.scratch),
        job.most_files,
        job.most_bytes,
        lambda: output.shown_progress("verify"),
    )
    for text in report.faults:
        output.log("error", text)
    summary = {
        "snapshot": job.snapshot,
        "files": report.files,
        "read_bytes": report.bytes,
        "problems": report.fault_count,
    }
    text = f"{counted(report.fault_count, 'entry')} not restored as backed up"
    return _verified(summary, report.fault_count, text)


def _verified(summary: dict[str, Any], faults: int, text: str) -> RunEnded:
    if not faults:
        return _done(summary)
    return RunEnded(
        status="failed",
        exit_code=EXIT_INCOMPLETE,
        error_id="check-failed",
        error=text,
        summary=summary,
    )


def _copy(
    repository: Repository, job: CopySnapshots, output: JobOutput, copies: dict[str, str]
) -> RunEnded:
    from strongroom.engine.copy.copy import CopyOptions, copy_snapshots, to_be_copied

    target = _open(job.target, job.cache_folder)
    try:
        set_aside = SetAside()
        false = _verified_first(repository, output)
        listed = repository.snapshots(SetAside())
        present = {one.id: one for one in listed if one.id not in false}
        wanted = [present[name] for name in job.snapshots if name in present]
        # A compromised agent could store what passes for a copy, and keep the true one away.
        ignored = found_false(target.store) | stored_by_agents(target.store) | {*job.false}
        missing, there = to_be_copied(repository, target, wanted, ignored)
        # Also those of a run that was killed before it could report them.
        copies |= {original.id: copy.id for original, copy in there}
        stored_bytes = 0
        options = CopyOptions(host=job.host, ignored=ignored)
        with output.shown_progress("copy") as progress:
            for copied in copy_snapshots(repository, target, missing, options, progress, set_aside):
                stored_bytes += copied.stored_bytes
                copies[copied.original.id] = copied.copy.id
                output.log("info", f"{copied.original.short_id} is {copied.copy.short_id} there")
    finally:
        target.close()
    set_aside.report(_teller(repository, output))
    summary = {"copies": [*copies.items()], "present": len(there), "stored_bytes": stored_bytes}
    return _done(summary, set_aside)


def _verified_first(repository: Repository, output: JobOutput) -> frozenset[str]:
    """Verify what clients have stored since, so that no other place gets it; what is false."""
    if repository.store.capability(KeepsJudgements) is None:
        return frozenset()
    try:
        _verify_uploads(repository, output)
    except RightError as error:
        output.log("warning", f"what is copied was not verified before: {error}")
    return found_false(repository.store)


def _prune(repository: Repository, job: Prune, output: JobOutput) -> RunEnded:
    from strongroom.engine.prune.prune import prune
    from strongroom.engine.prune.prune_options import LEAST_MEMORY_BYTES, PruneOptions

    sharing = job.sharing
    verified = _done({})
    if repository.store.capability(KeepsJudgements) is not None:
        # Forged data of an agent must not block prune.
        verified = _verify_uploads(repository, output, sharing)
    shared = _share(repository, sharing, output)
    with output.shown_progress("prune") as progress:
        options = PruneOptions(memory_bytes=max(job.memory_bytes, LEAST_MEMORY_BYTES))
        report = prune(repository, options, progress)
    summary = report.summary() | {
        name: shared.summary[name] for name in ("shared_chunks", "shared_bytes")
    }
    if verified.summary:
        summary |= {
            "vouched_packs": verified.summary["packs"],
            "vouched_index_objects": verified.summary["index_objects"],
            "false_objects": verified.summary["false_objects"],
            "damaged_objects": verified.summary["damaged_objects"],
        }
    report.set_aside.report(_teller(repository, output, sharing))
    output.log(
        "info",
        f"{counted(report.removed_packs, 'pack')} removed, {size_text(report.freed_bytes)} freed",
    )
    if report.holdups:
        _tell_of_holdups(repository, report, sharing, output)
    if verified.status != "done":
        return msgspec.structs.replace(verified, summary=summary)
    return _done(summary, report.set_aside)


def _teller(
    repository: Repository, output: JobOutput, sharing: Sharing | None = None
) -> Callable[[str, str, str], None]:
    owners = ObjectOwners(repository, () if sharing is None else sharing.clients)
    return lambda kind, name, problem: output.log(
        "warning", set_aside_text(kind, name, owners.client_of(kind, name), problem)
    )


def _done(summary: dict[str, Any], *some: SetAside) -> RunEnded:
    """A job that set objects aside has done the rest, and says so."""
    if any(some):
        exit_code = SetAsideError.exit_code
        return RunEnded(status="incomplete", exit_code=exit_code, summary=summary)
    return RunEnded(status="done", exit_code=EXIT_DONE, summary=summary)


def _tell_of_holdups(
    repository: Repository, report: PruneReport, sharing: Sharing, output: JobOutput
) -> None:
    """Name the jobs whose leases keep space; a warning where one has lasted for long."""
    from strongroom.engine.prune.prune_options import REMEDY

    names = {
        repository.restore_key.client_id(name, generation): name
        for name, generation in sharing.clients
    }
    held = report.waiting_packs + report.spared_packs
    level: Literal["info", "warning"] = "info"
    if any(one.is_long for one in report.holdups):
        level = "warning"
    output.log(level, f"{held} unused packs stay until other jobs have ended:")
    for one in report.holdups:
        # What it says of its host its holder has written; whose it is its key shows.
        client = names.get(one.owner)
        whose = f"client {client}: " if client else ""
        output.log(level, f"waiting for {whose}{one.text}")
    output.log(level, REMEDY)


def _share(repository: Repository, sharing: Sharing, output: JobOutput) -> RunEnded:
    from strongroom.engine.share.share import ShareOptions, share

    key = repository.restore_key
    clients = frozenset(key.client_id(*client) for client in sharing.clients)
    with output.shown_progress("share") as progress:
        report = share(repository, ShareOptions(sharing.least_clients, clients), progress)
    if report.shared_chunks:
        text = f"{counted(report.shared_chunks, 'chunk')} ({size_text(report.shared_bytes)}) shared"
        output.log("info", text)
    report.set_aside.report(_teller(repository, output, sharing))
    return _done(report.summary(), report.set_aside)


def _verify_uploads(
    repository: Repository, output: JobOutput, sharing: Sharing | None = None
) -> RunEnded:
    from strongroom.engine.check.vouch import required_judge, vouch

    with output.shown_progress("vouch") as progress:
        report = vouch(repository, required_judge(repository.store), progress)
    for title, found in (("false", report.false_objects), ("damaged", report.damaged_objects)):
        for kind, name, why in found:
            output.log("error", f"{title}: {kind} {name}: {why}")
    output.log(
        "info",
        f"verified {counted(report.packs, 'pack')} and "
        f"{counted(report.index_objects, 'index object')}",
    )
    report.set_aside.report(_teller(repository, output, sharing))
    wrong = len(report.false_objects) + len(report.damaged_objects)
    summary = report.summary()
    if wrong:
        return RunEnded(status="incomplete", exit_code=EXIT_INCOMPLETE, summary=summary)
    return _done(summary, report.set_aside)


def _back_up(repository: Repository, job: BackUpFolder, output: JobOutput) -> RunEnded:
    from strongroom.engine.backup.backup import back_up
    from strongroom.engine.backup.options import BackupOptions
    from strongroom.engine.sources.registry import open_source
    from strongroom.sources.source import SourceRequest

    folders = tuple(os.fsencode(folder) for folder in job.folders)
    source = open_source("files", SourceRequest(folders, b"", {}))
    options = BackupOptions(host=job.host, job=job.job, level="full", tags=job.tags)
    report = back_up(repository, source, options, lambda: output.shown_progress("backup"))
    for problem in report.problems:
        path = printable(problem.path)
        output.log("warning", f"/{path}: {problem.text}")
    assert report.snapshot is not None
    return RunEnded(
        status="done" if report.is_complete else "incomplete",
        exit_code=EXIT_DONE if report.is_complete else EXIT_INCOMPLETE,
        snapshot=report.snapshot.id,
        summary=report.summary(options),
    )


def main() -> int:
    """Run the job on standard input; returns the exit code."""
    give_way()
    return run_program(msgspec.json.Decoder(OwnJobDescription), _do)


if __name__ == "__main__":
    sys.exit(main())
