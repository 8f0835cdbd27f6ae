"""Prune gives back what no snapshot needs, and never what one does."""

import os

import pytest
from msgspec.structs import replace

from kit.shifted_store import ShiftedStore
from kit.tiny_backup import Files, TinyBackup, back_up, read_back
from strongroom.base import clock
from strongroom.base.errors import KeyRightError
from strongroom.base.progress import NullProgress
from strongroom.engine.prune.prune import prune
from strongroom.engine.prune.prune_options import PruneOptions
from strongroom.engine.repository.leases import Holder, Lease
from strongroom.engine.repository.packs import KIND_DATA
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.tombstones import write_tombstone

# As if everything had been written long before any job under way began.
THOROUGH = PruneOptions(repack_below=1.0, max_unused=0.0, threads=2, spare_seconds=-1e6)


def files(*numbers: int, size: int = 5000) -> Files:
    """Files of random content that is the same for the same number."""
    import random

    return {b"file%d" % number: random.Random(number).randbytes(size) for number in numbers}


def pack_bytes(repository: Repository) -> int:
    return sum(info.size_bytes for info in repository.store.list("packs"))


def forget(repository: Repository, snapshot) -> None:
    repository.store.delete("snapshots", snapshot.id)


def run(repository: Repository, options: PruneOptions = THOROUGH):
    return prune(repository, options, NullProgress())


def test_space_comes_back_when_the_only_snapshot_is_forgotten(repository):
    forget(repository, back_up(repository, files(*range(20))))
    report = run(repository)
    assert report.removed_packs == 2
    assert pack_bytes(repository) == 0
    assert not list(repository.store.list("tombstones"))
    assert not list(repository.store.list("leases"))


def test_pruning_an_empty_repository_does_nothing(repository):
    assert run(repository).removed_packs == 0


def test_what_snapshots_use_stays_and_the_rest_of_its_packs_goes(repository):
    first = back_up(repository, files(*range(40)))
    second = back_up(repository, files(*range(0, 40, 8)))
    before = pack_bytes(repository)
    forget(repository, first)
    report = run(repository)
    assert report.repacked_packs == 1
    assert read_back(repository, second.id) == files(*range(0, 40, 8))
    # 5 of 40 files of 5000 bytes that do not compress, and a listing.
    assert pack_bytes(repository) < 5 * 5000 + 3000 < before
    assert report.freed_bytes == before - pack_bytes(repository)
    assert run(repository).removed_packs == 0


def test_a_block_that_was_thinned_is_thinned_again_and_still_deduplicates(repository):
    everything = back_up(repository, files(*range(8)))
    half = back_up(repository, files(0, 1, 4))
    one = back_up(repository, files(1))
    forget(repository, everything)
    run(repository)
    forget(repository, half)
    run(repository)
    assert read_back(repository, one.id) == files(1)
    backup = TinyBackup(repository)
    backup.store(files(0, 1))
    assert backup.new_chunks == 1
    assert read_back(repository, backup.commit().id) == files(0, 1)


def test_packs_above_the_threshold_are_left_alone(repository):
    first = back_up(repository, files(*range(40)))
    back_up(repository, files(*range(36)))
    forget(repository, first)
    report = run(repository, PruneOptions(repack_below=0.8, max_unused=0.0))
    assert report.repacked_packs == 0
    assert report.unused_bytes > 0


def test_a_pack_of_which_nothing_would_be_freed_is_not_copied_by_every_prune(repository):
    # They are in one block.
    first = back_up(repository, files(0, 1, 2) | files(3, size=100))
    back_up(repository, files(0, 1, 2))
    forget(repository, first)
    options = PruneOptions(repack_below=1.0, max_unused=0.0, spare_seconds=-1e6)
    run(repository, options)
    report = run(repository, options)
    assert (report.repacked_packs, report.removed_packs) == (0, 0)
    assert report.unused_bytes > 0


