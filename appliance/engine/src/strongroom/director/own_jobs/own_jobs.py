"""Jobs that the director runs itself: verify jobs without a client, copies, jobs of Type Admin.

Verify jobs read a complete snapshot (level VolumeToCatalog) or restore a sample of it (level Data).
Copy jobs copy what `copies` chooses. Admin jobs run the Console commands of their scripts in order;
see `config.settings.admin_commands`.

Expensive work runs in its own process (`job`): the director stays small and responsive, and a
crash of a job process does not affect it. When a run is cancelled, or the director stops, the
process gets Stop; if it does not end in time it is killed with all processes it started.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from dataclasses import replace
from typing import Any, Final

import msgspec

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import JobDiedError, StrongroomError, UsageError
from strongroom.base.quantities import counted
from strongroom.config.settings.admin_commands import AdminCommand, AdminVerb, parse_admin_command
from strongroom.config.settings.levels import VERIFY_SAMPLE
from strongroom.director.catalog.clients import load_clients
from strongroom.director.catalog.snapshots import add_snapshots, false_snapshots
from strongroom.director.catalog.upkeep import remove_old_runs, remove_old_snapshots
from strongroom.director.context import DirectorContext, survive
from strongroom.director.own_jobs.catalog_copies import (
    CATALOG_JOB,
    catalog_snapshot,
    write_catalog,
)
from strongroom.director.own_jobs.copies import EnteredCopies, enter_copies, planned_copies
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
from strongroom.director.repositories.access import require_sound
from strongroom.director.runs.active_run import ActiveRun, Ending, RunControl
from strongroom.director.runs.run_ends import counts_of
from strongroom.director.runs.tickets import verified_snapshot
from strongroom.director.snapshots.reconciliation import reconcile
from strongroom.engine.repository.snapshots import CATALOG_TAG, POOL_TAG, RUN_TAG
from strongroom.net.control.messages import RunEnded, RunLog, RunProgress
from strongroom.service.job_process.process import JobProcess, JobProgram

PROGRAM: Final = JobProgram("strongroom.director.own_jobs.job")
_DAY_NS: Final = 86400 * SECOND_NS


class OwnJobs:
    """Executes runs that need no agent, each in a call; cancelling the call ends the job."""

    def __init__(self, context: DirectorContext, configuration_path: str) -> None:
        """configuration_path: backed up along with the catalog, "" for nothing."""
        self._context = context
        self._configuration_path = configuration_path and os.path.abspath(configuration_path)

    async def carry_out(self, active: ActiveRun, runs: RunControl) -> Ending:
        """Execute the run. Raises StrongroomError."""
        record = active.record
        if record.kind == "verify":
            return await self._verify(active, runs)
        if record.kind == "copy":
            return await self._copy(active, runs)
        return await self._administer(active, runs)

    # Verify.

    async def _verify(self, active: ActiveRun, runs: RunControl) -> Ending:
        context, record = self._context, active.record
        snapshot = await survive(context.in_thread, verified_snapshot, context, record)
        require_sound(snapshot)
        text = f"verifies snapshot {snapshot.id[:8]} of {snapshot.client}"
        await runs.say(active, "info", text)
        repository = self._repository(snapshot.storage)
        description: OwnJobDescription
        if record.level == VERIFY_SAMPLE:
            job = context.configuration.job(record.job)
            description = RestoreSample(
                **repository,
                snapshot=snapshot.id,
                scratch=os.path.join(context.working_directory, "restore-tests", record.id),
                most_files=job.restore_test_files,
                most_bytes=job.restore_test_bytes,
            )
        else:
            description = ReadSnapshot(**repository, snapshot=snapshot.id)
        ended = await run_own_job(description, active, runs)
        return _outcome(ended, {"snapshot": snapshot.id})

    # Copy.

    async def _copy(self, active: ActiveRun, runs: RunControl) -> Ending:
        context, record = self._context, active.record
        (storage, pool), chosen = await survive(context.in_thread, planned_copies, context, record)
        if not chosen:
            return Ending("done", lines=(("info", "there is nothing to copy"),))
        false = await survive(context.ask, false_snapshots)
        description = CopySnapshots(
            **self._repository(record.storage),
            target=context.repositories.place(storage),
            snapshots=tuple(one.id for one in chosen),
            false=tuple(one.id for one in false if one.storage == storage),
        )
        await runs.say(active, "info", f"copies {counted(len(chosen), 'snapshot')} to {storage}")
        ended = await run_own_job(description, active, runs)
        try:
            entered = await context.with_repository(
                enter_copies, context, record, chosen, ended.summary, storage, pool
            )
        except StrongroomError:
            if ended.status != "failed":
                raise
            # What ended the run says why; the next one finds what it copied.
            entered = EnteredCopies(0, {})
        # Their location: retention applies there afterwards.
        ended.summary.update(storage=storage, pool=pool)
        outcome = _outcome(ended, {"files": entered.number})
        if entered.faults and outcome.state == "done":
            outcome = replace(outcome, state="incomplete")
        return replace(outcome, lines=(*outcome.lines, *entered.lines()))

    # Admin.

    async def _administer(self, active: ActiveRun, runs: RunControl) -> Ending:
        job = self._context.configuration.job(active.record.job)
        commands = [command for script in job.run_scripts for command in script.console_commands]
        outcome = Ending("done")
        for command in commands:
            await runs.say(active, "info", f"command: {command}")
            one = await self._give(parse_admin_command(command), active, runs)
            state = one.state if one.state != "done" else outcome.state
            changes, lines = {**outcome.changes, **one.changes}, outcome.lines + one.lines
            outcome = Ending(state, changes=changes, lines=lines)
            if one.state not in ("done", "incomplete"):
                break
        return outcome

    async def _give(self, command: AdminCommand, active: ActiveRun, runs: RunControl) -> Ending:
        context = self._context
        if command.verb == "expire runs":
            if obstacle := context.guard.obstacle:
                return Ending("done", lines=(("warning", f"no run was removed: {obstacle}"),))
            before_ns = clock.now_ns() - command.days * _DAY_NS
            runs_count = await survive(context.ask, remove_old_runs, before_ns)
            # After the runs: those of snapshots that exist stay.
            count = await survive(context.ask, remove_old_snapshots, before_ns)
            old = counted(runs_count, "old run")
            words = f"{old} and {counted(count, 'entry')} of removed snapshots deleted"
            return Ending("done", lines=(("info", words),))
        storage = command.storage or active.record.storage
        if not storage:
            raise UsageError(f"name a storage: `{command.verb} STORAGE`, or set one in the job")
        if command.verb == "backup catalog":
            return await self._back_up_catalog(storage, active, runs)
        if command.verb == "rebuild catalog":
            found = await survive(
                context.with_repository, reconcile, context, storage, rebuilds=True
            )
            text = f"{counted(len(found.entered), 'snapshot')} added"
            return Ending("done", lines=(("info", text), *found.lines()))
        description = await survive(context.in_thread, self._upkeep, command.verb, storage)
        outcome = _outcome(await run_own_job(description, active, runs), {})
        if command.verb != "prune" or outcome.state not in ("done", "incomplete"):
            return outcome
        found = await survive(context.with_repository, reconcile, context, storage)
        return replace(outcome, lines=(*outcome.lines, *found.lines()))

    def _upkeep(self, verb: AdminVerb, storage: str) -> Prune | ShareJob | VerifyUploads:
        """The description of a job of upkeep. Blocks."""
        repository = self._repository(storage)
        if verb == "vouch":
            return VerifyUploads(**repository)
        configuration = self._context.configuration
        known = load_clients(self._context.catalog)
        generations = {name: one.generation for name, one in known.items()}
        settings = configuration.storages[storage]
        sharing = Sharing(
            settings.share_chunks_from,
            tuple((name, generations.get(name, 0)) for name in configuration.clients),
        )
        if verb == "prune":
            return Prune(**repository, sharing=sharing, memory_bytes=settings.prune_memory_bytes)
        return ShareJob(**repository, sharing=sharing)

    async def _back_up_catalog(self, storage: str, active: ActiveRun, runs: RunControl) -> Ending:
        context, record = self._context, active.record
        folder = os.path.join(context.working_directory, "catalog-backup")
        rows = await survive(context.in_thread, write_catalog, context, folder)
        await runs.say(active, "info", f"{counted(rows, 'row')} of the catalog")
        folders = [folder]
        if self._configuration_path:
            folders.append(self._configuration_path)
        description = BackUpFolder(
            **self._repository(storage),
            job=CATALOG_JOB,
            folders=tuple(folders),
            tags=(CATALOG_TAG, RUN_TAG + record.id, POOL_TAG + record.pool),
        )
        try:
            ended = await run_own_job(description, active, runs)
        finally:
            await context.in_thread(shutil.rmtree, folder, True)
        if ended.snapshot:
            entry = await context.with_repository(
                catalog_snapshot, context, storage, ended.snapshot, record
            )
            await survive(context.ask, add_snapshots, [entry])
        return _outcome(ended, {"snapshot": ended.snapshot})

    def _repository(self, storage: str) -> dict[str, Any]:
        """What every description says of its repository."""
        context = self._context
        folder = os.path.join(context.working_directory, "cache")
        place = context.repositories.place(storage)
        return {"place": place, "host": context.name, "cache_folder": folder}


def _outcome(ended: RunEnded, changes: dict[str, Any]) -> Ending:
    counts, _ = counts_of(ended.summary)
    columns: dict[str, Any] = {**counts, "summary": ended.summary, **changes}
    lines: tuple[tuple[str, str], ...] = ()
    if ended.error:
        columns |= {"error": ended.error, "error_id": ended.error_id}
        lines = (("error", ended.error),)
    return Ending(ended.status, changes=columns, lines=lines)


async def run_own_job(
    description: OwnJobDescription, active: ActiveRun, runs: RunControl
) -> RunEnded:
    """Run a job process for a run; cancelling the call ends the process first.

    Raises JobDiedError when something else stopped it, and errors of writing to the run.
    """

    async def report(message: RunProgress | RunLog) -> None:
        if isinstance(message, RunLog):
            await runs.say(active, message.level, message.text)
            return
        active.progress = msgspec.structs.replace(message, run_id=active.record.id)
        runs.watchers.wake(active.record.id)

    process = JobProcess(PROGRAM, description, report)
    running = asyncio.create_task(process.run())
    try:
        ended = await asyncio.shield(running)
    except asyncio.CancelledError:
        process.stop()
        try:
            await asyncio.wait((running,), timeout=PROGRAM.stop_seconds)
        finally:
            # An unavailable catalog may delay its last reports.
            running.cancel()
            await asyncio.wait((running,))
        raise
    if ended.status == "cancelled":
        raise JobDiedError(f"a job process of the director was stopped: {ended.error}")
    return ended
