"""What clients leave to shared packs is found lost or sound, and repaired, as all else."""

import random

import pytest

from kit.memory_store import MemoryStore
from kit.tiny_backup import TinyBackup, new_repository, read_back
from strongroom.base.progress import NullProgress
from strongroom.engine.check.check import CheckOptions, DataSubset, check
from strongroom.engine.prune.prune import prune
from strongroom.engine.prune.prune_options import PruneOptions
from strongroom.engine.repair.repair import RepairOptions, repair
from strongroom.engine.repository.keys.owners import SHARED
from strongroom.engine.repository.packs import KIND_DATA
from strongroom.engine.share.share import ShareOptions, share

PRUNE = PruneOptions(spare_seconds=-1e6, max_unused=0.0, repack_below=1.0, threads=1)
HOSTS = ("a", "b", "c")


def content(seed, count):
    rng = random.Random(seed)
    return {b"%s-%02d" % (seed.encode(), number): rng.randbytes(900) for number in range(count)}


COMMON = content("common", 9)


@pytest.fixture
def repository():
    made = new_repository(MemoryStore())
    yield made
    made.close()


def mixed(files, others):
    """One of the others after every three files: no two hosts have equal blocks of four then."""
    names, rest = list(files), list(others)
    order = [name for at in range(3) for name in (*names[at * 3 : at * 3 + 3], rest[at])]
    return {name: (files | others)[name] for name in order}


@pytest.fixture(params=["equal blocks", "other blocks"])
def snapshots(request, repository):
    """Three clients with offered files in common, which are shared; each has own ones too."""
    made = {}
    for host in HOSTS:
        backup = TinyBackup(repository, host)
        own = content(f"offered-{host}", 3)
        offered = COMMON | own if request.param == "equal blocks" else mixed(COMMON, own)
        backup.store(offered, offered=True)
        backup.store(content(host, 3))
        made[host] = backup.commit()
    assert share(repository, ShareOptions(3), NullProgress()).shared_chunks == len(COMMON)
    return made


def everything(host):
    return COMMON | content(f"offered-{host}", 3) | content(host, 3)


def checked(repository, **options):
    options = CheckOptions(read_data=DataSubset(), processes=1, **options)
    return check(repository, options, NullProgress()).findings


def repaired(repository, **options):
    report = repair(repository, RepairOptions(processes=1, **options), NullProgress())
    if not options:
        assert checked(repository) == ()
    return {
        loss.snapshot.host: (loss.new_id, {path.removeprefix(b"data/") for path in loss.paths})
        for loss in report.losses
    }


def delete_packs(repository, owner):
    index = repository.for_all_clients().load_index()
    number = index.number_of(owner)
    for pack in index.packs():
        if pack.owner == number and pack.kind == KIND_DATA:
            repository.store.delete("packs", pack.pack_id.hex())


def test_a_lost_pack_of_a_client_loses_nothing_that_is_shared(repository, snapshots):
    prune(repository, PRUNE, NullProgress())
    delete_packs(repository, snapshots["a"].owner)
    losses = repaired(repository)
    assert set(losses) == {"a"}
    new_id, lost = losses["a"]
    assert lost == everything("a").keys() - COMMON.keys()
    assert read_back(repository, new_id) == COMMON
    for host in ("b", "c"):
        assert read_back(repository, snapshots[host].id) == everything(host)
    # And still after a prune has gone over what was repaired.
    prune(repository, PRUNE, NullProgress())
    assert read_back(repository, new_id) == COMMON


def test_a_lost_shared_pack_loses_the_shared_files_of_all(repository, snapshots):
    prune(repository, PRUNE, NullProgress())
    delete_packs(repository, SHARED)
    named = {path for finding in checked(repository) for path in finding.paths}
    assert named == {b"data/" + name for name in COMMON}
    foreseen = repaired(repository, dry_run=True)
    losses = repaired(repository)
    assert set(losses) == set(HOSTS)
    for host, (new_id, lost) in losses.items():
        assert lost == COMMON.keys() == foreseen[host][1]
        assert read_back(repository, new_id) == content(f"offered-{host}", 3) | content(host, 3)


def test_a_shared_pack_that_is_lost_before_a_prune_loses_nothing(repository, snapshots):
    delete_packs(repository, SHARED)
    findings = checked(repository)
    assert {finding.kind for finding in findings} == {"packs"}
    assert not any(finding.paths for finding in findings)
    assert repaired(repository, dry_run=True) == {}
    assert repaired(repository) == {}
    for host, snapshot in snapshots.items():
        assert read_back(repository, snapshot.id) == everything(host)


def test_check_of_one_snapshot_looks_at_the_shared_packs_that_it_needs(repository, snapshots):
    prune(repository, PRUNE, NullProgress())
    delete_packs(repository, SHARED)
    findings = checked(repository, snapshot_ids=(snapshots["a"].id,))
    assert {path for finding in findings for path in finding.paths} == {
        b"data/" + name for name in COMMON
    }