def test_a_dry_run_says_how_much_and_changes_nothing(repository):
    first = back_up(repository, files(*range(40)))
    back_up(repository, files(1, 2))
    forget(repository, first)
    before = {info.name for kind in ("packs", "index") for info in repository.store.list(kind)}
    foreseen = run(repository, PruneOptions(repack_below=1.0, max_unused=0.0, dry_run=True))
    after = {info.name for kind in ("packs", "index") for info in repository.store.list(kind)}
    assert before == after
    done = run(repository)
    assert (foreseen.removed_packs, foreseen.removed_bytes) == (
        done.removed_packs,
        done.removed_bytes,
    )
    assert abs(foreseen.freed_bytes - done.freed_bytes) < 2000


def test_what_a_backup_under_way_refers_to_is_kept_until_it_has_ended(repository):
    old = back_up(repository, files(*range(12)))
    backup = TinyBackup(repository)
    backup.store(files(1, 2))
    assert backup.new_chunks == 0
    forget(repository, old)
    report = run(repository)
    assert report.waiting_packs > 0
    assert report.removed_packs == 0
    assert "backup on host" in report.waiting_for[0]
    (holdup,) = report.holdups
    assert (holdup.purpose, holdup.host, holdup.process_id) == ("backup", "host", os.getpid())
    assert not holdup.is_long
    snapshot = backup.commit()
    report = run(repository)
    assert report.kept_packs > 0
    assert read_back(repository, snapshot.id) == files(1, 2)
    run(repository)
    assert read_back(repository, snapshot.id) == files(1, 2)
    assert pack_bytes(repository) < 2 * 5000 + 3000


def test_a_chunk_that_was_thinned_away_under_a_backup_is_found_in_the_marked_pack(repository):
    old = back_up(repository, files(0, 1, 2, 3))
    keeper = back_up(repository, files(0))
    backup = TinyBackup(repository)
    backup.store(files(3))
    forget(repository, old)
    # Writes a copy of the block that lacks chunk 3, and marks the pack that has it.
    report = run(repository)
    assert report.repacked_packs == 1
    snapshot = backup.commit()
    assert read_back(repository, snapshot.id) == files(3)
    for _ in range(3):
        run(repository)
        assert read_back(repository, snapshot.id) == files(3)
        assert read_back(repository, keeper.id) == files(0)


def test_a_backup_that_begins_after_the_marking_does_not_rely_on_what_is_marked(repository):
    old = back_up(repository, files(1, 2, 3))
    bystander = TinyBackup(repository)
    forget(repository, old)
    assert run(repository).waiting_packs > 0
    backup = TinyBackup(repository)
    backup.store(files(1, 2, 3))
    assert backup.new_chunks == 3
    bystander.abandon()
    without_grace = replace(THOROUGH, grace_seconds=0.0)
    assert run(repository, without_grace).removed_packs > 0
    snapshot = backup.commit()
    assert read_back(repository, snapshot.id) == files(1, 2, 3)
    run(repository)
    assert read_back(repository, snapshot.id) == files(1, 2, 3)


def test_a_backup_of_one_client_keeps_no_space_of_another(repository):
    other = repository.for_client("other")
    gone = back_up(other, files(1, 2, 3))
    kept = back_up(other, files(1))
    backup = TinyBackup(repository)
    forget(repository, gone)
    before = pack_bytes(repository)
    report = run(repository, replace(THOROUGH, grace_seconds=0.0))
    backup.store(files(7))
    assert report.waiting_packs == 0
    assert report.removed_packs > 0
    assert pack_bytes(repository) < before
    assert read_back(repository, kept.id) == files(1)
    assert read_back(repository, backup.commit().id) == files(7)


def test_a_copy_of_another_client_counts_for_nothing(repository):
    """The same content of two clients: neither may lose its own because of the other's."""
    other = repository.for_client("other")
    mine, theirs = back_up(repository, files(1, 2)), back_up(other, files(1, 2))
    for _ in range(2):
        run(repository)
    assert read_back(repository, mine.id) == read_back(repository, theirs.id) == files(1, 2)
    forget(repository, theirs)
    run(repository)
    assert read_back(repository, mine.id) == files(1, 2)
    assert len(repository.load_index().packs()) == len(list(repository.store.list("packs"))) == 2


