"""Priorities, limits and duplicates, as pure decisions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strongroom.config.settings.job import DuplicateRules
from strongroom.daemons.director.catalog.runs import RunRecord
from strongroom.daemons.director.runs.dispatch import ConcurrencyLimits, Contender, choose
from strongroom.daemons.director.runs.duplicates import judge

NAMES = ("a", "b", "c")


@st.composite
def candidates(draw, prefix: str) -> list[Contender]:
    return [
        Contender(
            id=f"{prefix}{number}",
            job=draw(st.sampled_from(NAMES)),
            client=draw(st.sampled_from((*NAMES, ""))),
            storage=draw(st.sampled_from((*NAMES, ""))),
            priority=draw(st.sampled_from((5, 10, 20))),
            reads=draw(st.booleans()),
            allows_mixed=draw(st.booleans()),
        )
        for number in range(draw(st.integers(0, 8)))
    ]


some = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 3))


@given(
    candidates("w"),
    candidates("r"),
    st.builds(ConcurrencyLimits, st.integers(1, 6), some, some, some, some),
)
def test_no_limit_is_passed_and_every_run_that_waits_has_a_reason(waiting, running, limits):
    decision = choose(waiting, running, limits)
    assert {*decision.start, *decision.reasons} == {one.id for one in waiting}
    assert not set(decision.start) & set(decision.reasons)
    assert all(decision.reasons.values())
    started = [one for one in waiting if one.id in decision.start]
    together = running + started
    if started:
        assert len(together) <= limits.director
    for one in started:
        for name, attribute, most in (
            (one.client, "client", limits.clients),
            (one.storage, "storage", limits.storages),
            (one.job, "job", limits.jobs),
        ):
            if name in most:
                assert sum(getattr(other, attribute) == name for other in together) <= most[name]
        reads = limits.storage_reads.get(one.storage)
        if one.reads and reads:
            same = [other for other in together if other.reads and other.storage == one.storage]
            assert len(same) <= reads


@given(candidates("w"), candidates("r"))
def test_priorities_are_mixed_only_by_those_that_allow_it(waiting, running):
    decision = choose(waiting, running, ConcurrencyLimits(director=100))
    started = [one for one in waiting if one.id in decision.start]
    for one in started:
        lower = [other for other in running if other.priority < one.priority]
        assert not lower
        if any(other.priority > one.priority for other in running):
            assert one.allows_mixed
            assert all(other.allows_mixed for other in running)
    if not running and waiting:
        # Something always starts, and nothing of a higher number before all of lower ones.
        assert decision.start
        first = min(one.priority for one in waiting)
        assert {one.id for one in waiting if one.priority == first} <= set(decision.start)


@given(candidates("w"))
def test_a_run_held_back_by_a_limit_is_not_overtaken_by_higher_numbers(waiting):
    decision = choose(waiting, [], ConcurrencyLimits(director=2))
    started = [one.priority for one in waiting if one.id in decision.start]
    held = [one.priority for one in waiting if one.id in decision.reasons]
    assert not started or not held or max(started) <= min(held)


def record(run_id: str, level: str, state: str = "queued", **fields) -> RunRecord:
    return RunRecord(
        **{"id": run_id, "job": "j", "client": "c", "kind": "backup"} | fields,
        level=level,
        state=state,
    )


def judged(new: str, old: str, state: str, **rules) -> tuple[bool, bool]:
    """Whether the old one is cancelled, and whether the new one is refused."""
    verdict = judge(
        record("2", new), [record("1", old, state)], DuplicateRules(allow=False, **rules)
    )
    return bool(verdict.cancelled), bool(verdict.refusal)


def test_duplicates_are_judged_as_bareos_does():
    assert judged("full", "full", "running") == (False, True)
    assert judged("full", "full", "queued", cancel_queued=True) == (True, False)
    assert judged("full", "full", "running", cancel_queued=True) == (False, True)
    assert judged("full", "full", "running", cancel_running=True) == (True, False)
    assert judged("full", "full", "waiting", cancel_running=True) == (False, True)
    lower = {"cancel_lower_level": True}
    assert judged("full", "incremental", "running", **lower) == (True, False)
    assert judged("incremental", "full", "running", **lower) == (False, True)
    assert judged("incremental", "full", "queued", cancel_queued=True, **lower) == (False, True)
    assert judged("full", "full", "queued", cancel_queued=True, **lower) == (True, False)


def test_only_runs_of_the_same_job_client_and_kind_are_duplicates():
    rules = DuplicateRules(allow=False)
    for other in ({"job": "x"}, {"client": "x"}, {"kind": "verify"}):
        assert judge(record("2", "full"), [record("1", "full", **other)], rules).refusal == ""
    assert judge(record("2", "full"), [record("1", "full")], DuplicateRules()).refusal == ""
