"""The life of a run, from its request to its end.

    queued    it may start as soon as priorities and limits allow
    waiting   it cannot start: its agent is not connected, or it is not due yet
    running   an agent has its start message, or the director executes it itself
    done, incomplete, failed, cancelled   final states

Every change is in the catalog before anybody is notified. All methods belong to the event loop;
the catalog is written in threads. `_gate` serializes decisions about starting, the lock of a run
its changes. What follows an end (scripts, retention, another attempt) is in `aftermath`; messages
from agents are in `agents`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import msgspec

from strongroom.base import clock
from strongroom.base.errors import ConflictError, StrongroomError
from strongroom.config.settings.job import JobSettings
from strongroom.director.catalog.runs import (
    AFTERMATH,
    NewLine,
    add_run,
    change_run,
    load_run,
    unfinished_runs,
    unfollowed_runs,
)
from strongroom.director.context import Background, DirectorContext, survive
from strongroom.director.results.runs import Run
from strongroom.director.runs.active_run import (
    ActiveRun,
    ActiveRuns,
    Alarm,
    Ending,
    RunControl,
    StoredTicket,
    Watchers,
    limit,
    next_moment,
    orphaned,
    overdue,
)
from strongroom.director.runs.aftermath import DirectorAftermath
from strongroom.director.runs.dispatch import (
    REPLACED_ID,
    ConcurrencyLimits,
    choose,
    judge,
    replaced,
    with_highest_level,
)
from strongroom.director.runs.requests import RunRequest
from strongroom.director.runs.start_messages import limit_set, make_start
from strongroom.director.runs.tickets import make_reading_start, remove_ticket
from strongroom.net.control.messages import Cancel

STOP_SECONDS: Final = 15.0
RESTARTED_ID: Final = "restarted"
_UNFINISHED: Final = ("queued", "waiting", "running")

_log = logging.getLogger(__name__)


class Runs:
    """All runs that have not ended; `active` has them.

    carry_out: does a run that needs no agent, and raises StrongroomError; cancelling it ends the
    run.
    """

    def __init__(
        self,
        context: DirectorContext,
        active: ActiveRuns,
        carry_out: Callable[[ActiveRun, RunControl], Awaitable[Ending]],
        aftermath: DirectorAftermath,
    ) -> None:
        self._context = context
        self.active = active
        self.carry_out = carry_out
        self._aftermath = aftermath
        self._gate = asyncio.Lock()
        self._background = Background()
        self.watchers = Watchers()
        self.alarm = Alarm()

    # Creation.

    async def resume(self) -> None:
        """Resume the runs that are unfinished in the catalog."""
        call, catalog = self._context.in_thread, self._context.catalog
        unfollowed = await call(unfollowed_runs, catalog)
        for record in await call(unfinished_runs, catalog):
            self.active.add(record)
        for active in self.active.all():
            self._limit(active)
            if active.is_running and not active.is_remote:
                reason = "the director was restarted during this run"
                await self.end(active, Ending("failed", reason, RESTARTED_ID))
            elif active.is_running:
                active.lost_at = clock.elapsed_seconds()
        for record in unfollowed:
            self.spawn(self._follow(record.id))

    async def submit(
        self,
        record: Run,
        lines: Sequence[str] = (),
        *,
        judged: bool = True,
        dispatched: bool = True,
    ) -> Run:
        """Add a run; checks duplicates first. Returns it, cancelled if it is refused.

        dispatched: check at once whether it may start; otherwise the caller does so soon.
        """
        now_ns = clock.now_ns()
        job = self._job(record)
        new_lines = [NewLine(now_ns, "info", text) for text in lines]
        async with self._gate:
            verdict = None
            others = self.active.records()
            superfluous = {one.id: one for one in replaced(record, others)} if judged else {}
            record = with_highest_level(record, superfluous.values())
            if job is not None and judged:
                rest = [one for one in others if one.id not in superfluous]
                verdict = judge(record, rest, job.duplicates)
            if verdict is not None and verdict.refusal:
                record = replace(
                    record,
                    state="cancelled",
                    ended_ns=now_ns,
                    reason=verdict.refusal,
                    aftermath=AFTERMATH[0],
                )
                new_lines.append(NewLine(now_ns, "warning", f"cancelled: {verdict.refusal}"))
            record = await self._context.ask(add_run, record, new_lines)
            if not record.is_final:
                self._expect(self.active.add(record))
        if record.is_final:
            self.spawn(self._follow(record.id))
        for run_id, why in verdict.cancelled if verdict is not None else ():
            if (older := self.active.get(run_id)) is not None:
                await self.stop(older, Ending("cancelled", why))
        for old in superfluous.values() if not record.is_final else ():
            older = self.active.get(old.id)
            if older is not None and not older.is_running:
                why = f"run {record.id[:8]}, the next of its schedule, replaces it"
                why = f"{old.reason}; {why}" if old.reason else why
                await self.stop(older, Ending("cancelled", why, REPLACED_ID))
        if dispatched:
            await self.dispatch()
        return record

    # Starting.

    async def dispatch(self) -> None:
        """Start what may start, and record why the others wait."""
        async with self._gate:
            now = clock.elapsed_seconds()
            ready: list[ActiveRun] = []
            for active in self.active.all():
                if active.is_running or active.ending is not None:
                    continue
                obstacle = self._obstacle(active, now)
                if obstacle:
                    await self._wait(active, "waiting", obstacle)
                elif active.record.kind == "estimate":
                    await self._begin(active)
                else:
                    ready.append(active)
            running = [
                active.contender(self._job(active.record))
                for active in self.active.all()
                if active.is_running and active.record.kind != "estimate"
            ]
            waiting = [active.contender(self._job(active.record)) for active in ready]
            decision = choose(waiting, running, ConcurrencyLimits.of(self._context.configuration))
            known = {active.record.id: active for active in ready}
            for run_id in decision.start:
                await self._begin(known[run_id])
            for run_id, reason in decision.reasons.items():
                await self._wait(known[run_id], "queued", reason)

    def _obstacle(self, active: ActiveRun, now: float) -> str:
        record = active.record
        if active.begins_at > now:
            return "waits to be tried again" if record.attempt > 1 else "it is not due yet"
        if not active.is_remote:
            return ""
        client = self._context.configuration.clients.get(record.client)
        if client is not None and not client.enabled:
            return f"client {record.client} is disabled"
        if record.client in self._context.rivals:
            return f"two agents have the identity of client {record.client}"
        if not self._context.link.is_connected(record.client):
            return f"agent {record.client} is not connected"
        return ""

    async def _wait(self, active: ActiveRun, state: str, reason: str) -> None:
        if active.ending is None and (active.record.state, active.record.reason) != (state, reason):
            with suppress(ConflictError):  # it may have ended meanwhile
                await self.change(active, {"state": state, "reason": reason})

    async def _begin(self, active: ActiveRun) -> None:
        changes = {"state": "running", "started_ns": clock.now_ns(), "reason": ""}
        with suppress(ConflictError):
            await self.change(active, changes)
        if active.ending is not None or not active.is_running:
            return  # the caller that stopped it writes its end
        active.begun_at = clock.elapsed_seconds()
        self._limit(active)
        self.set_going(active)

    def _limit(self, active: ActiveRun) -> None:
        director = self._context.configuration.director
        limit(active, self._job(active.record), director.absolute_job_timeout_seconds)
        self._expect(active)

    def _expect(self, active: ActiveRun) -> None:
        if (moment := next_moment((active,))) is not None:
            self.alarm.ring_by(moment)

    def set_going(self, active: ActiveRun) -> None:
        """Send the start message to the agent (again), or start the director's own part."""
        active.is_sent = False
        active.task = self.spawn(self._carry_out(active))

    async def _carry_out(self, active: ActiveRun) -> None:
        try:
            if not active.is_prepared:
                active.is_prepared = True
                await self._aftermath.before(active, self)
            if active.is_remote:
                await survive(self._send_start, active)
                return
            ending = await self.carry_out(active, self)
        except StrongroomError as error:
            ending = Ending("failed", str(error), error.error_id)
        except Exception as error:  # noqa: BLE001 - whatever it is, the run must end
            _log.exception("run %s of job %s failed", active.record.id, active.record.job)
            ending = Ending("failed", f"internal error of the director: {error}", "bug")
        await survive(self.end, active, ending)

    async def _send_start(self, active: ActiveRun) -> None:
        context, record = self._context, active.record
        limit = limit_set(record)
        if record.kind in ("restore", "verify"):
            start = await context.with_repository(make_reading_start, context, record)
        else:
            start = await context.in_thread(make_start, context, record)
        if start.ticket is not None:
            active.tickets.append(start.ticket)
        now_ns = clock.now_ns()
        lines = [NewLine(now_ns, level, text) for level, text in start.lines]
        await self.change(active, start.changes, lines)
        self._limit(active)
        if active.ending is not None:
            await self.end(active, active.ending)
        elif await self._context.link.send(active.record.client, start.message):
            active.is_sent = True
            if (changed := limit_set(active.record)) is not None and changed != limit:
                await self._context.link.send(active.record.client, changed)
        else:
            # It disconnected just now; nothing has started.
            await self.change(active, {"state": "waiting", "started_ns": 0})

    # Ending.

    async def stop(self, active: ActiveRun, ending: Ending) -> None:
        """End a run; one on an agent ends when the agent confirms, or soon in any case."""
        if active.ending is not None:
            return
        active.ending = ending
        is_under_way = active.task is not None and not active.task.done()
        if active.is_running and active.is_remote and active.is_sent:
            active.stop_at = clock.elapsed_seconds() + STOP_SECONDS
            self._expect(active)
            if await self._context.link.send(active.record.client, Cancel(run_id=active.record.id)):
                self.spawn(self._say_it_stops(active, ending))
                return
        elif active.is_running and active.is_remote and is_under_way:
            # The code that builds the start message checks `ending` before it sends it.
            active.stop_at = clock.elapsed_seconds() + STOP_SECONDS
            self._expect(active)
            return
        if is_under_way and active.task is not None and active.task is not asyncio.current_task():
            active.task.cancel()
            await asyncio.wait((active.task,))
        await self.end(active, ending)

    async def end(self, active: ActiveRun, ending: Ending) -> None:
        """Write the end of a run and start its aftermath; no effect if it has ended already.

        Where its agent did not report that, a run that an agent may have is given up: a snapshot
        that the agent reports later is still entered (`late_snapshots`).
        """
        now_ns = clock.now_ns()
        state, reason = ending.state, ending.reason
        columns: dict[str, Any] = {"state": state, "ended_ns": now_ns, "aftermath": AFTERMATH[0]}
        if active.is_running and active.is_remote and not ending.is_reported:
            columns["given_up_ns"] = now_ns
        columns |= ending.changes
        if (progress := active.progress) is not None:
            for name in ("files", "bytes", "stored_bytes", "errors"):
                columns.setdefault(name, getattr(progress, name))
        if reason:
            columns["reason" if state == "cancelled" else "error"] = reason
        if ending.error_id:
            columns["error_id"] = ending.error_id
        new_lines = [NewLine(now_ns, level, text) for level, text in ending.lines]
        if reason:
            new_lines.append(NewLine(now_ns, "error" if state == "failed" else "warning", reason))
        new_lines.append(NewLine(now_ns, "info", f"ended: {state}"))
        try:
            await self.change(active, columns, new_lines)
        except ConflictError:
            # By another caller just now, or by us if the database's answer was lost.
            active.record = await self._context.ask(load_run, active.record.id)
        while active.tickets:
            self.spawn(self._remove_ticket(active.record.id, active.tickets.pop()))
        if not self.active.remove(active.record.id):
            return
        self.watchers.wake(active.record.id)
        self.spawn(self._follow(active.record.id))

    async def _remove_ticket(self, run_id: str, ticket: StoredTicket) -> None:
        try:
            await self._context.with_repository(remove_ticket, self._context, ticket)
        except (StrongroomError, OSError) as error:
            _log.warning("run %s: its restore ticket remains until it expires: %s", run_id, error)

    async def _follow(self, run_id: str) -> None:
        try:
            await self._aftermath.after(run_id, self)
        except Exception:  # noqa: BLE001 - others may start now in any case
            _log.exception("run %s: not all was done after its end", run_id)
        # Not in a `finally`: a director that is stopping must not wait for its catalog.
        await survive(self.dispatch)

    async def change(
        self, active: ActiveRun, changes: Mapping[str, Any], lines: Sequence[NewLine] = ()
    ) -> None:
        """Write a change of a run and notify watchers. ConflictError: it has ended."""
        active.record, _ = await self._context.ask(
            change_run, active.record.id, changes, lines, only_in=_UNFINISHED
        )
        self.watchers.wake(active.record.id)

    async def say(self, active: ActiveRun, level: str, text: str) -> None:
        """Add a line to the log of a run."""
        await survive(self.change, active, {}, [NewLine(clock.now_ns(), level, text)])

    async def _say_it_stops(self, active: ActiveRun, ending: Ending) -> None:
        self.watchers.wake(active.record.id)
        text = f"{ending.reason}; agent {active.record.client} has not confirmed it yet"
        with suppress(ConflictError):  # it may have, by now
            await self.say(active, "info", text)

    async def set_limit(self, active: ActiveRun, bytes_per_second: int, text: str) -> None:
        """Store the limit of a run and send it to its agent, now or at its next Hello."""
        client = active.record.client
        if not self._context.link.is_connected(client):
            text += f"; agent {client} gets it when it reconnects"
        request = msgspec.structs.replace(
            RunRequest.of(active.record), limit_set_bytes_per_second=bytes_per_second
        )
        line = NewLine(clock.now_ns(), "info", text)
        await self.change(active, {"request": request.stored()}, [line])
        if active.is_sent and (limit_message := limit_set(active.record)) is not None:
            await self._context.link.send(client, limit_message)

    # Time limits.

    async def tick(self) -> None:
        """End runs beyond a time limit, and start what may start now."""
        now = clock.elapsed_seconds()
        for active in self.active.all():
            ending = orphaned(active, self._context.configuration) or overdue(
                active, self._job(active.record), now
            )
            if active.ending is not None and now >= active.stop_at:
                text = f"agent {active.record.client} never confirmed it; the cancel is sent again"
                lines = (("warning", text),) if active.is_sent else ()
                await self.end(active, replace(active.ending, lines=lines))
            elif ending is not None and active.ending is None:
                await self.stop(active, ending)
        await self.dispatch()

    def next_moment(self) -> float | None:
        """When `tick` is needed next at the latest, by clock.elapsed_seconds."""
        return next_moment(self.active.all())

    # Background activities.

    def spawn(self, activity: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start an activity; `settle` waits for it, its failure is logged."""
        return self._background.spawn(activity)

    async def settle(self) -> None:
        """Wait until nothing is active here except what waits for agents."""
        await self._background.settle()

    async def shut_down(self) -> None:
        """Stop the director's own jobs; agents continue."""
        await self._background.shut_down()

    def _job(self, record: Run) -> JobSettings | None:
        return self._context.configuration.jobs.get(record.job)
