"""Morning digests: what ran, failed, is missing or expires, and how much was stored.

They are due once a local day for each destination that wants one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from blake3 import blake3

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.printable import printable
from strongroom.base.quantities import counted
from strongroom.config.settings.messages import MessagesSettings
from strongroom.director.catalog.incidents import Incident, incidents_since, open_incidents
from strongroom.director.catalog.outbox import (
    OutgoingMessage,
    dead_letters,
    post,
    undelivered_digests,
)
from strongroom.director.catalog.run_history import ended_runs
from strongroom.director.catalog.state import read_state
from strongroom.director.context import DirectorContext
from strongroom.director.notices.targets import notices_of
from strongroom.director.results.runs import Run
from strongroom.director.shown_text import shown_time
from strongroom.service.notices.targets import notice_targets

_MOST_NAMED: Final = 30
_MOST_RUNS: Final = 20_000
_STATES: Final = ("done", "incomplete", "failed", "cancelled")
_GIB: Final = 1 << 30
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


def digest_text(
    context: DirectorContext,
    concerns: Callable[[str], bool],
    since_ns: int,
    now_ns: int,
    zone: tzinfo,
) -> tuple[str, str]:
    """Subject and text of a digest of what happened since then. Blocks.

    concerns: whether the destination is notified of a job; of "" for what is of no job.
    """
    runs = [run for run in ended_runs(context.catalog, since_ns, _MOST_RUNS) if concerns(run.job)]
    lasting = [one for one in open_incidents(context.catalog) if concerns(one.job)]
    recent = [one for one in incidents_since(context.catalog, since_ns) if concerns(one.job)]
    counts = Counter(run.state for run in runs)
    summary = ", ".join(f"{counts[state]} {state}" for state in _STATES if counts[state])
    state = f"{counted(len(lasting), 'problem')} now" if lasting else "all OK"
    lines = [
        f"From {shown_time(since_ns, zone)} to {shown_time(now_ns, zone)}.",
        "",
        f"Runs that ended: {summary or 'none'}.",
    ]
    lines += _section("Failed or incomplete", _unwell(runs, zone))
    lines += _section("Problems now", (_named(one, zone) for one in lasting))
    over = (one for one in recent if one.ended_ns)
    lines += _section("Problems that ended", (_named(one, zone) for one in over))
    lines += _section("Stored", _growth(context, runs))
    if concerns("") and (dead := len(dead_letters(context.catalog))):
        lines += ["", f"{counted(dead, 'message')} could not be delivered: strongroom notify list"]
    return f"digest: {summary or 'no runs'}; {state}", "\n".join(lines) + "\n"


def last_digest_time(minute: int, now_ns: int, zone: tzinfo) -> int:
    """The last time before now at which it was so many minutes past midnight there."""
    now = datetime.fromtimestamp(now_ns // SECOND_NS, UTC)
    local = now.astimezone(zone)
    for days in (0, 1):
        day = (local - timedelta(days=days)).date()
        moment = datetime(day.year, day.month, day.day, minute // 60, minute % 60, tzinfo=zone)
        if moment <= now:
            return int(moment.timestamp()) * SECOND_NS
    return 0


def _section(title: str, lines: Iterable[str]) -> list[str]:
    found = list(lines)
    if not found:
        return []
    more = len(found) - _MOST_NAMED
    rest = [f"  ... and {more} more"] if more > 0 else []
    return ["", f"{title}:", *(f"  {line}" for line in found[:_MOST_NAMED]), *rest]


def _unwell(runs: list[Run], zone: tzinfo) -> Iterator[str]:
    for run in reversed(runs):
        if run.state in ("failed", "incomplete"):
            name = printable(f"{run.job} of {run.client}" if run.client else run.job, 200)
            yield f"{shown_time(run.ended_ns, zone)}  {name}: {run.state} (run {run.id[:8]})"


def _named(incident: Incident, zone: tzinfo) -> str:
    return f"{incident.severity}: {incident.title}, since {shown_time(incident.since_ns, zone)}"


def _growth(context: DirectorContext, runs: list[Run]) -> Iterator[str]:
    added: Counter[str] = Counter()
    for run in runs:
        added[run.storage] += run.stored_bytes
    for storage in sorted(name for name in added if name):
        whole = context.repository_bytes.get(storage)
        now = f", {whole / _GIB:,.2f} GiB in all" if whole is not None else ""
        yield f"{printable(storage)}: {added[storage] / _GIB:,.3f} GiB more{now}"
