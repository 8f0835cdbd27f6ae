"""Counted part by part, prune decides as it does with all blocks in memory."""

import random
import weakref
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from kit import tiny_backup
from kit.memory_store import MemoryStore
from kit.tiny_backup import THOROUGH, TinyBackup, back_up, new_repository, read_back
from strongroom.base.progress import NullProgress
from strongroom.engine.check.check import CheckOptions, DataSubset, check
from strongroom.engine.prune import prune as prune_module
from strongroom.engine.prune.marking import Marker
from strongroom.engine.prune.prune import prune
from strongroom.engine.prune.prune_plan import plan_prune
from strongroom.engine.prune.range_counts import Counting, batches
from strongroom.engine.repository.index.index import Index, IndexState
from strongroom.engine.repository.index.objects import read_index_object, write_index_object
from strongroom.engine.repository.index.selection import IdRange
from strongroom.engine.repository.packs import KIND_DATA
from strongroom.engine.repository.tombstones import write_tombstone
from strongroom.engine.stores.object_lock import LocksObjects

# Some parts: of twenty blocks, as they are estimated.
PARTS = replace(THOROUGH, memory_bytes=6000)
NOTHING = NullProgress()


@pytest.fixture
def repository():
    made = new_repository(MemoryStore())
    yield made
    made.close()


def files(rng, count):
    numbers = rng.sample(range(60), count)
    return {b"file%d" % one: random.Random(one).randbytes(200 + one) for one in numbers}


def decided(repository, options):
    marker = Marker(repository, NOTHING)
    plan = plan_prune(repository.for_all_clients(), marker, None, options, NOTHING)
    usages = {one.pack.pack_id: (*one[1:], one.pack.block_count) for one in plan.usages}
    return {
        "usages": usages,
        "unused": set(plan.unused),
        "orphans": set(plan.orphans),
        "repacked": {one.pack.pack_id for one in plan.repacked},
        "charges": plan.charges,
        "packs": plan.packs,
        "set aside": dict(marker.set_aside.problems),
        "false": marker.false_owners,
        "snapshots": len(marker),
        "settled": plan.is_settled,
    }


def damage(repository, rng):
    """Cut a pack or a page off, or take it away; what it was."""
    pack = rng.choice([info.name for info in repository.store.list("packs")])
    content = repository.store.get("packs", pack)
    repository.store.delete("packs", pack)
    if rng.random() < 0.5:
        repository.store.put("packs", pack, content[:-1])
    return pack, content


def step(repository, rng, expected):
    what = rng.choice(("backup", "backup", "two", "forget", "abandon", "mark", "prune"))
    host = rng.choice(("host", "other"))
    wanted = files(rng, rng.randint(1, 25))
    names = sorted(expected)
    if what == "forget" and names:
        name = rng.choice(names)
        repository.store.delete("snapshots", name)
        del expected[name]
    elif what == "mark":
        owned = [one for one in repository.load_index().packs() if one.owner]
        if owned:
            pack = rng.choice(owned)
            owner = repository.load_index().owners[pack.owner]
            write_tombstone(
                repository.store, repository.key, owner, [pack.pack_id], repository.cipher
            )
    elif what == "prune":
        prune(repository, rng.choice((THOROUGH, PARTS)), NOTHING)
    elif what == "abandon":
        backup = TinyBackup(repository, host)
        backup.store(wanted)
        backup.abandon()
    else:
        # Two at once store the same blocks twice.
        running = [TinyBackup(repository, host) for _ in range(2 if what == "two" else 1)]
        for backup in running:
            backup.store(wanted)
        for backup in running:
            expected[backup.commit().id] = wanted


@pytest.mark.parametrize("seed", range(6))
def test_both_ways_decide_the_same_and_nothing_is_lost(repository, seed):
    rng = random.Random(seed)
    expected = {}
    back_up(repository, files(rng, 30))
    for _ in range(10):
        step(repository, rng, expected)
        assert decided(repository, PARTS) == decided(repository, THOROUGH)
    pack, content = damage(repository, rng)
    assert decided(repository, PARTS) == decided(repository, THOROUGH)
    prune_if_sound(repository)
    if any(info.name == pack for info in repository.store.list("packs")):
        repository.store.delete("packs", pack)
    repository.store.put("packs", pack, content)
    prune_if_sound(repository)
    for name, wanted in expected.items():
        assert read_back(repository, name) == wanted
    report = check(repository, CheckOptions(read_data=DataSubset()), NOTHING)
    assert not report.findings, report.findings


def prune_if_sound(repository):
    report = prune(repository, PARTS, NOTHING)
    if report.kept_packs:
        # Copies of what lost its mark are judged by the next one.
        report = prune(repository, PARTS, NOTHING)
    if not report.set_aside:
        assert decided(repository, PARTS)["settled"]


def test_each_block_is_in_one_part(repository):
    back_up(repository, files(random.Random(1), 40))
    state = IndexState.read(repository.store, repository.key)
    whole = repository.load_index()
    parts = [
        Index.of_state(
            repository.store, repository.key, state, selection=IdRange(b"k" * 32, number, 3)
        )
        for number in range(3)
    ]
    ids = [part.block_ids()[at : at + 24] for part in parts for at in range(0, 24 * len(part), 24)]
    assert sorted(ids) == sorted(
        whole.block_ids()[at : at + 24] for at in range(0, 24 * len(whole), 24)
    )
    assert all(len(part.packs()) == len(whole.packs()) for part in parts)
    with pytest.raises(TypeError):
        next(part for part in parts if len(part)).location_of(0)


