"""Forget removes what the rules do not keep, group by group, and leaves what it was told to."""

import os

import pytest

from strongroom.base.errors import UsageError
from strongroom.base.progress import NullProgress
from strongroom.engine.prune.forget import ForgetOptions, ForgetReport, forget
from strongroom.engine.prune.retention import RetentionRules
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import Snapshot, find_snapshot, write_snapshot

DAY_NS = 86400 * 10**9
NOON_NS = 1_700_000_000 * 10**9


def at(day: float) -> int:
    return NOON_NS + round(day * DAY_NS)


def make(repository: Repository, day: float, received_day: int | None = None, **fields) -> str:
    """A snapshot begun on a day, which the store received on that day too unless said otherwise."""
    fields.setdefault("host", "host")
    fields.setdefault("paths", (b"home",))
    snapshot = Snapshot(start_ns=at(day), **fields)
    writer = repository.for_client(snapshot.host).writer
    made = write_snapshot(repository.store, writer, snapshot, repository.cipher)
    received_ns = at(day if received_day is None else received_day)
    path = os.path.join(repository.store.location, "snapshots", made.id)
    os.utime(path, ns=(received_ns, received_ns))
    return made.id


def run(repository: Repository, rules: RetentionRules | None = None, **options) -> ForgetReport:
    settings = ForgetOptions(rules or RetentionRules(), **options)
    return forget(repository, repository.snapshots(), settings, NullProgress())


def left(repository: Repository) -> set[str]:
    return {snapshot.id for snapshot in repository.snapshots()}


def test_rules_hold_for_each_host_and_set_of_paths_on_its_own(repository):
    kept = {
        make(repository, 1, host="a"),
        make(repository, 9, host="b"),
        make(repository, 5, host="b", paths=(b"etc",)),
    }
    make(repository, 8, host="b")
    run(repository, RetentionRules(last=1))
    assert left(repository) == kept


def test_without_groups_rules_hold_for_all_together(repository):
    make(repository, 1, host="a")
    newest = make(repository, 9, host="b")
    run(repository, RetentionRules(last=1), group_by=())
    assert left(repository) == {newest}


def test_a_clock_in_the_future_does_not_push_others_out(repository):
    good = [make(repository, day) for day in range(5)]
    # It counts from the day on which it was received.
    make(repository, 40_000, received_day=1)
    run(repository, RetentionRules(last=3))
    assert left(repository) == set(good[-3:])


def test_of_two_within_a_second_the_later_one_is_the_latest(repository):
    """Also where the store tells when it received them to the second, as S3 and SFTP do."""
    newer = {}
    for number in range(8):
        host = f"host{number}"
        made = [make(repository, tenth / 864_000, host=host) for tenth in (2, 6)]
        newer[host] = made[-1]
        for name in made:
            os.utime(
                os.path.join(repository.store.location, "snapshots", name), ns=(NOON_NS, NOON_NS)
            )
    for host, name in newer.items():
        mine = [one for one in repository.snapshots() if one.host == host]
        assert find_snapshot(mine, "latest").id == name
    run(repository, RetentionRules(last=1))
    assert left(repository) == set(newer.values())


def test_a_snapshot_that_lacks_a_named_path_displaces_none_that_has_it(repository):
    whole = make(repository, 1)
    lacking = make(repository, 1.001, missing_paths=1, paths=(b"home", b"etc"))
    assert run_by_day(repository) == {whole, lacking}
    # Nor do many, later on.
    later = [make(repository, day, missing_paths=1) for day in range(2, 9)]
    assert run_by_day(repository) == {whole, later[-1]}
    # Once it is back, those without it are no better than others.
    back = make(repository, 9)
    assert run_by_day(repository) == {back}


def run_by_day(repository: Repository) -> set[str]:
    run(repository, RetentionRules(daily=1), group_by=("host",))
    return left(repository)


def test_a_dry_run_gives_reasons_and_removes_nothing(repository):
    ids = {make(repository, day) for day in range(3)}
    report = run(repository, RetentionRules(daily=1), dry_run=True)
    assert left(repository) == ids
    assert report.removed_count == 2
    (group,) = report.groups
    assert [judged.reasons for judged in group.judged] == [
        ("daily 1 of 1 (2023-11-16)",),
        (),
        (),
    ]


def test_what_is_protected_or_younger_than_the_minimum_stays_even_if_named(repository):
    import time

    today = (time.time_ns() - NOON_NS) // DAY_NS
    protected = make(repository, 1, protected=True)
    young = make(repository, 2, received_day=today)
    old = make(repository, 3)
    run(repository, snapshot_ids=(protected, young, old), minimum_retention_seconds=7 * 86400)
    assert left(repository) == {protected, young}


def test_nothing_is_forgotten_without_a_rule(repository):
    make(repository, 1)
    with pytest.raises(UsageError, match="keep"):
        run(repository)


def test_a_group_does_not_lose_its_last_snapshot_to_a_rule_by_accident(repository):
    make(repository, 1, host="a", tags=("keep",))
    make(repository, 2, host="b")
    rules = RetentionRules(tags=(frozenset({"keep"}),))
    with pytest.raises(UsageError, match="host b"):
        run(repository, rules)
    assert len(left(repository)) == 2
    run(repository, rules, allow_remove_all=True)
    assert len(left(repository)) == 1
