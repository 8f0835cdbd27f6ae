"""Jobs that the director runs itself: verify jobs without a client, copies, jobs of Type Admin.

Verify jobs read a complete snapshot (level VolumeToCatalog) or restore a sample of it (level Data).
Copy jobs copy what their selection names to the Storage of their Next Pool: `PoolUncopiedJobs` all
of their pool, `Job` and `Client` those whose job or client matches the Selection Pattern. Admin
jobs run the Console commands of their scripts in order; see `config.settings.admin_commands`.
Expensive work runs in a process of its own (`job`).
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any, Final

from strongroom import clock
from strongroom.clock import SECOND_NS
from strongroom.config.settings.admin_commands import parse_admin_command
from strongroom.config.settings.levels import VERIFY_SAMPLE
from strongroom.daemons.director.catalog.clients import load_clients
from strongroom.daemons.director.catalog.old_rows import remove_old_runs, remove_old_snapshots
from strongroom.daemons.director.catalog.retry import outlast
from strongroom.daemons.director.catalog.snapshots import add_snapshots
from strongroom.daemons.director.own_jobs.catalog_backup import (
    CATALOG_JOB,
    CATALOG_TAG,
    catalog_snapshot,
    write_catalog,
)
from strongroom.daemons.director.own_jobs.copies import enter_copies, selected_snapshots
from strongroom.daemons.director.own_jobs.descriptions import (
    BackUpFolder,
    CopySnapshots,
    OwnJobDescription,
    Place,
    Prune,
    ReadSnapshot,
    RestoreSample,
    ShareJob,
    Sharing,
    Vouch,
)
from strongroom.daemons.director.own_jobs.processes import run_own_job
from strongroom.daemons.director.repositories.ownership import require_sound
from strongroom.daemons.director.runs.protocols import Outcome
from strongroom.daemons.director.runs.run_request import RunRequest
from strongroom.daemons.director.runs.start_messages import POOL_TAG, RUN_TAG, verified_snapshot
from strongroom.daemons.director.snapshots.reconciliation import Reconciled, reconcile
from strongroom.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from strongroom.config.settings.admin_commands import AdminCommand, AdminVerb
    from strongroom.daemons.director.context import DirectorContext
    from strongroom.daemons.director.runs.active_run import ActiveRun
    from strongroom.daemons.director.runs.protocols import RunControl
    from strongroom.daemons.job_process.messages import JobEnded

_DAY_NS: Final = 86400 * SECOND_NS


class OwnJobs:
    """See the module."""

    def __init__(
        self, context: DirectorContext, configuration_path: str, clock_obstacle: Callable[[], str]
    ) -> None:
        """configuration_path: backed up along with the catalog, "" for nothing.

        clock_obstacle: why nothing may be judged by its age now, or "".
        """
        self._context = context
        self._clock_obstacle = clock_obstacle
        self._configuration_path = configuration_path and os.path.abspath(configuration_path)

    async def carry_out(self, active: ActiveRun, runs: RunControl) -> Outcome:
        """Execute the run. Raises StrongroomError."""
        record = active.record
        if record.kind == "verify":
            return await self._verify(active, runs)
        if record.kind == "copy":
            return await self._copy(active, runs)
        return await self._administer(active, runs)

    # Verify.

    async def _verify(self, active: ActiveRun, runs: RunControl) -> Outcome:
        context, record = self._context, active.record
        snapshot = await outlast(context.in_thread, verified_snapshot, context, record)
        require_sound(snapshot)
        text = f"verifies snapshot {snapshot.id[:8]} of {snapshot.client}"
        await runs.say(active, "info", text)
        place = self._place(snapshot.storage)
        description: OwnJobDescription
        if record.level == VERIFY_SAMPLE:
            job = context.configuration.job(record.job)
            description = RestoreSample(
                place=place,
                host=context.name,
                cache_folder=self._cache_folder,
                snapshot=snapshot.id,
                scratch=os.path.join(context.working_directory, "restore-tests", record.id),
                most_files=job.restore_test_files,
                most_bytes=job.restore_test_bytes,
            )
        else:
            description = ReadSnapshot(
                place=place,
                host=context.name,
                cache_folder=self._cache_folder,
                snapshot=snapshot.id,
            )
        ended = await run_own_job(description, active, runs)
        return _outcome(ended, {"snapshot": snapshot.id})

    # Copy.

    async def _copy(self, active: ActiveRun, runs: RunControl) -> Outcome:
        context, record = self._context, active.record
        job = context.configuration.job(record.job)
        said = str(RunRequest.of(record).overrides.get("next_pool", ""))
        target_pool = context.configuration.next_pool_of(job, record.pool, said)
        if target_pool is None or not target_pool.storages:
            raise UsageError(
                f"copy job {record.job} needs a Next Pool (its own or its Pool's) with a Storage"
            )
        target = target_pool.storages[0]
        chosen = await outlast(context.in_thread, selected_snapshots, context, record, target)
        if not chosen:
            return Outcome("done", {}, (("info", "there is nothing to copy"),))
        description = CopySnapshots(
            place=self._place(record.storage),
            host=context.name,
            cache_folder=self._cache_folder,
            target=self._place(target),
            snapshots=tuple(one.id for one in chosen),
        )
        await runs.say(active, "info", f"copies {len(chosen)} snapshots to {target}")
        ended = await run_own_job(description, active, runs)
        copies = await context.with_repository(
            enter_copies, context, record, chosen, ended.summary, target, target_pool.name
        )
        # Their location: retention applies there afterwards.
        ended.summary.update(storage=target, pool=target_pool.name)
        return _outcome(ended, {"files": copies})

    # Admin.

    async def _administer(self, active: ActiveRun, runs: RunControl) -> Outcome:
        job = self._context.configuration.job(active.record.job)
        commands = [command for script in job.run_scripts for command in script.console_commands]
        outcome = Outcome("done")
        for command in commands:
            await runs.say(active, "info", f"command: {command}")
            one = await self._give(parse_admin_command(command), active, runs)
            state = one.state if one.state != "done" else outcome.state
            outcome = Outcome(state, {**outcome.changes, **one.changes}, outcome.lines + one.lines)
            if one.state not in ("done", "incomplete"):
                break
        return outcome

    async def _give(self, command: AdminCommand, active: ActiveRun, runs: RunControl) -> Outcome:
        context = self._context
        if command.verb == "expire runs":
            if obstacle := self._clock_obstacle():
                return Outcome("done", {}, (("warning", f"no run was removed: {obstacle}"),))
            before_ns = clock.now_ns() - command.days * _DAY_NS
            catalog = context.catalog
            runs_count = await outlast(context.in_thread, remove_old_runs, catalog, before_ns)
            # After the runs: those of snapshots that exist stay.
            count = await outlast(context.in_thread, remove_old_snapshots, catalog, before_ns)
            said = f"{runs_count} old runs and {count} entries of removed snapshots were removed"
            return Outcome("done", {}, (("info", said),))
        storage = command.storage or active.record.storage
        if not storage:
            raise UsageError(f"say a storage: `{command.verb} STORAGE`, or give the job one")
        if command.verb == "backup catalog":
            return await self._back_up_catalog(storage, active, runs)
        if command.verb == "rebuild catalog":
            found = await outlast(context.with_repository, self._rebuild, storage)
            text = f"{len(found.entered)} snapshots were entered"
            return Outcome("done", {}, (("info", text), *found.lines()))
        description = await outlast(context.in_thread, self._upkeep, command.verb, storage)
        outcome = _outcome(await run_own_job(description, active, runs), {})
        if command.verb != "prune" or outcome.state not in ("done", "incomplete"):
            return outcome
        found = await outlast(context.with_repository, reconcile, context, storage)
        return Outcome(outcome.state, outcome.changes, (*outcome.lines, *found.lines()))

    def _upkeep(self, verb: AdminVerb, storage: str) -> Prune | ShareJob | Vouch:
        """The description of a job of upkeep. Blocks."""
        place, host = self._place(storage), self._context.name
        folder = self._cache_folder
        if verb == "vouch":
            return Vouch(place=place, host=host, cache_folder=folder)
        configuration = self._context.configuration
        known = load_clients(self._context.catalog)
        generations = {name: one.generation for name, one in known.items()}
        sharing = Sharing(
            configuration.storages[storage].share_chunks_from,
            tuple((name, generations.get(name, 0)) for name in configuration.clients),
        )
        kind = Prune if verb == "prune" else ShareJob
        return kind(place=place, host=host, cache_folder=folder, sharing=sharing)

    async def _back_up_catalog(self, storage: str, active: ActiveRun, runs: RunControl) -> Outcome:
        context, record = self._context, active.record
        folder = os.path.join(context.working_directory, "catalog-backup")
        rows = await outlast(context.in_thread, write_catalog, context, folder)
        await runs.say(active, "info", f"{rows} rows of the catalog")
        folders = [folder]
        if self._configuration_path:
            folders.append(self._configuration_path)
        description = BackUpFolder(
            place=self._place(storage),
            host=context.name,
            cache_folder=self._cache_folder,
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
            await outlast(context.in_thread, add_snapshots, context.catalog, [entry])
        return _outcome(ended, {"snapshot": ended.snapshot})

    def _rebuild(self, storage: str) -> Reconciled:
        return reconcile(self._context, storage, rebuilds=True)

    def _place(self, storage: str) -> Place:
        place = self._context.repositories.place(storage)
        return Place(place.place, place.passphrase_file)

    @property
    def _cache_folder(self) -> str:
        return os.path.join(self._context.working_directory, "cache")


def _outcome(ended: JobEnded, changes: dict[str, Any]) -> Outcome:
    summary = ended.summary
    columns: dict[str, Any] = {"summary": summary, **changes}
    for column, names in (
        ("files", ("files",)),
        ("bytes", ("size_bytes", "read_bytes", "freed_bytes")),
        ("stored_bytes", ("stored_bytes",)),
        ("errors", ("problems",)),
    ):
        for name in names:
            if isinstance(summary.get(name), int):
                columns.setdefault(column, summary[name])
    lines: tuple[tuple[str, str], ...] = ()
    if ended.error:
        columns |= {"error": ended.error, "error_id": ended.error_id}
        lines = (("error", ended.error),)
    return Outcome(ended.status, columns, lines)
