"""A chunk that an agent only claims to have stored gets under no one else's files."""

import os

import msgspec
import pytest

from kit.planted_pack import plant
from kit.tiny_backup import CHUNKS_OF_A_BLOCK, THOROUGH, back_up, read_back
from strongroom.base.errors import DamageError, ObjectMissingError, UsageError
from strongroom.base.progress import NullProgress
from strongroom.engine.check.check import CheckOptions, DataSubset, check
from strongroom.engine.check.vouch import required_judge, vouch
from strongroom.engine.content.digests import chunk_id, object_name
from strongroom.engine.prune.prune import prune
from strongroom.engine.repository.index.index import Index
from strongroom.engine.repository.index.objects import write_index_object
from strongroom.engine.repository.packs import KIND_DATA, read_footer
from strongroom.engine.repository.repository import Repository
from strongroom.engine.stores.local import LocalStore
from strongroom.engine.writing.deduplication import StoredChunks

FILES = {b"one": b"first" * 1000, b"two": b"second" * 2000}


def vouch_all(appliance):
    return vouch(appliance, required_judge(appliance.store), NullProgress())


def new_chunks(repository, files):
    """How many chunks a backup of `files` would have to store."""
    with repository.lease("host", os.getpid(), "backup"):
        table = StoredChunks(repository).load_table()
    key = repository.writer.client.own.chunk_key
    return sum(not table.claim(chunk_id(key, data)) for data in files.values())


@pytest.fixture
def liar(daemon, open_as):
    return open_as(daemon.agent("liar"))


@pytest.fixture
def honest(daemon, open_as):
    return open_as(daemon.agent("honest"))


def test_verifying_shows_agents_nothing(appliance, honest, daemon, open_as):
    back_up(honest, FILES)
    other = open_as(daemon.agent("other"))
    assert new_chunks(other, FILES) == 2
    report = vouch_all(appliance)
    assert (report.packs, report.index_objects, report.false_objects) == (2, 1, [])
    assert new_chunks(other, FILES) == 2
    assert new_chunks(honest, FILES) == 0
    snapshot = back_up(other, FILES)
    assert read_back(appliance, snapshot.id) == FILES
    assert vouch_all(appliance).packs == 2, "each pack is read once"


def test_a_false_chunk_reaches_nobody(appliance, liar, honest, daemon, open_as):
    claimed = list(FILES.values())
    footer = plant(liar, claimed, os.urandom(sum(map(len, claimed))))
    liar.write_index([footer])
    # The liar itself would rely on it; no one else does, before and after.
    assert new_chunks(liar, FILES) == 0
    assert new_chunks(honest, FILES) == 2
    report = vouch_all(appliance)
    assert [(kind, name) for kind, name, _ in report.false_objects] == [
        ("packs", footer.pack_id.hex())
    ]
    for repository in (liar, honest):
        fresh = open_as(daemon.agent("liar" if repository is liar else "honest"))
        assert new_chunks(fresh, FILES) == 2
    snapshot = back_up(honest, FILES)
    assert read_back(appliance, snapshot.id) == FILES
    assert vouch_all(appliance).false_objects == []
    report = check(appliance, CheckOptions(read_data=DataSubset(), processes=1), NullProgress())
    assert report.findings == (), "what names the false pack is not asked for it any more"


def test_a_false_copy_is_no_reason_to_remove_a_true_one(appliance, liar, honest):
    snapshot = back_up(honest, FILES)
    index = appliance.for_all_clients().load_index()
    (true,) = [pack for pack in index.packs() if pack.kind == KIND_DATA]
    claimed = list(FILES.values())
    assert len(claimed) <= CHUNKS_OF_A_BLOCK
    liar.write_index([plant(liar, claimed, os.urandom(sum(map(len, claimed))))])
    # More to repack, so that the prune has work to do.
    other = back_up(honest, {b"three": b"third" * 999})
    appliance.store.delete("snapshots", other.id)
    for _ in range(2):
        prune(appliance, THOROUGH, NullProgress())
        assert read_back(appliance, snapshot.id) == FILES
    assert true.pack_id.hex() in {info.name for info in appliance.store.list("packs")}


