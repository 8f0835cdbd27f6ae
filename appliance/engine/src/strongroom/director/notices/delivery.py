"""Sends what waits in the outbox: together where it can be, bounded by hour, tried until it goes.

Messages of one destination go in their order, one after the other. Notices wait a few seconds for
others, and one message tells all that wait. When a destination fails, what waits for it is tried
again after 30 seconds, then at doubled intervals up to an hour. Notices are tried until they go,
however long that takes; a report that has failed for three days and several times is given up, and
stays in the outbox as a dead letter. Each destination has its
own thread while something is sent, at most THREADS in all, and no one waits for one that is slow.
Destinations whose last attempt failed share THREADS others: many that hang hold up no mail.

What an operator wants tested is sent at once, past the outbox.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict, deque
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import NoticeError, StrongroomError, UnknownNameError
from strongroom.base.printable import printable
from strongroom.director.catalog.incidents import note_delivered
from strongroom.director.catalog.outbox import (
    OutgoingMessage,
    drop,
    give_up,
    note_failure,
    note_working,
    retry_waiting,
    waiting,
)
from strongroom.director.catalog.runs import known_run
from strongroom.director.context import DirectorContext
from strongroom.director.notices.targets import name_of, place_of, targets_of
from strongroom.director.results.runs import Run
from strongroom.director.results.status import NoticeTest
from strongroom.director.runs.aftermath import filled
from strongroom.service.notices.letter import MOST_TOGETHER, Letter, notice_letter
from strongroom.service.notices.senders import send_notice, send_ping, send_report
from strongroom.service.notices.targets import NoticeTarget, PingTarget, ReportTarget, Target

THREADS: Final = 8
GATHER_SECONDS: Final = 10
FIRST_PAUSE_SECONDS: Final = 30
LONGEST_PAUSE_SECONDS: Final = 3600
GIVE_UP_SECONDS: Final = 3 * 86400
# After a long downtime, or when somebody has it retried, the first failure gives nothing up.
_LEAST_ATTEMPTS: Final = 6
# How long those who are slow are waited for, before the others are served again.
ROUND_SECONDS = 20.0
_HOUR: Final = 3600.0

_log = logging.getLogger(__name__)


class Delivery:
    """Of the event loop. sent, failed: how many messages, by destination, since the start."""

    def __init__(self, context: DirectorContext) -> None:
        self._context = context
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="notices")
        self._slow_threads = ThreadPoolExecutor(THREADS, thread_name_prefix="slow-notices")
        self._slow: set[str] = set()
        self._busy: dict[str, asyncio.Task[None]] = {}
        self._times: dict[str, deque[float]] = defaultdict(deque)
        self._is_hurried = False
        self.sent: dict[str, int] = defaultdict(int)
        self.failed: dict[str, int] = defaultdict(int)

    async def deliver_due(self) -> bool:
        """Send all that is due now; returns whether anything waits still.

        It is waited for, but not for long: what is slow continues meanwhile. Raises CatalogError.
        """
        context = self._context
        if self._is_hurried:
            self._is_hurried = False
            await context.ask(retry_waiting)
        found = await context.ask(waiting)
        targets = targets_of(context.configuration)
        for key, messages in found.items():
            if key not in self._busy:
                sending = self._deliver(key, messages, targets.get(key))
                self._busy[key] = asyncio.create_task(sending)
        if not self._busy:
            return bool(found)
        await asyncio.wait(self._busy.values(), timeout=ROUND_SECONDS)
        ended = {key: task for key, task in self._busy.items() if task.done()}
        for key in ended:
            del self._busy[key]
        failures = [task.exception() for task in ended.values() if not task.cancelled()]
        if failure := next((one for one in failures if one is not None), None):
            raise failure
        return bool(found)

    def hurry(self) -> None:
        """Try at once what waits after failures: destinations may have changed."""
        self._is_hurried = True

    async def send_now(self, target: NoticeTarget, letter: Letter) -> None:
        """Send past the outbox. Raises NoticeError."""
        await self._in_thread("", send_notice, target, letter)

    def close(self) -> None:
        """Stop; what is being sent is not waited for."""
        for task in self._busy.values():
            task.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._slow_threads.shutdown(wait=False, cancel_futures=True)

    async def _deliver(
        self, key: str, messages: list[OutgoingMessage], target: Target | None
    ) -> None:
        while messages:
            together = self._due(key, messages, target)
            if not together or not await self._send(key, together, target):
                return
            done = {one.id for one in together}
            messages = [one for one in messages if one.id not in done]

    def _due(
        self, key: str, messages: list[OutgoingMessage], target: Target | None
    ) -> list[OutgoingMessage]:
        """The messages that go next, as one; none if the first has to wait."""
        now_ns = clock.now_ns()
        first = messages[0]
        # A clock that was ahead must not make them wait for long.
        latest_ns = now_ns + LONGEST_PAUSE_SECONDS * SECOND_NS
        if now_ns < first.not_before_ns <= latest_ns:
            return []
        if target is None or first.form != "notice":
            return [first]
        newest_wait = first.created_ns + GATHER_SECONDS * SECOND_NS
        if now_ns < newest_wait <= latest_ns:
            return []
        if isinstance(target, NoticeTarget) and not self._has_room(key, target):
            return []
        return [one for one in messages if one.form == "notice"]

    def _has_room(self, key: str, target: NoticeTarget) -> bool:
        times, now = self._times[key], clock.elapsed_seconds()
        while times and times[0] <= now - _HOUR:
            times.popleft()
        return len(times) < target.notify.maximum_per_hour

    async def _send(self, key: str, messages: list[OutgoingMessage], target: Target | None) -> bool:
        """Send some as one; returns whether the next may go."""
        context, now_ns = self._context, clock.now_ns()
        ids = [one.id for one in messages]
        first = messages[0]
        if first.expires_ns and first.expires_ns <= now_ns:
            await context.ask(drop, ids)
            return True
        if target is None:
            text = "this destination is no longer in the configuration"
            await context.ask(give_up, ids, text)
            return True
        try:
            await self._attempt(key, target, messages)
        except (NoticeError, OSError) as error:
            await self._note_failure(key, messages, str(error))
            return False
        except Exception as error:  # noqa: BLE001 - it must not be tried without a pause
            # Its words may hold a secret.
            kind = type(error).__name__
            _log.error("sending to %s has a fault: %s", printable(name_of(key)), kind)
            await self._note_failure(key, messages, f"a fault of the director: {kind}")
            return False
        self._slow.discard(key)
        self._times[key].append(clock.elapsed_seconds())
        self.sent[name_of(key)] += 1
        place = place_of(target)
        await context.ask(note_delivered, messages, key, place)
        return True

    async def _attempt(self, key: str, target: Target, messages: list[OutgoingMessage]) -> None:
        first = messages[0]
        if isinstance(target, PingTarget):
            await self._in_thread(key, send_ping, target, str(first.content["phase"]))
        elif isinstance(target, ReportTarget):
            letter = _letter(self._context.name, first)
            words = await self._words(target, first)
            await self._in_thread(key, send_report, target, letter, words)
        elif first.form == "notice":
            letter = self._together(messages)
            await self._in_thread(key, send_notice, target, letter)
        else:
            await self._in_thread(key, send_notice, target, _letter(self._context.name, first))

    def _together(self, messages: list[OutgoingMessage]) -> Letter:
        # What lasts is worth more than what is over, should there be many.
        notices = sorted((one.content for one in messages), key=_weight)
        shown = notices[:MOST_TOGETHER]
        more = len(notices) - len(shown)
        return notice_letter(messages[0].id, self._context.name, shown, more)

    async def _words(self, target: ReportTarget, message: OutgoingMessage) -> list[str]:
        if not target.command:
            return []
        context, content = self._context, message.content
        run_id = str(content["run"])
        record = await context.ask(known_run, run_id)
        record = record or Run(id=run_id, job=str(content["job"]), kind="backup")
        # `%r` means the recipients; the rest as in scripts.
        command = target.command.replace("%r", " ".join(target.addresses))
        try:
            return filled(command, record, context.name)
        except StrongroomError as error:
            raise NoticeError(str(error)) from error

    async def _note_failure(self, key: str, messages: list[OutgoingMessage], error: str) -> None:
        context, now_ns = self._context, clock.now_ns()
        self._slow.add(key)
        self.failed[name_of(key)] += 1
        text = printable(error, 400)
        attempts = max(one.attempts for one in messages)
        pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS << min(attempts, 10))
        limit_ns = now_ns - GIVE_UP_SECONDS * SECOND_NS
        old = [
            one.id
            for one in messages
            if one.form != "notice"
            and one.created_ns <= limit_ns
            and one.attempts + 1 >= _LEAST_ATTEMPTS
        ]
        young = [one.id for one in messages if one.id not in old]
        if not attempts:
            _log.warning("a notice to %s waits: %s", printable(name_of(key)), text)
        again_ns = now_ns + pause * SECOND_NS
        await context.ask(note_failure, key, text, again=young, again_ns=again_ns, given_up=old)

    async def _in_thread(self, key: str, function: Any, *arguments: object) -> None:
        loop = asyncio.get_running_loop()
        threads = self._slow_threads if key in self._slow else self._threads
        await loop.run_in_executor(threads, function, *arguments)


def _weight(notice: dict[str, Any]) -> int:
    if notice["state"] != "open":
        return 2
    return 0 if notice["severity"] == "error" else 1


def _letter(director: str, message: OutgoingMessage) -> Letter:
    return Letter(
        id=message.id,
        director=director,
        subject=message.subject,
        text=str(message.content.get("text", "")),
    )


async def send_tests(
    context: DirectorContext, delivery: Delivery, name: str, who: str
) -> list[NoticeTest]:
    """Send a test to the destinations of a name, "" for all. Raises UnknownNameError."""
    targets = [
        one for one in targets_of(context.configuration).values() if isinstance(one, NoticeTarget)
    ]
    wanted = [one for one in targets if name in ("", one.notify.name, shown_name(one))]
    if not wanted:
        known = ", ".join(sorted({shown_name(one) for one in targets}))
        if not known:
            raise UnknownNameError("no Messages resource has a Notify block")
        raise UnknownNameError(f"there is no destination {name!r}; there are {known}")

    async def test(target: NoticeTarget) -> NoticeTest:
        letter = Letter(
            id=clock.random_bytes(16).hex(),
            director=context.name,
            subject=f"[{printable(context.name)}] test",
            text=f"A test of the notices, requested by {printable(who, 200)}. Everything is OK.\n",
        )
        try:
            await delivery.send_now(target, letter)
        except NoticeError as error:
            return NoticeTest(shown_name(target), str(error))
        await context.ask(note_working, target.key)
        return NoticeTest(shown_name(target), "")

    return list(await asyncio.gather(*map(test, wanted)))


def shown_name(target: NoticeTarget) -> str:
    """Messages and Notify block: `Standard/ops`."""
    return target.key.partition(":")[0]
