"""Rules of retention keep what they say, in the local calendar, and give their reasons."""

import calendar
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom.base.errors import UsageError
from strongroom.engine.prune.retention import (
    UNLIMITED,
    Candidate,
    Duration,
    RetentionRules,
    parse_duration,
    reasons_to_keep,
)

SECOND_NS = 1_000_000_000


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # The rule itself, so that the test needs no time zone database.
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def at(text: str, *tags: str, utc: bool = False) -> Candidate:
    moment = datetime.strptime(text, "%Y-%m-%d %H:%M").replace(tzinfo=UTC)
    parts = (*moment.timetuple()[:8], -1)
    seconds = calendar.timegm(parts) if utc else time.mktime(parts)
    return Candidate(text, int(seconds) * SECOND_NS, frozenset(tags))


def kept(candidates: list[Candidate], rules: RetentionRules) -> list[str]:
    return sorted(name for name, reasons in reasons_to_keep(candidates, rules).items() if reasons)


def test_the_newest_of_each_day_is_kept_and_days_without_a_snapshot_do_not_count(berlin):
    candidates = [
        at("2026-03-01 08:00"),
        at("2026-03-01 20:00"),
        at("2026-03-05 09:00"),
        at("2026-03-09 09:00"),
        at("2026-03-09 23:59"),
    ]
    rules = RetentionRules(daily=2)
    assert kept(candidates, rules) == ["2026-03-05 09:00", "2026-03-09 23:59"]
    reasons = reasons_to_keep(candidates, rules)
    assert reasons["2026-03-09 23:59"] == ["daily 1 of 2 (2026-03-09)"]
    assert reasons["2026-03-05 09:00"] == ["daily 2 of 2 (2026-03-05)"]


def test_midnight_is_that_of_the_local_time_zone(berlin):
    candidates = [at("2026-07-01 22:30", utc=True), at("2026-07-01 21:30", utc=True)]
    assert kept(candidates, RetentionRules(daily=2)) == ["2026-07-01 21:30", "2026-07-01 22:30"]
    assert kept(candidates, RetentionRules(daily=1)) == ["2026-07-01 22:30"]


def test_the_hour_that_winter_time_repeats_counts_twice(berlin):
    summer, winter = at("2026-10-25 00:30", utc=True), at("2026-10-25 01:30", utc=True)
    assert kept([summer, winter], RetentionRules(hourly=2)) == [
        "2026-10-25 00:30",
        "2026-10-25 01:30",
    ]


def test_weeks_begin_on_monday_and_belong_to_the_year_of_their_thursday(berlin):
    sunday, monday = at("2025-12-28 12:00"), at("2025-12-29 12:00")
    new_year = at("2026-01-01 12:00")
    rules = RetentionRules(weekly=5)
    assert kept([sunday, monday, new_year], rules) == ["2025-12-28 12:00", "2026-01-01 12:00"]
    assert reasons_to_keep([new_year], rules)["2026-01-01 12:00"] == ["weekly 1 of 5 (2026-W01)"]


def test_within_counts_from_the_newest_snapshot_so_that_old_backups_outlive_a_dead_client(berlin):
    candidates = [at("2001-01-01 12:00"), at("2001-01-20 12:00"), at("2001-02-01 12:00")]
    assert kept(candidates, RetentionRules(within=parse_duration("14d"))) == [
        "2001-01-20 12:00",
        "2001-02-01 12:00",
    ]


def test_a_month_before_the_last_of_march_is_the_last_of_february(berlin):
    march = at("2026-03-31 12:00")
    assert Duration(1, 0).before(march.time_ns) == at("2026-02-28 12:00").time_ns
    # The same clock time although an hour was skipped in between.
    assert Duration(1, 0).before(at("2026-04-15 12:00").time_ns) == at("2026-03-15 12:00").time_ns


def test_a_set_of_tags_keeps_snapshots_that_have_them_all():
    candidates = [at("2026-01-01 00:00", "a"), at("2026-01-02 00:00", "a", "b")]
    both = RetentionRules(tags=(frozenset("ab"),))
    assert kept(candidates, both) == ["2026-01-02 00:00"]
    either = RetentionRules(tags=(frozenset("a"), frozenset("b")))
    assert len(kept(candidates, either)) == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("36h", Duration(0, 36 * 3600)),
        ("1y6m", Duration(18, 0)),
        ("2 weeks 1 day", Duration(0, 15 * 86400)),
        ("90MIN", Duration(0, 5400)),
    ],
)
def test_durations_are_read(text: str, expected: Duration):
    assert parse_duration(text) == expected


@pytest.mark.parametrize("text", ["", " ", "7", "d", "3 fortnights", "1d-2h", "9999999d"])
def test_what_is_no_duration_is_refused(text: str):
    with pytest.raises(UsageError, match="duration"):
        parse_duration(text)


LIMITS = st.one_of(st.just(UNLIMITED), st.integers(0, 12))
TIMES = st.integers(-(10**10) * SECOND_NS, 10**14 * SECOND_NS)


@given(
    times=st.lists(TIMES, unique=True, max_size=40),
    rules=st.builds(
        RetentionRules,
        last=LIMITS,
        hourly=LIMITS,
        daily=LIMITS,
        weekly=LIMITS,
        monthly=LIMITS,
        yearly=LIMITS,
        within=st.none() | st.builds(Duration, st.integers(0, 5000), st.integers(0, 10**9)),
    ),
)
def test_any_rule_keeps_the_newest_and_no_rule_keeps_more_than_its_number(times, rules):
    candidates = [Candidate(str(time_ns), time_ns, frozenset()) for time_ns in times]
    reasons = reasons_to_keep(candidates, rules)
    assert set(reasons) == {str(time_ns) for time_ns in times}
    if times and not rules.is_empty:
        assert reasons[str(max(times))]
    for name in ("last", "hourly", "daily", "weekly", "monthly", "yearly"):
        limit = getattr(rules, name)
        found = sum(reason.startswith(name) for some in reasons.values() for reason in some)
        assert limit == UNLIMITED or found <= limit
        if name == "last" and limit != UNLIMITED:
            assert found == min(limit, len(times))


@given(st.lists(TIMES, unique=True, max_size=30), st.integers(1, 5))
def test_forgetting_twice_forgets_no_more_than_forgetting_once(times, number):
    rules = RetentionRules(last=number, daily=number, monthly=number, yearly=number)
    candidates = [Candidate(str(time_ns), time_ns, frozenset()) for time_ns in times]
    first = kept(candidates, rules)
    again = kept([item for item in candidates if item.snapshot_id in first], rules)
    assert again == first


def test_the_newest_snapshot_with_a_folder_that_was_not_listed_since_is_kept() -> None:
    marks = [{b"a", b"b", b"always"}, {b"a", b"always"}, {b"always"}, {b"always", b"b"}]
    candidates = [
        Candidate(str(number), -number, frozenset(), unread_marks=frozenset(unread))
        for number, unread in enumerate(marks)
    ]
    reasons = reasons_to_keep(candidates, RetentionRules(last=1))
    # b was last there in 1, a in 2; what was never there keeps nothing.
    assert [one for one in reasons if reasons[one]] == ["0", "1", "2"]
