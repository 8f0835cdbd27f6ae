"""Which snapshots rules of retention keep, and why.

Snapshots are judged newest first, in the calendar of the local time zone: an hour, a day, an ISO
week (Monday to Sunday), a month or a year is kept by its newest snapshot, and only periods that
have a snapshot count. An hour repeated by a change to winter time counts twice. `within` counts
back from the newest snapshot, not from now: if backups stop, nothing more is forgotten.

A snapshot that lacks a path that was named displaces none that has all of them, and one that
counts for nothing displaces none that counts: the rules apply to all snapshots, once more to those
that count, and once more to those of them that lack none. Of a folder that the newest one lacks
because it could not be listed, the newest snapshot that has it is kept.
"""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import UsageError

UNLIMITED: Final = -1

# The range of the C library's calendar is limited; times beyond it are clamped to the end.
_LATEST_SECOND: Final = 253_402_214_400
_DURATION_PART: Final = re.compile(r"(\d{1,6})\s*([a-z]+)\s*")
_UNIT_SECONDS: Final = {
    "s": 1,
    "sec": 1,
    "second": 1,
    "seconds": 1,
    "min": 60,
    "minute": 60,
    "minutes": 60,
    "h": 3600,
    "hour": 3600,
    "hours": 3600,
    "d": 86400,
    "day": 86400,
    "days": 86400,
    "w": 7 * 86400,
    "week": 7 * 86400,
    "weeks": 7 * 86400,
}
_UNIT_MONTHS: Final = {
    "m": 1,
    "month": 1,
    "months": 1,
    "y": 12,
    "year": 12,
    "years": 12,
}


class Duration(NamedTuple):
    """A span of the calendar: months vary in length, the rest is exact."""

    months: int
    seconds: int

    def before(self, moment_ns: int) -> int:
        """The time this span earlier, in the local time zone; ns since 1970."""
        if not self.months:
            return moment_ns - self.seconds * SECOND_NS
        local = _local(moment_ns)
        month_number = local.tm_year * 12 + local.tm_mon - 1 - self.months
        year, month = divmod(month_number, 12)
        if year < 1:
            return -_LATEST_SECOND * SECOND_NS
        day = min(local.tm_mday, calendar.monthrange(year, month + 1)[1])
        clock_time = (local.tm_hour, local.tm_min, local.tm_sec)
        try:
            seconds = int(time.mktime((year, month + 1, day, *clock_time, 0, 0, -1)))
        except OverflowError:
            return -_LATEST_SECOND * SECOND_NS
        return (seconds - self.seconds) * SECOND_NS + moment_ns % SECOND_NS


def parse_duration(text: str) -> Duration:
    """A duration such as `30d`, `1y6m`, `2 weeks`, `12h`; `m` is a month. Raises UsageError."""
    rest = text.strip().lower()
    months = seconds = 0
    while rest:
        part = _DURATION_PART.match(rest)
        unit = part.group(2) if part else ""
        if not part or (unit not in _UNIT_SECONDS and unit not in _UNIT_MONTHS):
            break
        count = int(part.group(1))
        months += count * _UNIT_MONTHS.get(unit, 0)
        seconds += count * _UNIT_SECONDS.get(unit, 0)
        rest = rest[part.end() :]
    if rest or not text.strip():
        raise UsageError(
            f"{text!r} is not a duration; write for example 36h, 30d, 8w, 6m (months) or 1y6m"
        )
    return Duration(months, seconds)


