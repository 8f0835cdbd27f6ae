"""Priorities, limits and duplicates, as pure decisions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strongroom.config.settings.job import DuplicateRules
from strongroom.director.results.runs import Run
from strongroom.director.runs.dispatch import ConcurrencyLimits, Contender, choose, judge

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
            has_priority=draw(st.booleans()),
            is_housekeeping=draw(st.booleans()),
            is_idle=draw(st.booleans()),
            is_lost=draw(st.booleans()),
            is_background=draw(st.booleans()),
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
    # What is in the background counts for its job alone.
    together = [one for one in running + started if not one.is_background]
    if [one for one in started if not one.is_background]:
        assert len([one for one in together if not one.is_lost]) <= limits.director
    for job, most in limits.jobs.items():
        begun = [one for one in started if one.job == job]
        assert not begun or len([one for one in running + started if one.job == job]) <= most
    for one in started:
        if one.is_background:
            continue
        for name, attribute, most in (
            (one.client, "client", limits.clients),
            (one.storage, "storage", limits.storages),
            (one.job, "job", limits.jobs),
        ):
            counted = [other for other in together if attribute != "storage" or not other.is_lost]
            if name in most:
                assert sum(getattr(other, attribute) == name for other in counted) <= most[name]
        reads = limits.storage_reads.get(one.storage)
        if one.reads and reads and not one.is_lost:
            same = [
                other
                for other in together
                if other.reads and other.storage == one.storage and not other.is_lost
            ]
            assert len(same) <= reads


@given(candidates("w"), candidates("r"))
def test_priorities_are_mixed_only_by_those_that_allow_it(waiting, running):
    decision = choose(waiting, running, ConcurrencyLimits(director=100))
    started = [one for one in waiting if one.id in decision.start]
    for one in started:
        met = [
            other for other in running if other.meets(one) and not (other.is_idle or other.is_lost)
        ]
        assert not [other for other in met if other.priority < one.priority]
        if any(other.priority > one.priority for other in met):
            assert one.allows_mixed
            assert all(other.allows_mixed for other in met)
    if not running and waiting:
        # Something always starts, and nothing of a higher number before all of lower ones.
        first = min(one.priority for one in waiting)
        assert {one.id for one in waiting if one.priority == first} <= set(decision.start)


@given(candidates("w"))
def test_a_run_held_back_by_a_limit_is_not_overtaken_by_those_that_meet_it(waiting):
    decision = choose(waiting, [], ConcurrencyLimits(director=2))
    for held in (one for one in waiting if one.id in decision.reasons):
        for one in waiting:
            if one.id in decision.start and one.meets(held):
                assert one.priority <= held.priority


def contender(run: str, client: str, priority: int = 10, **fields) -> Contender:
    return Contender(run, run, client, "vault", priority, **fields)


def starts(waiting: Contender, *running: Contender, most: int = 100) -> bool:
    limits = ConcurrencyLimits(director=most, storages={"vault": most})
    return waiting.id in choose([waiting], running, limits).start


def test_a_run_waits_for_the_priority_of_its_own_client_and_of_housekeeping_alone():
    backup = contender("backup", "a")
    assert not starts(contender("later", "a", 20), backup)
    assert starts(contender("later", "b", 20), backup)
    # What the director does for a client is of that client.
    assert not starts(contender("verify", "", 20, about="a"), backup)
    assert not starts(contender("prune", "", 20, is_housekeeping=True), backup)
    prune = contender("prune", "", 20, is_housekeeping=True)
    assert not starts(contender("backup", "b"), prune)


def test_a_restore_waits_for_no_priority_and_holds_up_none():
    prune = contender("prune", "", 5, is_housekeeping=True)
    restore = contender("restore", "a", has_priority=False)
    assert starts(restore, prune, contender("backup", "a", 5))
    assert starts(contender("other", "a", 20), restore)


def test_a_run_that_makes_no_progress_or_is_lost_holds_up_nothing_but_its_own_client():
    prune = contender("prune", "", 20, is_housekeeping=True)
    assert starts(prune, contender("idle", "a", 5, is_idle=True))
    lost = contender("lost", "a", 5, is_lost=True)
    assert starts(prune, lost)
    assert starts(contender("backup", "b"), lost, most=1)
    limits = ConcurrencyLimits(director=9, clients={"a": 1})
    assert choose([contender("again", "a")], [lost], limits).start == ()


def record(run_id: str, level: str, state: str = "queued", **fields) -> Run:
    return Run(
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
