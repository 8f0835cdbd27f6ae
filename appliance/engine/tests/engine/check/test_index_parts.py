"""Checked in parts, a repository has the findings that it has when checked at once."""

import os
import random

import pytest
from msgspec.structs import replace

from kit.passing_store import PassingStore
from kit.tiny_backup import THOROUGH, TinyBackup, back_up, new_repository
from strongroom.base.progress import NullProgress
from strongroom.engine.check import index_parts
from strongroom.engine.check.check import CheckOptions, DataSubset, check
from strongroom.engine.check.index_parts import BLOCK_BYTES, blocks_at_once
from strongroom.engine.prune.prune import prune
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.tombstones import write_tombstone
from strongroom.engine.stores.local import LocalStore

WHOLE = CheckOptions(processes=1)
# A few blocks at once: pages of more are batches by themselves.
PARTS = replace(WHOLE, memory_bytes=4 * BLOCK_BYTES)


def files(rng, count):
    numbers = rng.sample(range(80), count)
    return {b"file%02d" % one: random.Random(one).randbytes(200 + one) for one in numbers}


@pytest.fixture
def repository(tmp_path):
    made = new_repository(LocalStore(str(tmp_path / "r")))
    yield made
    made.close()


def fill(repository, rng):
    """Snapshots of two clients, with blocks that are stored twice, and a marked pack."""
    for _ in range(4):
        host = rng.choice(("host", "other"))
        # Two at once store the same blocks twice.
        running = [TinyBackup(repository, host) for _ in range(rng.choice((1, 2)))]
        wanted = files(rng, rng.randint(3, 25))
        for backup in running:
            backup.store(wanted)
        for backup in running:
            backup.commit()
    if rng.random() < 0.5:
        repository.store.delete("snapshots", rng.choice(names(repository, "snapshots")))
    if rng.random() < 0.3:
        prune(repository, THOROUGH, NullProgress())
    index = repository.for_all_clients().load_index()
    pack = rng.choice(index.packs())
    owner = index.owners[pack.owner]
    write_tombstone(repository.store, repository.key, owner, [pack.pack_id], 1)


def names(repository, kind):
    return sorted(info.name for info in repository.store.list(kind))


def hurt(repository, rng, kind):
    """Flip, cut off, lengthen or remove an object; which of these."""
    name = rng.choice(names(repository, kind))
    folder = name[:2] if kind == "packs" else ""
    path = os.path.join(repository.store.location, kind, folder, name)
    os.chmod(path, 0o600)
    with open(path, "rb") as file:
        data = bytearray(file.read())
    change = rng.choice(("flip", "cut", "longer", "gone"))
    if change == "gone":
        os.unlink(path)
        return change
    if change == "flip":
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif change == "cut":
        del data[rng.randrange(len(data)) :]
    else:
        data += bytes(rng.randint(1, 50))
    with open(path, "wb") as file:
        file.write(data)
    return change


def run(repository, options):
    return check(repository, options, NullProgress())


def figures(report):
    return replace(report, elapsed_seconds=0.0)


def same_both_ways(repository, options=WHOLE):
    at_once = run(repository, options)
    in_parts = run(repository, replace(options, memory_bytes=PARTS.memory_bytes))
    assert figures(in_parts) == figures(at_once)
    return at_once


@pytest.mark.parametrize("read_data", [None, DataSubset()], ids=["structure", "data"])
@pytest.mark.parametrize("kinds", ["packs", "index", "snapshots", "tombstones", "any"])
@pytest.mark.parametrize("seed", range(2))
def test_the_same_damage_is_found(repository, kinds, seed, read_data):
    rng = random.Random(f"{kinds}{seed}")
    fill(repository, rng)
    options = replace(WHOLE, read_data=read_data)
    assert same_both_ways(repository, options).findings == ()
    for _ in range(4):
        kind = rng.choice(("packs", "packs", "index", "snapshots")) if kinds == "any" else kinds
        change = hurt(repository, rng, kind) if names(repository, kind) else "gone"
        report = same_both_ways(repository, options)
        # A marked pack that is gone is damage only where a snapshot needs it.
        assert report.findings or change == "gone" or (kind == "packs" and read_data is None)
    for name in names(repository, "snapshots"):
        chosen = replace(options, snapshot_ids=(name,))
        same_both_ways(repository, chosen)