def test_repacked_packs_stay_their_clients(repository):
    other = repository.for_client("other")
    clients = {repository: files(1, 2), other: files(3, 4)}
    doomed = [back_up(one, mine | files(10, 11, 12)) for one, mine in clients.items()]
    kept = [back_up(one, mine) for one, mine in clients.items()]
    for snapshot in doomed:
        forget(repository, snapshot)
    assert run(repository).repacked_packs == 2
    for (client, mine), snapshot in zip(clients.items(), kept, strict=True):
        # The client's own key finds and reads it: nothing has become the appliance's.
        index = Repository.open(repository.store, client.writer).load_index()
        assert {index.owners[pack.owner] for pack in index.packs()} == {client.writer.client_id}
        assert read_back(repository, snapshot.id) == mine


def test_a_backup_whose_lease_has_ended_can_not_commit(repository):
    from strongroom.base.errors import LeaseError

    backup = TinyBackup(repository)
    backup.store(files(1))
    (lease,) = repository.store.list("leases")
    path = os.path.join(repository.store.location, "leases", lease.name)
    os.utime(path, ns=(1, lease.modified_ns - 3600 * 10**9))
    run(repository)
    with pytest.raises(LeaseError):
        backup.commit()
    assert not repository.snapshots()


def test_a_backup_that_slept_while_it_committed_takes_the_commit_back(repository):
    """Between its last renewal and the snapshot a prune takes it for dead."""
    from kit.passing_store import PassingStore
    from strongroom.base.errors import LeaseError

    old = back_up(repository, files(1, 2))
    inner = repository.store
    armed = []

    def before(count: int) -> None:
        if armed and not list(inner.list("tombstones")):
            (lease,) = inner.list("leases")
            path = os.path.join(inner.location, "leases", lease.name)
            os.utime(path, ns=(1, lease.modified_ns - 3600 * 10**9))
            forget(repository, old)
            run(repository)
            armed.clear()

    class Sleepy(PassingStore):
        def put_durable(self, kind, name, data):
            armed.append(True)
            super().put_durable(kind, name, data)

    backup = TinyBackup(Repository.open(Sleepy(inner, before), repository.writer))
    backup.store(files(1, 2))
    with pytest.raises(LeaseError, match="taken back"):
        backup.commit()
    assert not repository.snapshots()


def test_what_a_killed_backup_left_is_removed(repository):
    kept = back_up(repository, files(1))
    backup = TinyBackup(repository)
    backup.store(files(2, 3))
    backup.abandon()
    report = run(repository)
    assert report.orphan_packs == 1
    assert report.removed_packs == 1
    assert read_back(repository, kept.id) == files(1)


def test_packs_of_a_backup_under_way_are_not_marked(repository):
    backup = TinyBackup(repository)
    backup.store(files(1, 2))
    backup.checkpoint()
    backup.store(files(3))
    report = run(repository, PruneOptions())
    assert report.marked_packs == 0
    assert read_back(repository, backup.commit().id) == files(1, 2, 3)


def test_nothing_is_removed_when_a_snapshot_lacks_something(repository):
    lost = back_up(repository, files(1))
    forget(repository, back_up(repository, files(2)))
    blocks = repository.load_index().of_client(lost.owner)
    pages = repository.snapshot(lost.id).pages
    pack = blocks.locate(pages[0].block_id).pack_id
    repository.store.delete("packs", pack.hex())
    before = pack_bytes(repository)
    report = run(repository)
    assert pack.hex() in report.set_aside.names("packs")
    assert (report.marked_packs, report.removed_packs) == (0, 0)
    assert pack_bytes(repository) == before


def data_packs(repository: Repository) -> list[bytes]:
    return [one.pack_id for one in repository.load_index().packs() if one.kind == KIND_DATA]


def mark(repository: Repository, owner: bytes, pack_id: bytes) -> None:
    write_tombstone(repository.store, repository.key, owner, [pack_id], repository.cipher)


