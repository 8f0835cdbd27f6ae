"""`Run =`: what is a time and what is not."""

from __future__ import annotations

import pytest


def run_of(read, text, **options):
    reading = read(f"Schedule {{\n Name = s\n Run = {text}\n}}", **options)
    assert reading.errors == []
    return reading.typed("run")


@pytest.mark.parametrize(
    ("text", "sets"),
    [
        ("on 1 at 0:30", {"days": (1,), "hours": (0,), "minute": 30}),
        ("Full on 15 jan at 12:01am", {"days": (15,), "months": (1,), "hours": (0,), "minute": 1}),
        ("daily at 12:00pm", {"hours": (12,)}),
        ("hourly at 0:05", {"hours": tuple(range(24)), "minute": 5}),
        ("daily at 1:00 at 13:30", {"hours": (1, 13), "minute": 30}),
        ("mon,wed fri-sun at 1:00", {"weekdays": (0, 1, 3, 5, 6)}),
        ("nov-feb at 1:00", {"months": (1, 2, 11, 12)}),
        ("1/7 at 1:00", {"days": (1, 8, 15, 22, 29)}),
        ("w00/w02 sun at 1:00", {"weeks_of_year": tuple(range(0, 54, 2)), "weekdays": (0,)}),
        ("w50-w02 at 1:00", {"weeks_of_year": (0, 1, 2, 50, 51, 52, 53)}),
        ("28-3 at 1:00", {"days": (1, 2, 3, 28, 29, 30, 31)}),
        ("first, third sun at 1:00", {"weeks_of_month": (1, 3)}),
        ("2nd-5th sat at 1:00", {"weeks_of_month": (2, 3, 4, 5)}),
        ("last sun at 1:00", {"weeks_of_month": (), "last_week": True}),
        ("lastday at 1:00", {"days": (), "last_day": True, "last_week": False}),
        ("on 1,lastday at 1:00", {"days": (1,), "last_day": True}),
        ("mon-fri", {"hours": tuple(range(24)), "minute": 0, "weekdays": (1, 2, 3, 4, 5)}),
        ("Wednesday AT 23:59", {"weekdays": (3,), "hours": (23,), "minute": 59}),
    ],
)
def test_times(text, sets, read):
    run = run_of(read, text)
    assert {name: getattr(run, name) for name in sets} == sets


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Full", "needs a time"),
        ("", "no value"),
        ("Full 1 at 1:00", "cannot begin with the number 1"),
        ("Full sat 21:00", "needs the word `at`"),
        ("daily at 24:00", "not a time of day"),
        ("daily at 1:60", "not a time of day"),
        ("daily at 1:5", "two digits"),
        ("mon-mon at 1:00", "not a range"),
        ("mon-feb at 1:00", "not a range"),
        ("on 32 at 1:00", "out of range"),
        ("w54 at 1:00", "out of range"),
        ("on 5/2 at 1:00", "must not be larger"),
        ("on 1/0 at 1:00", "out of range"),
        ("mon at 1:00 Full", "must be before the time"),
        ("mon at 1:00 pool=x", "must be before the time"),
        ("pol=x mon at 1:00", "no override pol"),
        ("spooldata=maybe mon at 1:00", "takes yes or no"),
        ("priority=high mon at 1:00", "takes a number"),
        ("maxrunschedtime=2h mon at 1:00", "in quotes"),
        ("level=Fulll mon at 1:00", "no level Fulll"),
        ('mon "tue" at 1:00', "not part of a time"),
        ("someday at 1:00", "not part of a time"),
    ],
)
def test_what_is_no_time(text, why, read):
    reading = read(f"Schedule {{\n Name = s\n Run = {text}\n}}")
    assert len(reading.errors) == 1
    assert why in reading.errors[0]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("Incremantal mon at 1:00", "Incremental"),
        ("level=Fulll mon at 1:00", "Full"),
        ("Full satuday at 1:00", "saturday"),
        ("hourlly at 0:05", "hourly"),
        ("mon at 1:00 Full", ""),
        ("zzz at 1:00", ""),
    ],
)
def test_what_was_meant_is_told(text, meant, read):
    reading = read(f"Schedule {{\n Name = s\n Run = {text}\n}}")
    assert [one.suggestion for one in reading.loaded.diagnostics.sorted("error")] == [meant]


def test_a_run_must_end_before_the_brace(read):
    reading = read("Schedule { Name = s; Run = Full mon at 1:00 }")
    assert reading.codes("error") == ["run"]
    assert reading.resources == [["Schedule", [["Name", "s"]]]]


def test_a_number_before_a_comment_is_a_word_and_prints_as_a_day(read):
    from strongroom.config.trees.printer import format_text

    text = "Schedule {\n Name = s\n Run = Full 1# why\n}"
    assert read(text).typed("run").days == (1,)
    assert "  Run = Level=Full on 1  # why\n" in format_text(text, "director")
