"""Processes messages from agents, and answers them.

An agent numbers its reports of a run and keeps each until it is acknowledged; a number is
acknowledged when the catalog has the report. So nothing is lost when either side or the connection
fails, and duplicates are stored once. At Hello each run that the agent names is answered by
Acknowledge (the number we have) or Cancel; a start message that never arrived is sent again, and a
run that the agent had started but no longer knows has failed.

An agent may report only on its own runs: reports about others are ignored and logged.

Transient errors (of the catalog, the disk) are raised: nothing is acknowledged, the connection
ends, and the agent retries with growing pauses. A report that can never be processed must not be
repeated forever and block all others: it is acknowledged, and its run has failed.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import (
    CatalogUnavailableError,
    ConflictError,
    OperatingSystemError,
    ProtocolError,
    StrongroomError,
)
from strongroom.base.quantities import counted
from strongroom.director.catalog.clients import change_client
from strongroom.director.catalog.runs import LONGEST_LINE_CHARACTERS, NewLine, known_run, last_runs
from strongroom.director.context import DirectorContext
from strongroom.director.results.runs import Run
from strongroom.director.runs.active_run import LOST_ID, ActiveRun, Ending
from strongroom.director.runs.agent_limits import (
    MOST_REPORTED,
    Undeliverable,
    bounded_hello,
    bounded_progress,
    is_final,
)
from strongroom.director.runs.lifecycle import Runs
from strongroom.director.runs.requests import new_run
from strongroom.director.runs.rivals import Rivals
from strongroom.director.runs.run_ends import RunEnds
from strongroom.director.runs.start_messages import limit_set
from strongroom.director.shown_text import shown
from strongroom.net.control.messages import (
    PROTOCOL_VERSION,
    Acknowledge,
    Cancel,
    Hello,
    RunEnded,
    RunLog,
    RunProgress,
    RunStarted,
    ToDirector,
    Welcome,
)
from strongroom.service.log_lines import LimitedLines

Report = RunStarted | RunLog | RunEnded

# After a run that failed the next one begins no sooner: an agent that connects and fails again and
# again must not fill the catalog with runs.
PAUSE_NS: Final = 60 * SECOND_NS
_CLOCK_TOLERANCE_NS: Final = 60 * SECOND_NS
_log = logging.getLogger(__name__)


class Agents:
    """The director's side of all conversations with agents."""

    def __init__(self, context: DirectorContext, runs: Runs) -> None:
        self._context = context
        self._runs = runs
        self._lines = LimitedLines(_log, "{count} more lines about the reports of agent {topic}")
        self.rivals = Rivals(context)
        self._ends = RunEnds(context, runs, self._lines)

    def refusal(self, name: str) -> str:
        """Why an agent of this name is refused, "" if it is not."""
        client = self._context.configuration.clients.get(name)
        if client is None:
            return f"the director's configuration has no Client {name!r}"
        return "" if client.enabled else f"client {name} is disabled"

    async def on_connected(self, client: str, hello: Hello, address: str) -> None:
        """Accept an agent, settle the runs it names, start what waits for it or runs now."""
        context = self._context
        hello = bounded_hello(hello)
        now_ns = clock.now_ns()
        ahead_ns = max(-MOST_REPORTED, min(MOST_REPORTED, hello.clock_ns - now_ns))
        context.hellos[client] = hello
        await self._note(
            client,
            address=address,
            last_seen_ns=now_ns,
            clock_ahead_ns=ahead_ns,
            version=hello.version,
            platform=hello.platform,
            features=hello.features,
        )
        if abs(ahead_ns) > _CLOCK_TOLERANCE_NS:
            text = "the clock of agent %s is %+.0f s off"
            self._lines.log(client, logging.WARNING, text, client, ahead_ns / SECOND_NS)
        settings = context.configuration.clients.get(client)
        welcome = Welcome(
            director=context.name,
            protocol=PROTOCOL_VERSION,
            server_time_ns=now_ns,
            maximum_concurrent_runs=settings.maximum_concurrent_jobs if settings else 0,
        )
        await context.link.send(client, welcome)
        for run_id in dict.fromkeys(hello.runs):
            await self._settle(client, run_id, self._answer_named(client, run_id))
        for active in self._runs.active.of_client(client):
            if active.is_running and active.record.id not in hello.runs:
                await self._settle(client, active.record.id, self._settle_unnamed(active))
        await self._settle(client, "all that wait", self._runs.dispatch())
        await start_on_connect(context, self._runs, client)

    async def on_rivalry_ended(self, client: str, why: str) -> None:
        """There is one agent of the client again."""
        if await self.rivals.settle(client, why):
            await self._runs.dispatch()

    async def on_disconnected(self, client: str) -> None:
        """An agent disconnected; its jobs continue without a connection."""
        self._lines.flush()
        self._context.hellos.pop(client, None)
        now = clock.elapsed_seconds()
        for active in self._runs.active.of_client(client):
            if active.is_running and active.lost_at is None:
                active.lost_at = now
        await self._note(client, last_seen_ns=clock.now_ns())

    async def on_message(self, client: str, message: ToDirector) -> None:
        """Store an agent's report of a run, then acknowledge it."""
        self._lines.flush()
        if not isinstance(message, RunStarted | RunProgress | RunLog | RunEnded):
            return
        if fault := _fault(message):
            text = "invalid report from agent %s: %s"
            self._lines.log(client, logging.WARNING, text, client, fault)
            await self._context.link.disconnect(client, f"invalid report: {fault}")
            return
        try:
            await self._take(client, message)
        except Exception as error:
            if isinstance(error, StrongroomError) and not is_final(error):
                raise
            if not is_final(error):
                text = f"reports of {client} on run {message.run_id} cannot be stored now: {error}"
                raise OperatingSystemError(text) from error
            if isinstance(message, RunProgress):
                # Progress is not sent again.
                text = "agent %s, run %s: its progress"
                named = shown(message.run_id, 32)
                self._lines.log(client, logging.ERROR, text, client, named, fault=error)
            else:
                await self.on_undeliverable(client, Undeliverable.of(message), error)

    async def _take(self, client: str, message: Report | RunProgress) -> None:
        active = self._own(client, message.run_id)
        if active is None:
            await self._answer_stranger(client, message)
            return
        if isinstance(message, RunProgress):
            active.take_progress(bounded_progress(message))
            self._runs.watchers.wake(message.run_id)
            return
        async with active.lock:
            handled = max(active.record.sequence, active.agent_log.sequence)
            if message.sequence > handled and not active.record.is_final:
                active.is_sent = True
                # It may end meanwhile; its end includes these counts.
                with suppress(ConflictError):
                    await self._keep(active, message)
            sequence = max(message.sequence, handled, active.record.sequence)
        await self._context.link.send(client, Acknowledge(run_id=message.run_id, sequence=sequence))

    async def on_undeliverable(self, client: str, report: Undeliverable, error: Exception) -> None:
        """End the run of a report that can never be processed, and acknowledge the report."""
        report_text = f"report {report.sequence} of the agent ({report.type}"
        report_text += f", {report.status[:32]})" if report.status.isalpha() else ")"
        self._lines.log(
            client,
            logging.ERROR,
            "agent %s, run %s: %s cannot be processed: %s",
            client,
            shown(report.run_id, 32),
            report_text,
            shown(error),
            # Our own errors are self-explanatory; they often quote the agent.
            fault=None if isinstance(error, StrongroomError) else error,
        )
        if (active := self._own(client, report.run_id)) is not None:
            async with active.lock:
                ending = Ending(
                    "failed",
                    f"{report_text} cannot be processed: {shown(error)}",
                    error.error_id if isinstance(error, StrongroomError) else "bug",
                    {"sequence": report.sequence},
                    is_reported=report.is_end,
                )
                await self._runs.end(active, ending)
            if not report.is_end:
                await self._context.link.send(client, Cancel(run_id=report.run_id))
        await self._context.link.send(
            client, Acknowledge(run_id=report.run_id, sequence=report.sequence)
        )

    async def _settle(self, client: str, what: str, activity: Awaitable[None]) -> None:
        """Settle one run; a failure must not disconnect the agent and block its other runs."""
        try:
            await activity
        except CatalogUnavailableError:
            raise
        except Exception as error:  # noqa: BLE001 - the other runs are to be settled anyway
            text = "agent %s has connected, and %s cannot be settled with it"
            self._lines.log(client, logging.ERROR, text, client, shown(what, 32), fault=error)

    def _own(self, client: str, run_id: str) -> ActiveRun | None:
        """An active run of this agent."""
        active = self._runs.active.get(run_id)
        mine = active is not None and active.record.client == client and active.is_remote
        return active if mine else None

    async def _keep(self, active: ActiveRun, message: Report) -> None:
        if abs(message.time_ns) >= MOST_REPORTED:
            raise ProtocolError("its time is out of range")
        changes: dict[str, Any] = {"sequence": message.sequence}
        active.moved_at = clock.elapsed_seconds()
        log, now_ns = active.agent_log, clock.now_ns()
        logged: list[tuple[int, str, str]] = []
        gap = message.sequence - max(active.record.sequence, log.sequence) - 1
        if gap:
            logged.append((now_ns, "warning", f"{counted(gap, 'report')} of the agent missing"))
        if isinstance(message, RunLog):
            logged.append((message.time_ns, message.level, message.text[:LONGEST_LINE_CHARACTERS]))
        elif isinstance(message, RunStarted):
            logged.append((message.time_ns, "info", "the agent has started the run"))
        lines = [
            NewLine(time_ns, level, kept)
            for time_ns, level, text in logged
            for kept in log.admit(text, active.record.log_lines)
        ]
        if isinstance(message, RunEnded):
            lines += [NewLine(now_ns, "warning", text) for text in log.unsaid()]
            await self._ends.end(active, message, lines)
        elif lines or not isinstance(message, RunLog):
            await self._runs.change(active, changes, lines)
        # What is left out is not worth a transaction: the next report that is kept brings the
        # number along, and if the director is killed before, it only counts reports as missing.
        log.sequence = message.sequence

    async def _answer_named(self, client: str, run_id: str) -> None:
        active = self._own(client, run_id)
        if active is not None:
            active.found_again()
            if active.ending is not None:
                await self._context.link.send(client, Cancel(run_id=run_id))
                return
            active.is_sent = True
            if not active.is_running:
                changes = {"state": "running", "started_ns": clock.now_ns(), "reason": ""}
                await self._runs.change(active, changes)
            sequence = active.record.sequence
            if (limit := limit_set(active.record)) is not None:
                await self._context.link.send(client, limit)
        else:
            record = await self._context.ask(known_run, run_id)
            if record is None or record.client != client or _ended_without_agent(record):
                await self._context.link.send(client, Cancel(run_id=run_id))
                return
            sequence = record.sequence
        await self._context.link.send(client, Acknowledge(run_id=run_id, sequence=sequence))

    async def _settle_unnamed(self, active: ActiveRun) -> None:
        """A run that is active in the catalog, but unknown to its agent."""
        active.found_again()
        if active.task is not None and not active.task.done():
            return
        if active.ending is not None:
            await self._runs.end(active, active.ending)
        elif active.record.sequence == 0:
            self._runs.set_going(active)
        else:
            reason = f"agent {active.record.client} no longer has the run"
            await self._runs.end(active, Ending("failed", reason, LOST_ID))

    async def _answer_stranger(self, client: str, message: Report | RunProgress) -> None:
        """A report about a run that has ended, belongs to another agent, or is unknown."""
        record = await self._context.ask(known_run, message.run_id)
        if record is None or record.client != client:
            named = shown(message.run_id, 32)
            text = "agent %s reports about run %s, not its own"
            self._lines.log(client, logging.WARNING, text, client, named)
        elif isinstance(message, RunEnded):
            await self._ends.keep_late(record, message)
        if not isinstance(message, RunEnded):
            await self._context.link.send(client, Cancel(run_id=message.run_id))
        if not isinstance(message, RunProgress):
            await self._context.link.send(
                client, Acknowledge(run_id=message.run_id, sequence=message.sequence)
            )

    async def _note(self, client: str, **changes: Any) -> None:
        await self._context.ask(change_client, client, **changes)