class RetentionRules(msgspec.Struct, frozen=True):
    """What to keep; a count is a number of periods, UNLIMITED for all, 0 for none.

    tags: each a set of tags; a snapshot that has all tags of one set is kept.
    """

    last: int = 0
    hourly: int = 0
    daily: int = 0
    weekly: int = 0
    monthly: int = 0
    yearly: int = 0
    within: Duration | None = None
    tags: tuple[frozenset[str], ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether no rule keeps anything."""
        counts = (self.last, self.hourly, self.daily, self.weekly, self.monthly, self.yearly)
        return not any(counts) and self.within is None and not self.tags


class Candidate(NamedTuple):
    """A snapshot for the rules; `time_ns`: its start, but no later than the store received it.

    lacks_paths: whether a path that was named was not there. counts: False for what a failed run
    stored, and what a run stored besides its snapshot. unread_marks: as of `Snapshot`.
    """

    snapshot_id: str
    time_ns: int
    tags: frozenset[str]
    lacks_paths: bool = False
    counts: bool = True
    unread_marks: frozenset[bytes] = frozenset()


def reasons_to_keep(candidates: Sequence[Candidate], rules: RetentionRules) -> dict[str, list[str]]:
    """For each snapshot id the reasons to keep it; empty: no rule keeps it."""
    reasons = _reasons(candidates, rules)
    counted = [item for item in candidates if item.counts]
    whole = [item for item in counted if not item.lacks_paths]
    for some, rest, what in (
        (counted, candidates, "of a good run"),
        (whole, counted, "with all its paths"),
    ):
        if len(some) < len(rest):
            for snapshot_id, found in _reasons(some, rules).items():
                if not reasons[snapshot_id]:
                    reasons[snapshot_id] = [f"{reason} {what}" for reason in found]
    for snapshot_id in _last_with_unread(_newest_first(counted)):
        if not reasons[snapshot_id]:
            reasons[snapshot_id] = ["newest with a folder that could not be listed since"]
    return reasons


def _last_with_unread(newest_first: Sequence[Candidate]) -> list[str]:
    """Ids of the newest snapshots with folders that were unread from the newest one back."""
    found = []
    unread: frozenset[bytes] = newest_first[0].unread_marks if newest_first else frozenset()
    for item in newest_first:
        if not unread:
            break
        if unread - item.unread_marks:
            found.append(item.snapshot_id)
        unread &= item.unread_marks
    return found


def _newest_first(candidates: Sequence[Candidate]) -> list[Candidate]:
    return sorted(candidates, key=lambda item: (-item.time_ns, item.snapshot_id))


def _reasons(candidates: Sequence[Candidate], rules: RetentionRules) -> dict[str, list[str]]:
    newest_first = _newest_first(candidates)
    reasons: dict[str, list[str]] = {item.snapshot_id: [] for item in newest_first}
    if not newest_first:
        return reasons
    for rule in _calendar_rules(rules):
        if not rule.limit:
            continue
        seen = 0
        last_period: object = None
        for item in newest_first:
            period, shown = rule.period(item)
            if period == last_period:
                continue
            last_period = period
            seen += 1
            of = "" if rule.limit == UNLIMITED else f" of {rule.limit}"
            what = f" ({shown})" if shown else ""
            reasons[item.snapshot_id].append(f"{rule.name} {seen}{of}{what}")
            if seen == rule.limit:
                break
    if rules.within is not None:
        earliest_ns = rules.within.before(newest_first[0].time_ns)
        for item in newest_first:
            if item.time_ns >= earliest_ns:
                reasons[item.snapshot_id].append("within --keep-within")
    for wanted in rules.tags:
        for item in newest_first:
            if wanted <= item.tags:
                reasons[item.snapshot_id].append(f"tag {','.join(sorted(wanted))}")
    return reasons


class _CalendarRule(NamedTuple):
    name: str
    limit: int
    period: Callable[[Candidate], tuple[object, str]]


def _calendar_rules(rules: RetentionRules) -> tuple[_CalendarRule, ...]:
    return (
        _CalendarRule("last", rules.last, lambda item: (item.snapshot_id, "")),
        _CalendarRule("hourly", rules.hourly, _hour),
        _CalendarRule("daily", rules.daily, _day),
        _CalendarRule("weekly", rules.weekly, _week),
        _CalendarRule("monthly", rules.monthly, _month),
        _CalendarRule("yearly", rules.yearly, _year),
    )


def _local(time_ns: int) -> time.struct_time:
    seconds = time_ns // SECOND_NS
    return time.localtime(min(max(seconds, -_LATEST_SECOND // 10), _LATEST_SECOND))


def _hour(item: Candidate) -> tuple[object, str]:
    local = _local(item.time_ns)
    # The offset distinguishes the hour that a change to winter time repeats.
    return (local[:4], local.tm_gmtoff), time.strftime("%Y-%m-%d %H:00", local)


def _day(item: Candidate) -> tuple[object, str]:
    local = _local(item.time_ns)
    return local[:3], time.strftime("%Y-%m-%d", local)


def _week(item: Candidate) -> tuple[object, str]:
    shown = time.strftime("%G-W%V", _local(item.time_ns))
    return shown, shown


def _month(item: Candidate) -> tuple[object, str]:
    local = _local(item.time_ns)
    return local[:2], time.strftime("%Y-%m", local)


def _year(item: Candidate) -> tuple[object, str]:
    local = _local(item.time_ns)
    return local.tm_year, time.strftime("%Y", local)