def test_it_is_counted_in_parts_only_where_memory_is_short(repository):
    back_up(repository, files(random.Random(1), 40))
    marker = Marker(repository.for_all_clients(), NOTHING)
    assert Counting(repository.for_all_clients(), marker, THOROUGH.memory_bytes).is_at_once
    assert not Counting(repository.for_all_clients(), marker, PARTS.memory_bytes).is_at_once


def test_what_is_repacked_is_counted_as_far_as_memory_allows(repository):
    first = back_up(repository, files(random.Random(1), 50))
    kept = []
    for seed in range(5):
        wanted = files(random.Random(seed), 3)
        kept.append((back_up(repository, wanted).id, wanted))
    repository.store.delete("snapshots", first.id)
    marker = Marker(repository, NOTHING)
    plan = plan_prune(repository.for_all_clients(), marker, None, THOROUGH, NOTHING)
    assert len(list(batches(plan.repacked * 3, 1500))) == 3
    report = prune(repository, replace(THOROUGH, memory_bytes=1500), NOTHING)
    assert report.repacked_packs == len(plan.repacked)
    for name, wanted in kept:
        assert read_back(repository, name) == wanted
    assert decided(repository, PARTS)["settled"]


def replace_index(repository):
    """As the sweep of another prune does."""
    store, key = repository.store, repository.key
    for name in [info.name for info in store.list("index")]:
        found = read_index_object(store, key, name, chunks=True)
        write_index_object(store, key, found.owner, found.footers, [name], repository.cipher)
        store.delete("index", name)


def replacing_first(repository, monkeypatch, method):
    """Replaces the index between its listing and the first call of a method of Counting."""
    count = getattr(Counting, method)
    calls = []

    def late(self, *given):
        calls.append(given)
        if len(calls) == 1:
            replace_index(repository)
        return count(self, *given)

    monkeypatch.setattr(Counting, method, late)
    return calls


def test_another_prune_may_replace_the_index_before_packs_are_copied(repository, monkeypatch):
    first = back_up(repository, files(random.Random(1), 50))
    kept = files(random.Random(2), 3)
    name = back_up(repository, kept).id
    repository.store.delete("snapshots", first.id)
    calls = replacing_first(repository, monkeypatch, "of_packs")
    report = prune(repository, PARTS, NOTHING)
    assert report.repacked_packs > 0
    assert len(calls) > 1
    assert read_back(repository, name) == kept


def test_another_prune_may_replace_the_index_before_hidden_versions_go(repository, monkeypatch):
    back_up(repository, files(random.Random(1), 5))
    found = []
    monkeypatch.setattr(prune_module, "remove_hidden", lambda *given, **_: found.append(given[3]))
    asked = MemoryStore.capability
    monkeypatch.setattr(
        MemoryStore,
        "capability",
        lambda store, wanted: store if wanted is LocksObjects else asked(store, wanted),
    )
    locked = SimpleNamespace(
        store=repository.store, key=repository.key, config=SimpleNamespace(lock_rule=object())
    )
    lease = SimpleNamespace(require=lambda: None, store_time_ns=0)
    calls = replacing_first(repository, monkeypatch, "packs")
    prune_module._remove_hidden(locked, lease, Marker(repository, NOTHING), THOROUGH)  # noqa: SLF001
    assert len(calls) == 2
    assert found == [{info.name for info in repository.store.list("packs")}]


def test_one_part_is_in_memory_at_a_time(repository, monkeypatch):
    load = Counting._load  # noqa: SLF001
    there = weakref.WeakSet()
    most = []

    def counted(self, selection):
        index = load(self, selection)
        if isinstance(selection, IdRange):
            there.add(index)
            most.append(len(there))
        return index

    monkeypatch.setattr(Counting, "_load", counted)
    first = back_up(repository, files(random.Random(1), 50))
    back_up(repository, files(random.Random(2), 3))
    repository.store.delete("snapshots", first.id)
    prune(repository, PARTS, NOTHING)
    assert len(most) > 3
    assert max(most) == 1


def test_pages_may_be_in_packs_of_another_kind(repository, monkeypatch):
    """Another writer's snapshot is set aside, and no place is asked of an index of some blocks."""
    monkeypatch.setattr(tiny_backup, "KIND_LISTING", KIND_DATA)
    back_up(repository, files(random.Random(1), 40))
    # Which part has the page differs each time.
    for _ in range(12):
        found = decided(repository, PARTS)
        assert len(found["false"]) == 2
        assert not found["unused"]
        assert "TypeError" not in str(found["set aside"])


class DrippingStore(MemoryStore):
    """Of the packs that `late` names one more is there each time that they are listed."""

    def __init__(self):
        super().__init__()
        self.late = []
        self.unsure = frozenset()

    def list(self, kind):
        if kind == "packs":
            self.late = self.late[1:]
        return (info for info in super().list(kind) if info.name not in self.late)

    def unverified(self, kind):
        return self.unsure if kind == "index" else frozenset()


def test_packs_that_come_between_two_parts_do_not_make_it_begin_again():
    store = DrippingStore()
    repository = new_repository(store)
    back_up(repository, files(random.Random(1), 40))
    before = {info.name for info in store.list("index")}
    late = TinyBackup(repository)
    for number in range(100):
        late.store({b"late%d" % number: random.Random(number).randbytes(99)})
    late.checkpoint()
    store.unsure = frozenset({info.name for info in store.list("index")} - before)
    store.late = sorted(
        footer.pack_id.hex()
        for name in store.unsure
        for footer in read_index_object(store, repository.key, name, chunks=False).footers
    )
    marker = Marker(repository, NOTHING)
    plan_prune(repository.for_all_clients(), marker, None, PARTS, NOTHING)
    assert store.late