@pytest.mark.parametrize("is_cut_off", [False, True])
def test_nothing_is_removed_when_a_marked_pack_is_lost_that_a_snapshot_needs(
    repository, is_cut_off
):
    lost = back_up(repository, files(1))
    (pack_id,) = data_packs(repository)
    forget(repository, back_up(repository, files(2)))
    mark(repository, lost.owner, pack_id)
    content = repository.store.get("packs", pack_id.hex())
    repository.store.delete("packs", pack_id.hex())
    if is_cut_off:
        repository.store.put("packs", pack_id.hex(), content[:-1])
    before = pack_bytes(repository)
    report = run(repository)
    assert report.set_aside.names("packs") == [pack_id.hex()]
    assert (report.marked_packs, report.removed_packs) == (0, 0)
    assert pack_bytes(repository) == before


@pytest.mark.parametrize("is_first_marked", [False, True])
def test_a_marked_copy_stays_when_the_other_one_is_lost(repository, is_first_marked):
    running = [TinyBackup(repository) for _ in range(2)]
    for backup in running:
        backup.store(files(1))
    snapshots = [backup.commit() for backup in running]
    marked, lost = sorted(data_packs(repository), reverse=is_first_marked)
    mark(repository, snapshots[0].owner, marked)
    repository.store.delete("packs", lost.hex())
    report = run(repository)
    assert not report.set_aside
    assert report.kept_packs == 1
    assert not list(repository.store.list("tombstones"))
    run(repository)
    assert data_packs(repository) == [marked]
    for one in snapshots:
        assert read_back(repository, one.id) == files(1)


def test_packs_that_the_index_lost_are_not_taken_for_garbage(repository):
    back_up(repository, files(1))
    for info in list(repository.store.list("index")):
        repository.store.delete("index", info.name)
    before = pack_bytes(repository)
    report = run(repository)
    assert (report.marked_packs, report.removed_packs, len(report.set_aside)) == (0, 0, 1)
    assert pack_bytes(repository) == before


def test_a_put_key_can_not_prune(repository):
    writer = Repository.open(repository.store, repository.writer)
    with pytest.raises(KeyRightError):
        run(writer)


def test_copies_of_a_block_are_reduced_to_one(repository):
    first, second = TinyBackup(repository), TinyBackup(repository)
    first.store(files(*range(8)))
    second.store(files(*range(8)))
    snapshots = [first.commit(), second.commit()]
    before = pack_bytes(repository)
    run(repository)
    assert pack_bytes(repository) < before - 8 * 5000
    for snapshot in snapshots:
        assert read_back(repository, snapshot.id) == files(*range(8))


def test_many_small_index_objects_become_one(repository):
    snapshots = [back_up(repository, files(number, size=100)) for number in range(20)]
    assert len(list(repository.store.list("index"))) == 20
    run(repository)
    assert len(list(repository.store.list("index"))) == 1
    for number, snapshot in enumerate(snapshots):
        assert read_back(repository, snapshot.id) == files(number, size=100)


def test_a_job_that_runs_since_days_is_named_with_its_age(repository):
    repository.store.delete("snapshots", back_up(repository, files(*range(12))).id)
    days = 3 * 86400 * 10**9
    long_ago = ShiftedStore(repository.store, -days)
    holder = Holder("web1", os.getpid(), "backup", clock.now_ns() - days, ())
    owner = repository.writer.client_id
    key, cipher = repository.key, repository.cipher
    lease = Lease(long_ago, key, cipher, owner, holder)
    # Newer than the job that runs, so this prune does not even mark them.
    report = run(repository, PruneOptions(repack_below=1.0, max_unused=0.0))
    assert (report.removed_packs, report.spared_packs) == (0, 2)
    assert report.spared_bytes == pack_bytes(repository)
    (holdup,) = report.holdups
    assert holdup.text == f"backup on web1 (process {os.getpid()}), begun 3 days ago, to end"
    assert holdup.is_long
    assert report.summary()["leases"][0]["host"] == "web1"
    # As if written long before it began: marked, and waited for.
    report = run(repository)
    assert (report.waiting_packs, report.spared_packs) == (2, 0)
    assert report.waiting_for == (holdup.text,)
    lease.end()
    assert run(repository).removed_packs == 2
