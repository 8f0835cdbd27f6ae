"""When digests are due: once a local day for each destination that wants one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from blake3 import blake3

from strongroom import clock
from strongroom.clock import SECOND_NS
from strongroom.daemons.director.catalog.outbox import (
    OutgoingMessage,
    post,
    undelivered_digests,
)
from strongroom.daemons.director.catalog.state import read_state
from strongroom.daemons.director.notices.digest import digest_text, last_digest_time
from strongroom.daemons.director.runs.targets import notice_targets, notices_of
from strongroom.printable import printable

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from strongroom.config.settings.messages import MessagesSettings
    from strongroom.daemons.director.context import DirectorContext

_STATE: Final = "digests"
_DAY_NS: Final = 86400 * SECOND_NS


def queue_digests(context: DirectorContext, zone: ZoneInfo) -> bool:
    """Store the digests that are due now; returns whether there are any. Blocks.

    After downtime one digest covers all of it. A new destination begins with the next day.
    """
    now_ns = clock.now_ns()
    sent: dict[str, int] = read_state(context.catalog, _STATE) or {}
    noted: dict[str, int] = {}
    due: list[OutgoingMessage] = []
    replaced: list[str] = []
    for messages in context.configuration.messages.values():
        for target in notice_targets(messages):
            minute = target.notify.digest_minute
            if minute is None:
                continue
            last_ns = last_digest_time(minute, now_ns, zone)
            before_ns = sent.get(target.key, 0)
            noted[target.key] = last_ns
            # 0: a new one. Later than now: the clock was ahead.
            if 0 < before_ns < last_ns:
                # It covers those that the destination did not get, and replaces them.
                lost = undelivered_digests(context.catalog, target.key)
                since = [one.content.get("since_ns", before_ns) for one in lost]
                due.append(_digest(context, messages, target.key, min([before_ns, *since]), zone))
                replaced += [one.id for one in lost]
            elif 0 < before_ns <= now_ns + _DAY_NS:
                noted[target.key] = before_ns
    if due or noted != sent:
        post(context.catalog, due, (_STATE, noted), replaced)
    return bool(due)


def _digest(
    context: DirectorContext,
    messages: MessagesSettings,
    key: str,
    since_ns: int,
    zone: ZoneInfo,
) -> OutgoingMessage:
    configuration, now_ns = context.configuration, clock.now_ns()

    def concerns(job: str) -> bool:
        return notices_of(configuration, job) is messages

    subject, text = digest_text(context, concerns, since_ns, now_ns, zone)
    return OutgoingMessage(
        id=blake3(f"digest {key} {since_ns} {now_ns}".encode()).hexdigest(16),
        destination=key,
        form="digest",
        subject=f"[{printable(context.name)}] {subject}",
        created_ns=now_ns,
        content={"text": text, "since_ns": since_ns},
    )
