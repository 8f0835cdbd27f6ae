"""What the director does itself: verify jobs that need no client, copies, the jobs of Type Admin.

Verify jobs read a snapshot wholly (level VolumeToCatalog) or restore a sample of it (level Data).
Copy jobs copy what their selection names to the Storage of their Next Pool: `PoolUncopiedJobs` all
of their pool, `Job` and `Client` those whose job or client fits the Selection Pattern. Admin jobs
give the Console commands of their scripts, in order:

    vouch [STORAGE]             look at what agents stored, so that others may share it
    prune [STORAGE]             vouch, give back the space that no snapshot needs, and look which
                                snapshots are there
    backup catalog [STORAGE]    the catalog and the configuration become a snapshot
    rebuild catalog [STORAGE]   enter all snapshots of a repository, mark those that are gone
    expire runs DAYS            remove runs from the catalog that are older and have no snapshot

Without STORAGE each takes the job's own. Everything heavy runs in a process of its own (`task`).
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
from typing import TYPE_CHECKING, Any, Final

import msgspec

from strongroom import clock
from strongroom.clock import SECOND_NS
from strongroom.daemons.director.catalog.portable import write_portable
from strongroom.daemons.director.catalog.retry import outlast
from strongroom.daemons.director.catalog.runs import remove_old_runs
from strongroom.daemons.director.catalog.snapshots import (
    SnapshotRecord,
    add_snapshots,
    present_snapshots,
)
from strongroom.daemons.director.repositories.reconciliation import Reconciled, reconcile
from strongroom.daemons.director.runs.own_job_messages import (
    BackUpFolder,
    CopySnapshots,
    Place,
    Prune,
    ReadSnapshot,
    RestoreSample,
    Vouch,
    encode_task,
)
from strongroom.daemons.director.runs.parts import Outcome
from strongroom.daemons.director.runs.plan import VERIFY_SAMPLE, resource
from strongroom.daemons.director.runs.start_messages import POOL_TAG, RUN_TAG, verified_snapshot
from strongroom.daemons.job_process.messages import (
    LARGEST_LINE_BYTES,
    JobEnded,
    JobLog,
    JobProgress,
    decode_from_job,
)
from strongroom.errors import JobDiedError, UsageError
from strongroom.net.control.messages import RunProgress
from strongroom.repo.snapshots import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from strongroom.daemons.director.catalog.runs import RunRecord
    from strongroom.daemons.director.context import DirectorContext
    from strongroom.daemons.director.runs.active_run import ActiveRun
    from strongroom.daemons.director.runs.lifecycle import Runs
    from strongroom.daemons.director.runs.own_job_messages import AnyTask

CATALOG_JOB: Final = "catalog"
CATALOG_TAG: Final = "strongroom-catalog"
CATALOG_FILE: Final = "catalog.jsonl"
_KILL_SECONDS: Final = 10.0
_DAY_NS: Final = 86400 * SECOND_NS
_MOST_ERROR_BYTES: Final = 4000


class DirectorWork:
    """See the module."""

    def __init__(self, context: DirectorContext, configuration_path: str = "") -> None:
        """configuration_path: what is backed up along with the catalog, "" for nothing."""
        self._context = context
        self._configuration_path = configuration_path and os.path.abspath(configuration_path)

    async def carry_out(self, active: ActiveRun, runs: Runs) -> Outcome:
        """Do what the run is for. Raises StrongroomError."""
        record = active.record
        if record.kind == "verify":
            return await self._verify(active, runs)
        if record.kind == "copy":
            return await self._copy(active, runs)
        return await self._administer(active, runs)

    # Verify.

    async def _verify(self, active: ActiveRun, runs: Runs) -> Outcome:
        context, record = self._context, active.record
        snapshot = await outlast(context.in_thread, verified_snapshot, context, record)
        text = f"verifies snapshot {snapshot.id[:8]} of {snapshot.client}"
        await runs.say(active, "info", text)
        place = self._place(snapshot.storage)
        task: AnyTask
        if record.level == VERIFY_SAMPLE:
            job = resource(context.configuration, "Job", record.job)
            task = RestoreSample(
                place=place,
                host=context.name,
                cache_folder=self._cache_folder,
                snapshot=snapshot.id,
                scratch=os.path.join(context.working_directory, "restore-tests", record.id),
                most_files=int(job.restore_test_files),
                most_bytes=int(job.restore_test_bytes),
            )
        else:
            task = ReadSnapshot(
                place=place,
                host=context.name,
                cache_folder=self._cache_folder,
                snapshot=snapshot.id,
            )
        ended = await self._run(active, runs, task)
        return _outcome(ended, {"snapshot": snapshot.id})

    # Copy.

    async def _copy(self, active: ActiveRun, runs: Runs) -> Outcome:
        context, record = self._context, active.record
        job = resource(context.configuration, "Job", record.job)
        target_pool = job.next_pool or (job.pool.next_pool if job.pool is not None else None)
        storages = target_pool.storage if target_pool is not None else ()
        if target_pool is None or not storages:
            raise UsageError(
                f"copy job {record.job} needs a Next Pool (its own or its Pool's) with a Storage"
            )
        target = storages[0].name
        chosen = await outlast(context.in_thread, self._selected, record, target)
        if not chosen:
            return Outcome("done", {}, (("info", "there is nothing to copy"),))
        task = CopySnapshots(
            place=self._place(record.storage),
            host=context.name,
            cache_folder=self._cache_folder,
            target=self._place(target),
            snapshots=tuple(one.id for one in chosen),
        )
        await runs.say(active, "info", f"copies {len(chosen)} snapshots to {target}")
        ended = await self._run(active, runs, task)
        copies = await context.with_repository(
            self._enter_copies, record, chosen, ended.summary, target, target_pool.name
        )
        # Where they are: retention looks there afterwards.
        ended.summary.update(storage=target, pool=target_pool.name)
        return _outcome(ended, {"files": copies})

    def _selected(self, record: RunRecord, target: str) -> list[SnapshotRecord]:
        job = resource(self._context.configuration, "Job", record.job)
        kind = job.selection_type or "PoolUncopiedJobs"
        present = present_snapshots(self._context.catalog, storage=record.storage)
        copied = {one.original for one in present_snapshots(self._context.catalog, storage=target)}
        pattern = re.compile(job.selection_pattern or ".*")
        tests: dict[str, Callable[[SnapshotRecord], object]] = {
            "PoolUncopiedJobs": lambda one: one.pool == record.pool,
            "Job": lambda one: pattern.fullmatch(one.job),
            "Client": lambda one: pattern.fullmatch(one.client),
        }
        if kind not in tests:
            known = ", ".join(tests)
            raise UsageError(f"a copy job selects by {known}, not by {kind}: there are no volumes")
        return [
            one for one in present if tests[kind](one) and (one.original or one.id) not in copied
        ]

    def _enter_copies(
        self,
        record: RunRecord,
        chosen: list[SnapshotRecord],
        summary: dict[str, Any],
        target: str,
        pool: str,
    ) -> int:
        originals = {one.id: one for one in chosen}
        pairs = [(str(a), str(b)) for a, b in summary.get("copies", ()) if a in originals]
        if not pairs:
            return 0
        repository = self._context.repositories.open(target)
        try:
            records = []
            for original_id, copy_id in pairs:
                copy = read_snapshot(repository.store, repository.key, copy_id)
                records.append(
                    msgspec.structs.replace(
                        originals[original_id],
                        id=copy_id,
                        storage=target,
                        pool=pool,
                        run=record.id,
                        # Of a copy's copy as well the backup, which alone is asked about.
                        original=originals[original_id].original or original_id,
                        server_ns=copy.server_ns or clock.now_ns(),
                        stored_bytes=0,
                    )
                )
        finally:
            repository.close()
        return add_snapshots(self._context.catalog, records)

    # Admin.

    async def _administer(self, active: ActiveRun, runs: Runs) -> Outcome:
        job = resource(self._context.configuration, "Job", active.record.job)
        commands = [command for script in job.run_scripts for command in script.console_commands]
        outcome = Outcome("done")
        for command in commands:
            await runs.say(active, "info", f"command: {command}")
            one = await self._give(command.split(), active, runs)
            state = one.state if one.state != "done" else outcome.state
            outcome = Outcome(state, {**outcome.changes, **one.changes}, outcome.lines + one.lines)
            if one.state not in ("done", "incomplete"):
                break
        return outcome

    async def _give(self, words: list[str], active: ActiveRun, runs: Runs) -> Outcome:
        context, record = self._context, active.record
        verb = " ".join(words[:2]) if words[0] in ("backup", "rebuild", "expire") else words[0]
        rest = words[len(verb.split()) :]
        storage = rest[0] if rest else record.storage
        if verb == "expire runs":
            if not rest or not rest[0].isascii() or not rest[0].isdecimal():
                raise UsageError("write `expire runs DAYS`")
            before_ns = clock.now_ns() - int(rest[0]) * _DAY_NS
            catalog = context.catalog
            count = await outlast(context.in_thread, remove_old_runs, catalog, before_ns)
            return Outcome("done", {}, (("info", f"{count} old runs were removed"),))
        if verb not in ("prune", "vouch", "backup catalog", "rebuild catalog"):
            raise UsageError(f"there is no console command {' '.join(words)!r} for admin jobs")
        if not storage:
            raise UsageError(f"say a storage: `{verb} STORAGE`, or give the job one")
        if verb in ("prune", "vouch"):
            task = (Prune if verb == "prune" else Vouch)(
                place=self._place(storage), host=context.name, cache_folder=self._cache_folder
            )
            outcome = _outcome(await self._run(active, runs, task), {})
            if verb == "vouch" or outcome.state not in ("done", "incomplete"):
                return outcome
            found = await outlast(context.with_repository, reconcile, context, storage)
            return Outcome(outcome.state, outcome.changes, (*outcome.lines, *found.lines()))
        if verb == "rebuild catalog":
            found = await outlast(context.with_repository, self._rebuild, storage)
            text = f"{len(found.entered)} snapshots were entered"
            return Outcome("done", {}, (("info", text), *found.lines()))
        return await self._back_up_catalog(storage, active, runs)

    async def _back_up_catalog(self, storage: str, active: ActiveRun, runs: Runs) -> Outcome:
        context, record = self._context, active.record
        folder = os.path.join(context.working_directory, "catalog-backup")
        rows = await outlast(context.in_thread, _write_catalog, context, folder)
        await runs.say(active, "info", f"{rows} rows of the catalog")
        folders = [folder]
        if self._configuration_path:
            folders.append(self._configuration_path)
        task = BackUpFolder(
            place=self._place(storage),
            host=context.name,
            cache_folder=self._cache_folder,
            job=CATALOG_JOB,
            folders=tuple(folders),
            tags=(CATALOG_TAG, RUN_TAG + record.id, POOL_TAG + record.pool),
        )
        try:
            ended = await self._run(active, runs, task)
        finally:
            await context.in_thread(shutil.rmtree, folder, True)
        if ended.snapshot:
            entry = await context.with_repository(
                self._catalog_snapshot, storage, ended.snapshot, record
            )
            await outlast(context.in_thread, add_snapshots, context.catalog, [entry])
        return _outcome(ended, {"snapshot": ended.snapshot})

    def _rebuild(self, storage: str) -> Reconciled:
        return reconcile(self._context, storage, rebuilds=True)

    def _catalog_snapshot(self, storage: str, name: str, record: RunRecord) -> SnapshotRecord:
        repository = self._context.repositories.open(storage)
        try:
            snapshot = read_snapshot(repository.store, repository.key, name)
        finally:
            repository.close()
        return SnapshotRecord(
            id=name,
            client=self._context.name,
            job=CATALOG_JOB,
            storage=storage,
            pool=record.pool,
            run=record.id,
            start_ns=snapshot.start_ns,
            server_ns=snapshot.server_ns or clock.now_ns(),
            files=snapshot.totals.files,
            bytes=snapshot.totals.content_bytes,
            stored_bytes=snapshot.totals.stored_bytes,
            tags=snapshot.tags,
        )

    # Processes.

    async def _run(self, active: ActiveRun, runs: Runs, task: AnyTask) -> JobEnded:
        """Have a task done in a process; JobDiedError when it ends without a word."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "strongroom.daemons.director.runs.own_job_process",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=LARGEST_LINE_BYTES,
            start_new_session=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        errors = asyncio.create_task(process.stderr.read())
        ended: JobEnded | None = None
        try:
            process.stdin.write(encode_task(task))
            process.stdin.close()
            while line := await process.stdout.readline():
                said = decode_from_job(line)
                if isinstance(said, JobEnded):
                    ended = said
                elif isinstance(said, JobLog):
                    await runs.say(active, said.level, said.text)
                elif isinstance(said, JobProgress):
                    fields = {name: getattr(said, name) for name in said.__struct_fields__}
                    active.progress = RunProgress(run_id=active.record.id, **fields)
                    runs.watchers.wake(active.record.id)
            await process.wait()
        except (msgspec.MsgspecError, ValueError) as error:
            raise JobDiedError(f"a process of the director said nonsense: {error}") from error
        finally:
            await _end(process)
            text = (await errors)[-_MOST_ERROR_BYTES:].decode("utf-8", "backslashreplace").strip()
        if ended is None:
            raise JobDiedError(
                f"a process of the director ended with code {process.returncode} before its task "
                f"was done: {text or 'it said nothing'}"
            )
        return ended

    def _place(self, storage: str) -> Place:
        place = self._context.repositories.place(storage)
        return Place(place.place, place.passphrase_file)

    @property
    def _cache_folder(self) -> str:
        return os.path.join(self._context.working_directory, "cache")


async def _end(process: asyncio.subprocess.Process) -> None:
    """See that a process and all it started are gone."""
    if process.returncode is not None:
        return
    for number in (15, 9):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            await asyncio.wait_for(asyncio.shield(process.wait()), _KILL_SECONDS)
        except TimeoutError:
            continue
        break


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


def _write_catalog(context: DirectorContext, folder: str) -> int:
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with open(os.path.join(folder, CATALOG_FILE), "wb") as file:
        return write_portable(context.catalog, file)
