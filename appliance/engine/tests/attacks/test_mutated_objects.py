"""A compromised agent changes texts of objects of every kind before it seals them.

Whatever comes of it, every job over all clients ends as it should, and the other client loses
nothing; what reads one of its snapshots gets one kind of error.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit.hostile_house import FILES, KINDS, HostileHouse, mutated
from kit.project import FUZZ
from kit.rows_strategy import page_groups
from kit.tiny_backup import read_back
from strongroom.engine.repository.listing.page import encode_page

HOUSE = HostileHouse()
CHANGES = st.tuples(st.sampled_from(KINDS), st.integers(0, 2**32))
FEW = settings(max_examples=8, suppress_health_check=list(HealthCheck))
MANY = settings(max_examples=1500, suppress_health_check=list(HealthCheck))


def test_what_nobody_changed_is_sound():
    house = HOUSE.fresh()
    house.run_all()
    assert house.store.unsure == set()
    assert read_back(house.whole, house.own.id)[b"two"] == FILES[b"two"]


def changed_objects(changes):
    house = HOUSE.fresh()
    for kind, seed in changes:
        house.add_changed(kind, lambda data, seed=seed: mutated(data, seed))
    house.run_all()


@FEW
@given(st.lists(CHANGES, min_size=1, max_size=3))
def test_changed_objects_stop_no_job(changes):
    changed_objects(changes)


@pytest.mark.slow
@MANY
@given(st.lists(CHANGES, min_size=1, max_size=3))
def test_many_changed_objects_stop_no_job(changes):
    changed_objects(changes)


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        # A second part of an index that no one could read again; a file mode that no kind has.
        ("chunks", 0),
        ("page", 55),
    ],
)
def test_what_once_stopped_a_job_does_not_any_more(kind, seed):
    changed_objects([(kind, seed)])


def test_inputs_that_a_fuzzer_found_stop_no_job():
    inputs = sorted((FUZZ / "corpus" / "jobs").iterdir())
    assert len(inputs) > 20
    for path in inputs:
        HOUSE.run_input(path.read_bytes())


def listed(groups):
    house = HOUSE.fresh()
    house.add_page(encode_page(groups))
    house.run_all()


@FEW
@given(page_groups())
def test_listings_of_impossible_files_stop_no_job(groups):
    listed(groups)


@pytest.mark.slow
@MANY
@given(page_groups())
def test_many_listings_of_impossible_files_stop_no_job(groups):
    listed(groups)
