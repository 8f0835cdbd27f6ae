"""Runs are remembered, and none begins that would end after the time."""

from __future__ import annotations

import pytest

from kit.virtual_time import VirtualTime
from strongroom.base import clock
from strongroom.cli.measure.tuning.journal import Journal, first_run_seconds
from strongroom.cli.measure.tuning.search import DEFAULTS, KnobChanges, Measurement, OutOfTimeError

OTHER = KnobChanges((("shards", 2),))
RUN = Measurement(60.0, 100, 100)


@pytest.fixture
def time(monkeypatch):
    return VirtualTime(monkeypatch, 0)


def journal_of(tmp_path, time, known, began):
    def measure(condition, most_seconds):
        time.pass_by(min(RUN.seconds, most_seconds))
        if most_seconds < RUN.seconds:
            raise OutOfTimeError
        return RUN

    return Journal(tmp_path / "state", measure, known, began)


def test_what_passed_before_the_first_run_counts(tmp_path, time):
    """Ten minutes, of which choosing the sample and warming up took eight."""
    began = clock.elapsed_seconds()
    time.pass_by(8 * 60)
    journal = journal_of(tmp_path, time, {}, began)
    journal.allow(10 * 60)
    assert (journal(DEFAULTS), journal(OTHER)) == (RUN, RUN)
    with pytest.raises(OutOfTimeError):
        journal(OTHER)


def test_one_run_is_made_in_any_case(tmp_path, time):
    began = clock.elapsed_seconds()
    time.pass_by(11 * 60)
    journal = journal_of(tmp_path, time, {}, began)
    journal.allow(10 * 60)
    assert journal(DEFAULTS) == RUN
    with pytest.raises(OutOfTimeError):
        journal(OTHER)


def test_a_run_that_hangs_ends_with_the_time(tmp_path, time):
    """The first may take the whole time, or a minute where that is more."""
    limits = []

    def measure(condition, most_seconds):
        limits.append(most_seconds)
        if condition == OTHER:
            raise OutOfTimeError
        time.pass_by(100)
        return RUN

    journal = Journal(tmp_path / "state", measure, {}, clock.elapsed_seconds())
    journal.allow(600)
    journal(DEFAULTS)
    time.pass_by(380)
    with pytest.raises(OutOfTimeError):
        journal(OTHER)
    # 120 s are left, of which the next is expected to take 100.
    assert limits == [600, 200]
    assert first_run_seconds(1) == 60


def test_what_is_remembered_takes_no_time(tmp_path, time):
    known = {DEFAULTS: [RUN, RUN]}
    journal = journal_of(tmp_path, time, known, clock.elapsed_seconds())
    journal.allow(90)
    assert [journal(one) for one in (DEFAULTS, DEFAULTS, OTHER)] == [RUN, RUN, RUN]
    with pytest.raises(OutOfTimeError):
        journal(DEFAULTS)
