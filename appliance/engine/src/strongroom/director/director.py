"""The director's interface for its daemon and API: queries, commands, and messages of agents.

    director = await Director.open("/etc/strongroom", identity)
    director.use_link(connections)      connections to agents, which need the director to exist
    await director.start()              starts the scheduler
    director.queries                    read-only operations
    director.snapshots                  the same on snapshots and their files
    director.commands                   changes, which are audited
    director.audit_log                  what else was done or attempted
    director.agents                     reports from agents
    await director.stop()               runs on agents continue

All methods belong to one event loop. Catalog and repositories are read in threads. Every method of
queries and commands may raise UnknownNameError (no such job, client, run, snapshot), UsageError (a
value is invalid), ConflictError (it conflicts with the current state) and StoreError or
DamageError where a repository is read.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from typing import Final, Self

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import StrongroomError
from strongroom.config.model import ComponentConfiguration
from strongroom.config.settings.configuration import DirectorConfiguration
from strongroom.director.audit_log import AuditLog
from strongroom.director.catalog.upkeep import (
    remove_old_runs,
    remove_old_snapshots,
    remove_old_tokens,
)
from strongroom.director.commands import Commands
from strongroom.director.configuration import LoadedConfiguration, open_context
from strongroom.director.context import AgentLink, DirectorContext, repeat
from strongroom.director.notices.expiries import log_expiries
from strongroom.director.notices.notice_service import NoticeService
from strongroom.director.own_jobs.own_jobs import OwnJobs
from strongroom.director.queries import Queries
from strongroom.director.repositories.browsing import SnapshotBrowser
from strongroom.director.runs.active_run import ActiveRuns
from strongroom.director.runs.aftermath import DirectorAftermath
from strongroom.director.runs.agents import Agents
from strongroom.director.runs.copy_queues import CopyQueues
from strongroom.director.runs.lifecycle import Runs
from strongroom.director.schedule.scheduler import Scheduler
from strongroom.director.snapshot_queries import SnapshotQueries
from strongroom.director.snapshots.reconciliation import Reconciler
from strongroom.net.identities.identity import Identity
from strongroom.service.log_lines import DailyLog

# The first comparison of the catalog with the repositories, and the interval.
FIRST_LOOK_SECONDS: Final = 60.0
RECONCILE_SECONDS: Final = 3600.0
# Not at once: runs that a restart has interrupted are queued again first.
FIRST_COPY_SECONDS: Final = 10.0
COPY_LOOK_SECONDS: Final = 30.0
EXPIRY_LOOK_SECONDS: Final = 3600.0
# How often old rows of the catalog go, and how old they are then.
FORGET_SECONDS: Final = 86400.0
KEPT_NS: Final = 400 * 86400 * SECOND_NS
TOKENS_KEPT_NS: Final = 30 * 86400 * SECOND_NS

_log = logging.getLogger(__name__)


class Director:
    """The parts of a director, combined; see the module."""

    def __init__(self, context: DirectorContext, path: str) -> None:
        """`path`: of the configuration, for a reload; use `open`."""
        self.context = context
        active = ActiveRuns()
        self.notices = NoticeService(context, active)
        aftermath = DirectorAftermath(context, self.notices)
        self.runs = Runs(context, active, OwnJobs(context, path).carry_out, aftermath)
        self.scheduler = Scheduler(context, self.runs)
        self.copies = CopyQueues(context, self.runs)
        self.agents = Agents(context, self.runs)
        self._browser = SnapshotBrowser(context.repositories)
        self.queries = Queries(context, self.runs, self.scheduler, self.notices)
        self.snapshots = SnapshotQueries(context, self._browser)
        self.audit_log = AuditLog(context)
        self.commands = Commands(
            context,
            self.runs,
            self.scheduler,
            self.agents,
            self.notices,
            self.audit_log,
            path,
        )
        # Not at once: the clock may be set right after a start.
        self._forget_at = clock.elapsed_seconds() + EXPIRY_LOOK_SECONDS
        self._reconciler = Reconciler(context)
        self._loops: list[asyncio.Task[None]] = []

    @classmethod
    async def open(
        cls,
        path: str,
        identity: Identity | None,
        link: AgentLink | None = None,
        loaded: LoadedConfiguration | None = None,
    ) -> Self:
        """Read the configuration at `path` and open the catalog it names.

        loaded: that configuration, where it was read already. Raises ConfigurationError,
        UsageError, CatalogError.
        """
        director = cls(await asyncio.to_thread(open_context, path, identity, loaded), path)
        if link is not None:
            director.use_link(link)
        return director

    def use_link(self, link: AgentLink) -> None:
        """Use these connections to agents."""
        self.context.link = link

    def use_identity(self, identity: Identity) -> None:
        """Sign with this identity from now on: the certificate was renewed."""
        self.context.identity = identity

    @property
    def configuration(self) -> DirectorConfiguration:
        """The configuration in force; a reload replaces it."""
        return self.context.configuration

    @property
    def resources(self) -> ComponentConfiguration:
        """The same as parsed, for display."""
        return self.context.resources

    async def start(self) -> None:
        """Resume unfinished runs, and start the scheduler."""
        await self.commands.remove_orphaned_tokens()
        await self.agents.rivals.load()
        await self.runs.resume()
        await self.scheduler.load()
        daily, what = DailyLog(_log), "the hourly look at what ends or is old failed"
        loops = (
            self.scheduler.run(),
            repeat("snapshots", self._reconcile, RECONCILE_SECONDS, FIRST_LOOK_SECONDS),
            repeat(what, partial(self.hourly, daily), EXPIRY_LOOK_SECONDS),
            repeat("copies", self.copies.look, COPY_LOOK_SECONDS, FIRST_COPY_SECONDS),
        )
        self._loops = [asyncio.create_task(one) for one in loops]
        self.notices.start()

    async def stop(self) -> None:
        """Stop; agents continue their jobs and report them to the next director process."""
        for task in self._loops:
            task.cancel()
        if self._loops:
            await asyncio.wait(self._loops)
        await self.notices.stop()
        await self.runs.shut_down()
        with suppress(StrongroomError):
            await self.audit_log.record_left_out(at_end=True)
        self._browser.close()
        await asyncio.to_thread(self.context.close)

    async def _reconcile(self) -> None:
        """Detect changes by others to the repositories."""
        context = self.context
        for storage in context.repositories.names:
            try:
                result = await context.with_repository(self._reconciler.reconcile, storage)
                await self.notices.reconciled(storage, result)
            except (StrongroomError, OSError) as error:
                _log.warning("the repository of %s cannot be read: %s", storage, error)
            except Exception:  # noqa: BLE001 - the other repositories follow
                _log.exception("the catalog cannot be compared with storage %s", storage)

    async def hourly(self, daily: DailyLog) -> None:
        """Log what ends soon, settle what settles by itself, remove what is old."""
        log_expiries(daily, await self.queries.expiries())
        await self.agents.rivals.look()
        await self._forget_old_rows()

    async def _forget_old_rows(self) -> None:
        """Remove from the catalog what no one needs any more. Raises CatalogError.

        Tokens each time; runs and snapshots once a day, unless an Admin job does it by `expire
        runs`. Nothing while the clock is not trusted.
        """
        if self.context.guard.obstacle:
            return
        if tokens := await self.context.ask(remove_old_tokens, clock.now_ns() - TOKENS_KEPT_NS):
            _log.info("%d tokens that ended long ago were removed from the catalog", tokens)
        now = clock.elapsed_seconds()
        jobs = self.configuration.jobs.values()
        is_done_by_job = any(
            command.lower().split()[:2] == ["expire", "runs"]
            for job in jobs
            for script in job.run_scripts
            for command in script.console_commands
        )
        if is_done_by_job or now < self._forget_at:
            return
        self._forget_at = now + FORGET_SECONDS
        before_ns = clock.now_ns() - KEPT_NS
        runs = await self.context.ask(remove_old_runs, before_ns)
        # After the runs: those of snapshots that exist stay.
        snapshots = await self.context.ask(remove_old_snapshots, before_ns)
        if runs or snapshots:
            text = "%d old runs and %d entries of removed snapshots were removed from the catalog"
            _log.info(text, runs, snapshots)