def test_a_false_index_describes_nobody_elses_packs(appliance, liar, honest, daemon):
    snapshot = back_up(honest, FILES)
    index = appliance.for_all_clients().load_index()
    false = []
    for pack in index.packs():
        true = read_footer(appliance.store, appliance.key, pack.pack_id)
        columns = plant(liar, [b"x" * 9], b"y" * 9).columns
        false.append(msgspec.structs.replace(true, owner=liar.writer.client_id, columns=columns))
    # It also says that it replaces all that was written before.
    name = write_index_object(
        liar.store, liar.key, liar.writer.client_id, false, index.object_names, liar.cipher
    )
    assert read_back(appliance, snapshot.id) == FILES
    assert set(index.object_names) < set(Index.load(appliance.store, appliance.key).object_names)
    prune(appliance, THOROUGH, NullProgress())
    assert read_back(appliance, snapshot.id) == FILES
    report = vouch_all(appliance)
    assert ("index", name) in {(kind, one) for kind, one, _ in report.false_objects}
    assert name not in {info.name for info in daemon.local().list("index")}
    assert read_back(appliance, snapshot.id) == FILES
    assert new_chunks(honest, FILES) == 0


def test_a_false_object_is_not_taken_again(appliance, liar, daemon):
    footer = plant(liar, [b"claimed"], b"content")
    name = footer.pack_id.hex()
    data = daemon.local().get("packs", name)
    vouch_all(appliance)
    with pytest.raises(ObjectMissingError):
        daemon.local().get("packs", name)
    writer = liar.store.writer("packs")
    writer.write(data)
    with pytest.raises(DamageError, match="found false"):
        writer.commit(name)


def test_damage_of_our_own_disk_is_not_blamed_on_the_agent(appliance, honest, daemon):
    back_up(honest, FILES)
    path = max(
        (path for path in (daemon.repository / "packs").rglob("*") if path.is_file()),
        key=lambda path: path.stat().st_size,
    )
    data = bytearray(path.read_bytes())
    data[60] ^= 1
    path.write_bytes(data)
    report = vouch_all(appliance)
    assert report.false_objects == []
    assert [name for _, name, _ in report.damaged_objects] == [path.name]


def test_after_vouching_and_pruning_everything_is_sound(appliance, honest, liar, daemon):
    kept = back_up(honest, FILES)
    gone = back_up(liar, {b"four": os.urandom(50_000)})
    vouch_all(appliance)
    appliance.store.delete("snapshots", gone.id)
    prune(appliance, THOROUGH, NullProgress())
    report = check(appliance, CheckOptions(read_data=DataSubset(), processes=1), NullProgress())
    assert report.findings == ()
    assert read_back(appliance, kept.id) == FILES
    assert vouch_all(appliance).packs == 0
    usage = daemon.server.serving.repository("").owner_list.usage()
    liars = usage.get(daemon.client_id("liar"))
    assert liars is None or liars.stored_bytes < 50_000


def test_there_is_nobody_to_vouch_to_in_a_folder(tmp_path, appliance):
    with pytest.raises(UsageError):
        required_judge(LocalStore(tmp_path))
    assert Repository.open(appliance.store, appliance.key)


def test_objects_that_make_no_sense_keep_nobody_from_their_work(appliance, honest, daemon):
    snapshot = back_up(honest, FILES)
    agent, nonsense = daemon.agent("liar"), daemon.object_of("liar", b"nonsense")
    agent.put_new("leases", "1" * 32, nonsense)
    for kind in ("packs", "index", "snapshots", "leases"):
        name = "2" * 32 if kind == "leases" else object_name(nonsense)
        agent.put(kind, name, nonsense)
    assert read_back(appliance, snapshot.id) == FILES
    # Its writer made it so; nothing that another needs is removed.
    prune(appliance, THOROUGH, NullProgress())
    report = vouch_all(appliance)
    assert sorted(kind for kind, _, _ in report.false_objects) == ["index", "packs", "snapshots"]
    prune(appliance, THOROUGH, NullProgress())
    assert [one.id for one in appliance.snapshots()] == [snapshot.id]
    assert read_back(appliance, snapshot.id) == FILES
