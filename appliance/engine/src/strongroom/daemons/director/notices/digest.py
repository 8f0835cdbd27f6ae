"""The morning digest: what ran, failed, is missing or expires, and how much was stored."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from strongroom.clock import SECOND_NS
from strongroom.daemons.director.catalog.incidents import incidents_since, open_incidents
from strongroom.daemons.director.catalog.outbox import dead_letters
from strongroom.daemons.director.catalog.run_history import ended_runs
from strongroom.daemons.director.shown_text import shown_time
from strongroom.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import tzinfo

    from strongroom.daemons.director.catalog.incidents import Incident
    from strongroom.daemons.director.context import DirectorContext

_MOST_NAMED: Final = 30
_MOST_RUNS: Final = 20_000
_STATES: Final = ("done", "incomplete", "failed", "cancelled")
_GIB: Final = 1 << 30


def digest_text(
    context: DirectorContext,
    concerns: Callable[[str], bool],
    since_ns: int,
    now_ns: int,
    zone: tzinfo,
) -> tuple[str, str]:
    """Subject and text of a digest of what happened since then. Blocks.

    concerns: whether the destination is told of a job; of "" for what is of no job.
    """
    runs = [run for run in ended_runs(context.catalog, since_ns, _MOST_RUNS) if concerns(run.job)]
    lasting = [one for one in open_incidents(context.catalog) if concerns(one.job)]
    recent = [one for one in incidents_since(context.catalog, since_ns) if concerns(one.job)]
    counts = Counter(run.state for run in runs)
    summary = ", ".join(f"{counts[state]} {state}" for state in _STATES if counts[state])
    state = f"{len(lasting)} wrong now" if lasting else "all is well"
    lines = [
        f"From {shown_time(since_ns, zone)} to {shown_time(now_ns, zone)}.",
        "",
        f"Runs that ended: {summary or 'none'}.",
    ]
    lines += _section("Failed or incomplete", _unwell(runs, zone))
    lines += _section("Wrong now", (_named(one, zone) for one in lasting))
    over = (one for one in recent if one.ended_ns)
    lines += _section("Wrong meanwhile, and over", (_named(one, zone) for one in over))
    lines += _section("Stored", _growth(context, runs))
    if concerns("") and (dead := len(dead_letters(context.catalog))):
        lines += ["", f"{dead} messages could not be delivered: strongroom notify list"]
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


def _unwell(runs: list[Any], zone: tzinfo) -> Iterator[str]:
    for run in reversed(runs):
        if run.state in ("failed", "incomplete"):
            name = printable(f"{run.job} of {run.client}" if run.client else run.job, 200)
            yield f"{shown_time(run.ended_ns, zone)}  {name}: {run.state} (run {run.id[:8]})"


def _named(incident: Incident, zone: tzinfo) -> str:
    return f"{incident.severity}: {incident.title}, since {shown_time(incident.since_ns, zone)}"


def _growth(context: DirectorContext, runs: list[Any]) -> Iterator[str]:
    added: Counter[str] = Counter()
    for run in runs:
        added[run.storage] += run.stored_bytes
    for storage in sorted(name for name in added if name):
        whole = context.repository_bytes.get(storage)
        now = f", {whole / _GIB:,.2f} GiB in all" if whole is not None else ""
        yield f"{printable(storage)}: {added[storage] / _GIB:,.3f} GiB more{now}"