def test_a_page_that_does_not_decode_is_reported_once(repository):
    snapshot = back_up(repository, files(random.Random(1), 20))
    place = repository.load_index().of_client(snapshot.owner).locate(snapshot.pages[0].block_id)
    repository.store.delete("packs", place.pack_id.hex())
    (_, of_snapshot) = same_both_ways(repository).findings
    assert of_snapshot.kind == "snapshots"
    assert of_snapshot.problem.count("20 files") == 1


def test_references_beyond_what_is_there_are_found(repository):
    """As a client may make them: to no block, beyond the end of one, and of another length."""
    kept = files(random.Random(1), 20)
    snapshot = back_up(repository, kept)
    index = repository.load_index()
    first = next(pack for pack in index.packs() if pack.kind == 0)
    block = index.block_ids(first.first_row, 1)
    backup = TinyBackup(repository)
    backup.refer(b"nowhere", bytes(24), 0, 5)
    backup.refer(b"beyond", block, 9, 5)
    backup.refer(b"shorter", block, 0, 5)
    backup.store(kept)
    lying = backup.commit()
    (found,) = same_both_ways(repository).findings
    assert (found.name, found.path_count) == (lying.id, 3)
    assert same_both_ways(repository, replace(WHOLE, snapshot_ids=(snapshot.id,))).findings == ()


def test_a_page_in_a_pack_of_content_is_read(repository, monkeypatch):
    """A hostile client may put it there."""
    monkeypatch.setattr("kit.tiny_backup.KIND_LISTING", 0)
    back_up(repository, files(random.Random(1), 20))
    assert same_both_ways(repository).findings == ()


def test_it_is_checked_in_parts_only_where_memory_is_short(repository, monkeypatch):
    for seed in range(3):
        back_up(repository, files(random.Random(seed), 30))
    store = repository.store
    blocks = len(repository.load_index())
    assert blocks_at_once(store, WHOLE.memory_bytes) == 0
    assert 1 <= blocks_at_once(store, PARTS.memory_bytes) <= 4
    assert blocks_at_once(store, 1) == 1
    loaded = []
    load = index_parts.load_sound_part

    def noting(repository, known, selection):
        part = load(repository, known, selection)
        loaded.append(len(part.index))
        return part

    monkeypatch.setattr(index_parts, "load_sound_part", noting)
    run(repository, WHOLE)
    assert loaded == []
    report = run(repository, PARTS)
    assert report.blocks == blocks
    assert len(loaded) > 3
    assert max(loaded) < blocks


def test_an_index_object_that_a_prune_replaces_meanwhile_is_no_damage(repository):
    """Between any two reads: blocks are where the new one says."""
    rng = random.Random(5)
    gone = back_up(repository, files(rng, 25))
    for _ in range(3):
        back_up(repository, files(rng, 12))
    repository.store.delete("snapshots", gone.id)
    options = replace(PARTS, read_data=DataSubset())
    counting = PassingStore(LocalStore(repository.store.location), lambda _: None)
    other = Repository.open(counting, repository.for_all_clients().key)
    run(other, options)
    for at in range(1, counting.count, 13):
        done = []

        def between(number, at=at, done=done):
            if number == at:
                backup = back_up(repository, files(rng, 20))
                repository.store.delete("snapshots", backup.id)
                prune(repository, replace(THOROUGH, grace_seconds=None), NullProgress())
                done.append(number)

        passing = PassingStore(LocalStore(repository.store.location), between)
        found = run(Repository.open(passing, repository.for_all_clients().key), options).findings
        assert found == (), at
    assert done
