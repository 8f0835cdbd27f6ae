"""Due times agree with a reference that walks through time minute by minute."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strongroom.base.errors import UsageError
from strongroom.config.model import ComponentConfiguration
from strongroom.config.settings.schedule import ScheduleSettings
from strongroom.config.trees.loader import LoadOptions, load_text
from strongroom.config.values.run_schedule import ScheduleRun
from strongroom.director.schedule.due_times import (
    due_times_ns,
    entry_digest,
    last_due_ns,
    next_due_ns,
    time_zone,
)

SECOND_NS = 1_000_000_000


@lru_cache(maxsize=256)
def run_of(text: str) -> ScheduleRun:
    loaded = load_text(f'Schedule {{ Name = "s"\n Run = {text}\n }}', "director", LoadOptions())
    assert not loaded.diagnostics.has_errors, text
    schedule = ComponentConfiguration(loaded.trees["director"]).of_type("Schedule")["s"]
    return ScheduleSettings.of(schedule).runs[0]


def moment_ns(text: str, zone: str = "UTC") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()) * SECOND_NS


def shown(moment: int | None, zone: str = "UTC") -> str:
    assert moment is not None
    return datetime.fromtimestamp(moment // SECOND_NS, ZoneInfo(zone)).isoformat(" ", "minutes")


def naive_due(entry: ScheduleRun, start: datetime, minutes: int, zone: ZoneInfo) -> list[int]:
    """Walk through time; local minutes that the clock jumps over are dealt with where it lands."""

    def holds(local: datetime) -> bool:
        last_of_month = (local.replace(day=28) + timedelta(days=4)).replace(day=1) - timedelta(
            days=1
        )
        return (
            local.hour in entry.hours
            and local.minute == entry.minute
            and local.month in entry.months
            and (
                local.day in entry.days or (entry.last_day and local.date() == last_of_month.date())
            )
            and int(local.strftime("%w")) in entry.weekdays
            and int(local.strftime("%V")) in entry.weeks_of_year
            and (
                any((n - 1) * 7 < local.day <= n * 7 for n in entry.weeks_of_month)
                or (entry.last_week and (last_of_month.date() - local.date()).days < 7)
            )
        )

    is_hourly = entry.hours == tuple(range(24))
    minute = timedelta(minutes=1)
    # Enough before the start for a jump back just before it to be known.
    moment = start - timedelta(days=2)
    latest = moment.astimezone(zone).replace(tzinfo=None) - minute
    due = []
    for _ in range(minutes + 2 * 24 * 60):
        local = moment.astimezone(zone).replace(tzinfo=None)
        if is_hourly:
            is_due = holds(local)
        else:
            is_due = False
            while latest < local:
                latest += minute
                is_due = is_due or holds(latest)
        if is_due and moment > start:
            due.append(int(moment.timestamp()) * SECOND_NS)
        moment += minute
    return due


WORDS = {
    "weekday": st.sampled_from(["mon", "sun", "mon-fri", "sat,sun", "fri-tue"]),
    "position": st.sampled_from(["1st", "2nd-4th", "5th", "last", "1st,last"]),
    "month": st.sampled_from(["mar", "oct", "jan-jun", "nov-feb"]),
    "day": st.sampled_from(["on 1", "on 25-31", "on 2/3", "on 29-2", "lastday", "on 2,lastday"]),
    "week": st.sampled_from(["w01-w13", "w53", "w10-w44", "w40-w02", "w00/w02"]),
    "time": st.sampled_from(
        [
            "at 0:00",
            "at 0:30",
            "at 2:00",
            "at 2:30",
            "at 1:59",
            "at 23:59",
            "at 12:15 at 2:15",
            "hourly",
            "hourly at 3:17",
            "at 1:30 at 2:30 at 3:30",
        ]
    ),
}


@st.composite
def entries(draw) -> str:
    kinds = draw(
        st.lists(
            st.sampled_from(["weekday", "position", "month", "day", "week"]),
            unique=True,
            max_size=2,
        )
    )
    return " ".join(["daily", *(draw(WORDS[kind]) for kind in kinds), draw(WORDS["time"])])


# Days around changes of clocks: usual ones, by half an hour, at midnight, and a day left out.
CHANGES = [
    ("Europe/Berlin", "2026-03-29"),
    ("Europe/Berlin", "2026-10-25"),
    ("America/New_York", "2026-03-08"),
    ("America/New_York", "2026-11-01"),
    ("Australia/Lord_Howe", "2026-10-04"),
    ("Australia/Lord_Howe", "2026-04-05"),
    ("America/Santiago", "2025-09-07"),
    ("America/Santiago", "2026-04-05"),
    ("Pacific/Apia", "2011-12-30"),
    ("Africa/Casablanca", "2026-02-15"),
    ("Asia/Kathmandu", "2026-05-31"),
    ("UTC", "2026-12-31"),
    ("UTC", "2028-02-29"),
]


@settings(max_examples=60)
@given(entries(), st.sampled_from(CHANGES), st.integers(0, 2 * 24 * 60))
def test_due_times_are_those_of_a_walk_through_time(text, change, offset):
    name, day = change
    zone = ZoneInfo(name)
    start = datetime.fromisoformat(day).replace(tzinfo=UTC) - timedelta(minutes=offset)
    minutes = 4 * 24 * 60
    start_ns = int(start.timestamp()) * SECOND_NS
    until_ns = start_ns + (minutes - 1) * 60 * SECOND_NS
    entry = run_of(text)
    due = list(due_times_ns(entry, start_ns, until_ns, zone))
    assert due == naive_due(entry, start, minutes, zone)
    assert last_due_ns(entry, start_ns, until_ns, zone) == (due[-1] if due else None)


@settings(max_examples=200)
@given(
    entries(),
    st.sampled_from(sorted({name for name, _ in CHANGES})),
    st.integers(moment_ns("1990-01-01") // SECOND_NS, moment_ns("2037-01-01") // SECOND_NS),
)
def test_the_next_due_time_is_later_and_nothing_lies_between(text, name, seconds):
    zone = ZoneInfo(name)
    entry = run_of(text)
    after_ns = seconds * SECOND_NS
    due = next_due_ns(entry, after_ns, zone)
    assert due is None or due > after_ns
    if due is not None:
        assert next_due_ns(entry, due - 1, zone) == due
        halfway = after_ns + (due - after_ns) // 2
        assert next_due_ns(entry, halfway, zone) == due
        if due - after_ns < 300 * 86400 * SECOND_NS:
            assert last_due_ns(entry, after_ns, due, zone) == due


def test_a_nightly_run_is_not_lost_when_summer_begins():
    entry = run_of("daily at 2:30")
    due = list(
        due_times_ns(
            entry, moment_ns("2026-03-28"), moment_ns("2026-03-31"), ZoneInfo("Europe/Berlin")
        )
    )
    assert [shown(moment, "Europe/Berlin") for moment in due] == [
        "2026-03-28 02:30+01:00",
        "2026-03-29 03:00+02:00",
        "2026-03-30 02:30+02:00",
    ]


def test_a_nightly_run_is_not_made_twice_when_winter_begins():
    entry = run_of("daily at 2:30")
    due = list(
        due_times_ns(
            entry, moment_ns("2026-10-24"), moment_ns("2026-10-26"), ZoneInfo("Europe/Berlin")
        )
    )
    assert [shown(moment, "Europe/Berlin") for moment in due] == [
        "2026-10-24 02:30+02:00",
        "2026-10-25 02:30+02:00",
    ]


@pytest.mark.parametrize(("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25)])
def test_an_hourly_run_is_made_each_hour_that_there_is(day, hours):
    zone = "Europe/Berlin"
    start = moment_ns(day, zone)
    end = start + hours * 3600 * SECOND_NS
    due = list(due_times_ns(run_of("hourly at 0:05"), start, end, ZoneInfo(zone)))
    assert len(due) == hours
    assert {b - a for a, b in pairwise(due)} == {3600 * SECOND_NS}


def test_a_gap_into_which_two_times_fall_is_one_run():
    entry = run_of("daily at 2:30 at 3:30")
    due = list(
        due_times_ns(
            entry, moment_ns("2011-12-28"), moment_ns("2012-01-01"), ZoneInfo("Pacific/Apia")
        )
    )
    texts = [shown(moment, "Pacific/Apia") for moment in due]
    # All of 30 December was left out there; its two times are one at the end of the gap.
    assert texts.count("2011-12-31 00:00+14:00") == 1


@pytest.mark.parametrize(
    ("text", "after", "expected"),
    [
        ("1st sun at 2:05", "2026-11-01 02:05", "2026-12-06 02:05"),
        ("last sat at 4:00", "2026-11-21", "2026-11-28 04:00"),
        ("on 31 at 1:00", "2026-11-01", "2026-12-31 01:00"),
        ("feb on 29 at 1:00", "2026-11-01", "2028-02-29 01:00"),
        ("w53 mon at 1:00", "2026-11-01", "2026-12-28 01:00"),
        ("mon-fri at 21:00", "2026-11-20 21:00", "2026-11-23 21:00"),
        ("hourly", "2026-11-20 21:00", "2026-11-20 22:00"),
    ],
)
def test_sets_of_the_calendar_hold_together(text, after, expected):
    due = next_due_ns(run_of(text), moment_ns(after), ZoneInfo("UTC"))
    assert shown(due) == shown(moment_ns(expected))


def test_what_never_comes_is_never_due():
    zone = ZoneInfo("UTC")
    for text in ("feb on 30 at 1:00", "w00 at 1:00"):
        assert next_due_ns(run_of(text), moment_ns("2026-11-21"), zone) is None
        assert last_due_ns(run_of(text), 0, moment_ns("2026-11-21"), zone) is None


def test_the_end_of_the_calendar_ends_the_search():
    assert (
        next_due_ns(run_of("feb on 30 at 1:00"), moment_ns("9999-11-21"), ZoneInfo("UTC")) is None
    )


def test_a_digest_tells_entries_apart_but_not_their_order():
    digests = {
        entry_digest(run_of(text))
        for text in ("daily at 2:30", "daily at 2:31", "Full daily at 2:30")
    }
    assert len(digests) == 3
    assert entry_digest(run_of("at 2:30 daily")) == entry_digest(run_of("daily at 2:30"))


def test_a_zone_that_there_is_not_is_refused():
    assert time_zone("Europe/Berlin").key == "Europe/Berlin"
    assert time_zone("") is time_zone("")
    for name in ("Europe/Atlantis", "../etc/passwd", "/etc/passwd"):
        with pytest.raises(UsageError):
            time_zone(name)


WITHOUT_ZONES = """
import sys
sys.modules["tzdata"] = None
from datetime import datetime
from strongroom.director.schedule import due_times as schedule
schedule._LOCAL_ZONE_FILE = "/nowhere"
noon = datetime(2026, 7, 1, 12, tzinfo=schedule.time_zone(""))
print(noon.isoformat(), noon.tzname())
schedule.time_zone("Europe/Vienna")
"""


def test_a_host_that_knows_no_zones_goes_by_utc():
    environment = {**os.environ, "PYTHONTZPATH": ""}
    command = [sys.executable, "-c", WITHOUT_ZONES]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert said.stdout == "2026-07-01T12:00:00+00:00 UTC\n"
    assert "'Europe/Vienna'" in said.stderr
    assert "tzdata" in said.stderr
