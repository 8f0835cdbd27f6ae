"""What several clients offer is stored once; nothing else, and no one loses anything by it."""

import random

import pytest

from kit.kept import known_chunks
from kit.memory_store import MemoryStore
from kit.passing_store import PassingStore
from kit.tiny_backup import TinyBackup, new_repository, read_back
from strongroom.base.progress import NullProgress
from strongroom.engine.check.check import CheckOptions, DataSubset, check
from strongroom.engine.prune.forget import ForgetOptions, forget
from strongroom.engine.prune.prune import prune
from strongroom.engine.prune.prune_options import PruneOptions
from strongroom.engine.repository.keys.owners import SHARED
from strongroom.engine.repository.packs import read_owner
from strongroom.engine.repository.repository import Repository
from strongroom.engine.share.share import ShareOptions, share

PRUNE = PruneOptions(spare_seconds=-1e6, max_unused=0.0, repack_below=1.0, threads=1)


def content(seed, count, size=2000):
    rng = random.Random(seed)
    return {b"%s-%03d" % (seed.encode(), number): rng.randbytes(size) for number in range(count)}


@pytest.fixture
def repository():
    made = new_repository(MemoryStore())
    yield made
    made.close()


def back_up(repository, host, offered, private):
    backup = TinyBackup(repository, host)
    backup.store(offered, offered=True)
    backup.store(private)
    return backup.commit(), backup.new_chunks


def shared_packs(repository):
    names = [info.name for info in repository.store.list("packs")]
    return [name for name in names if read_owner(repository.store, bytes.fromhex(name)) == SHARED]


def pack_bytes(repository):
    return sum(info.size_bytes for info in repository.store.list("packs"))


def run(repository, least=3, clients=None):
    return share(repository, ShareOptions(least, clients), NullProgress())


def tidy(repository):
    return prune(repository, PRUNE, NullProgress())


def assert_sound(repository):
    report = check(repository, CheckOptions(read_data=DataSubset()), NullProgress())
    assert not report.findings, report.findings


def test_what_three_clients_offer_is_stored_once_and_each_restores_its_own(repository):
    common = content("common", 40)
    own = {host: content(host, 6) for host in ("a", "b", "c")}
    snapshots = {host: back_up(repository, host, common, own[host])[0] for host in own}
    before = pack_bytes(repository)
    report = run(repository)
    assert report.shared_chunks == len(common)
    tidy(repository)
    assert pack_bytes(repository) < before * 0.55
    for host, snapshot in snapshots.items():
        assert read_back(repository, snapshot.id) == common | own[host]
    assert_sound(repository)
    assert run(repository).shared_chunks == 0


def test_where_nothing_is_offered_no_listing_is_read(repository):
    for host in ("a", "b", "c"):
        back_up(repository, host, {}, content("private", 20))
    read = set()

    class Watched(PassingStore):
        def get(self, kind, name, offset=0, length=None):
            read.add(kind)
            return super().get(kind, name, offset, length)

    store = Watched(repository.store, lambda _: None)
    watched = Repository(store, repository.config, repository.for_all_clients().key)
    report = run(watched)
    assert (report.offered_chunks, report.shared_chunks) == (0, 0)
    assert "index" in read
    assert not read & {"packs", "snapshots"}


def test_the_next_client_uploads_only_its_own(repository):
    common = content("common", 20)
    for host in ("a", "b", "c"):
        back_up(repository, host, common, content(host, 2))
    run(repository)
    snapshot, new_chunks = back_up(repository, "d", common, content("d", 3))
    assert new_chunks == 3
    tidy(repository)
    assert read_back(repository, snapshot.id) == common | content("d", 3)


def test_neither_what_two_have_nor_what_is_not_offered_is_shared(repository):
    for host in ("a", "b", "c"):
        offered = content("all", 5) | (content("two", 5) if host != "c" else {})
        back_up(repository, host, offered, content("secret", 5))
    run(repository)
    key = repository.key.put_key("spy")
    spy = repository.for_client("spy")
    assert len(known_chunks(spy)) == 5
    assert key.client_id not in {repository.key.client_id(host) for host in ("a", "b", "c")}


def test_only_configured_clients_count(repository):
    common = content("common", 5)
    for host in ("a", "b", "c"):
        back_up(repository, host, common, {b"x": b"x" + host.encode()})
    known = frozenset(repository.key.client_id(host) for host in ("a", "b"))
    assert run(repository, 3, known).shared_chunks == 0
    assert run(repository, 2, known).shared_chunks == 5


def test_zero_shares_nothing_and_one_all_that_is_offered(repository):
    back_up(repository, "a", content("mine", 7), content("private", 3))
    assert run(repository, 0).shared_chunks == 0
    assert run(repository, 1).shared_chunks == 7


def test_blocks_that_are_cut_otherwise_are_thinned_and_read_through_shared_chunks(repository):
    common = content("common", 23)
    snapshots = {}
    for number, host in enumerate(("a", "b", "c", "d")):
        # Other files in front move the chunks to other blocks.
        files = content(host, number) | common | content(host + "end", 3)
        snapshots[host] = (back_up(repository, host, files, {})[0], files)
    run(repository)
    tidy(repository)
    for snapshot, files in snapshots.values():
        assert read_back(repository, snapshot.id) == files
    assert_sound(repository)
    tidy(repository)
    for snapshot, files in snapshots.values():
        assert read_back(repository, snapshot.id) == files


def test_when_all_but_one_have_forgotten_the_last_one_keeps_it(repository):
    common = content("common", 30)
    made = {host: back_up(repository, host, common, content(host, 2))[0] for host in "abc"}
    run(repository)
    tidy(repository)
    gone = [made["a"], made["b"]]
    options = ForgetOptions(snapshot_ids=tuple(one.id for one in gone))
    forget(repository, gone, options, NullProgress())
    tidy(repository)
    assert read_back(repository, made["c"].id) == common | content("c", 2)
    assert_sound(repository)


def test_what_nobody_uses_any_more_is_removed(repository):
    common = content("common", 30)
    made = [back_up(repository, host, common, {})[0] for host in "abc"]
    run(repository)
    tidy(repository)
    assert shared_packs(repository)
    forget(repository, made, ForgetOptions(snapshot_ids=tuple(s.id for s in made)), NullProgress())
    tidy(repository)
    assert not shared_packs(repository)
    assert not list(repository.store.list("packs"))


def test_a_shared_pack_that_is_lost_is_found_by_check(repository):
    common = content("common", 10)
    for host in "abc":
        back_up(repository, host, common, {})
    run(repository)
    tidy(repository)
    for name in shared_packs(repository):
        repository.store.delete("packs", name)
    report = check(repository, CheckOptions(), NullProgress())
    assert report.findings


def test_a_dry_run_counts_and_writes_nothing(repository):
    for host in "abc":
        back_up(repository, host, content("common", 10), {})
    before = {info.name for info in repository.store.list("packs")}
    report = share(repository, ShareOptions(3, dry_run=True), NullProgress())
    assert report.shared_chunks == 10
    assert {info.name for info in repository.store.list("packs")} == before