def _fault(message: Report | RunProgress) -> str:
    """The field of a report that is out of range, so that it cannot be acknowledged, or ""."""
    if isinstance(message, RunProgress):
        counts = (message.files, message.bytes, message.stored_bytes, message.errors)
        expected = (message.total_files or 0, message.total_bytes or 0)
        sound = all(0 <= count < MOST_REPORTED for count in (*counts, *expected))
        return "" if sound else "a count"
    return "" if 0 < message.sequence < MOST_REPORTED else "a number of a report"


def _ended_without_agent(record: Run) -> bool:
    """Whether the director ended it before the agent reported its end."""
    return record.is_final and not record.summary and record.state in ("cancelled", "failed")


async def start_on_connect(context: DirectorContext, runs: Runs, client: str) -> None:
    """Enter a run of each job of this client that runs when it connects, unless it ran lately."""
    for job in context.configuration.jobs.values():
        interval_seconds = job.run_on_incoming_connect_interval_seconds
        if not interval_seconds or not job.enabled or job.client != client:
            continue
        last = await context.ask(last_runs, [job.name])
        run = last.get(job.name)
        if run is not None and (
            not run.is_final
            or (run.went_well and clock.now_ns() - run.scheduled_ns < interval_seconds * SECOND_NS)
        ):
            continue
        try:
            record = new_run(context.configuration, job.name, requested_by="connection")
            if run is not None:
                last_ns = max(run.scheduled_ns, run.started_ns)
                earliest_ns = min(last_ns, record.scheduled_ns) + PAUSE_NS
                record = replace(record, not_before_ns=earliest_ns)
        except StrongroomError as error:
            _log.warning("job %s cannot be started: %s", job.name, error)
            continue
        await runs.submit(record, ["its client has connected"])
