"""A compromised agent uses its put key against the content of other clients and against sharing."""

import os
from array import array

import pytest

from kit.kept import known_chunks
from kit.memory_store import MemoryStore
from kit.tiny_backup import DIRECTORY, TinyBackup, back_up, new_repository, read_back
from strongroom.base.errors import DamageError, KeyRightError
from strongroom.base.progress import NullProgress
from strongroom.engine.check.vouch import required_judge, vouch
from strongroom.engine.content.ciphers import BlockCipher
from strongroom.engine.content.codecs import NONE
from strongroom.engine.content.digests import block_id, chunk_id, ids_and_lengths
from strongroom.engine.prune.prune import prune
from strongroom.engine.prune.prune_options import PruneOptions
from strongroom.engine.repository.index.objects import read_index_object, write_index_object
from strongroom.engine.repository.keys.owners import SHARED, agree
from strongroom.engine.repository.keys.roles import ApplianceKey, pack_key
from strongroom.engine.repository.listing.page import encode_page
from strongroom.engine.repository.packs import (
    HEADER_SIZE,
    KIND_DATA,
    KIND_LISTING,
    PackWriter,
    entry_aad,
    parse_header,
    read_footer,
)
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.restore_ticket import make_ticket, open_with_ticket
from strongroom.engine.repository.snapshots import PageReference, Snapshot
from strongroom.engine.rows.rows import new_rows
from strongroom.engine.share.share import ShareOptions, share

SECRET = {b"shadow": b"root:secret of web2" * 50}
PRUNE = PruneOptions(spare_seconds=-1e6, max_unused=0.0, repack_below=1.0, threads=1)


def client(house, name):
    """The repository as the owner of a stolen agent key opens it."""
    return Repository.open(house.store, house.key.put_key(name))


def footers_of(house, owner):
    ids = [bytes.fromhex(info.name) for info in house.store.list("packs")]
    found = [read_footer(house.store, house.key, pack_id) for pack_id in ids]
    return [one for one in found if one.owner == owner]


def steal(house, thief, block, slot, size):
    """A snapshot of the thief whose only file refers to a block that it did not store."""
    repository = client(house, thief)
    stats = array("q", (0o100644, 0, 0, size, 10**18, 10**18, 1, 65, 1, 0))
    rows = new_rows(DIRECTORY, [b"loot"], stats)
    rows.part_counts[0] = 1
    rows.part_blocks += block
    rows.part_slots.append(slot)
    raw = encode_page([rows])
    keys = repository.writer.client.own
    an_id = chunk_id(keys.chunk_key, raw)
    page = block_id(keys.block_key, ids_and_lengths(an_id, len(raw).to_bytes(4, "little")))
    pack = repository.new_pack(KIND_LISTING)
    pack.add(page, an_id, [len(raw)], NONE, raw, len(raw))
    repository.write_index([pack.finish()])
    with repository.lease(thief, os.getpid(), "backup") as lease:
        pages = (PageReference(DIRECTORY, b"loot", page, 1),)
        made = repository.commit(Snapshot(host=thief, paths=(DIRECTORY,), pages=pages), lease)
    return house.snapshot(made.id)


def test_a_snapshot_that_refers_to_anothers_block_gets_no_key_of_it(house):
    back_up(house, SECRET, "web2")
    victim = house.key.client_id("web2")
    (footer,) = (one for one in footers_of(house, victim) if one.kind == KIND_DATA)
    block = footer.blocks[0]
    loot = steal(house, "web1", block.block_id, 0, 950)
    ticket = make_ticket(house, loot)
    opened = open_with_ticket(house.store, house.key.put_key("web1"), ticket)
    assert opened.key.packs.get(footer.pack_id) is None
    reader = opened.reader_of(loot, opened.load_index())
    with pytest.raises(DamageError, match="no pack"):
        reader.chunk(block.block_id, 0)
    with pytest.raises(DamageError, match="no pack"):
        read_back(house, loot.id)


def test_a_copied_public_key_brings_no_key_of_anothers_pack(house):
    back_up(house, SECRET, "web2")
    (theirs,) = (
        one for one in footers_of(house, house.key.client_id("web2")) if one.kind == KIND_DATA
    )
    stolen = house.store.get("packs", theirs.pack_id.hex(), 0, HEADER_SIZE)
    thief = client(house, "web1")
    # Its own header with the public key of the other's, whose private half it need not know.
    mine = parse_header(stolen)._replace(owner=thief.writer.client_id)
    forged = stolen[:8] + thief.writer.client_id + stolen[24:]
    given = house.restore_key.pack_key(mine._replace(raw=forged), bytes(32))
    assert given != house.restore_key.pack_key(parse_header(stolen), theirs.pack_id)
    entry = theirs.blocks[0]
    sealed = house.store.get("packs", theirs.pack_id.hex(), entry.offset, entry.stored_length)
    with pytest.raises(DamageError):
        BlockCipher(mine.cipher, given).open(sealed, entry_aad(stolen, entry))


def test_a_put_key_makes_no_shared_pack_index_or_tombstone(house):
    thief = client(house, "web1")
    with pytest.raises(KeyRightError):
        PackWriter(thief.store, thief.key, SHARED, KIND_DATA, thief.cipher)

    class Pretender(ApplianceKey):
        """All that the put key knows, with its own signing key."""

        def owner(self, owner):
            return thief.key.owner(owner)

    pretender = Pretender(thief.key.repository_id, thief.key.restore_public, b"x" * 32)
    name = write_index_object(thief.store, pretender, SHARED, [], [], thief.cipher)
    for key in (house.key, house.key.put_key("web2")):
        with pytest.raises(DamageError, match="not sign"):
            read_index_object(house.store, key, name, chunks=False)


def claim_falsely(repository, wanted, content):
    """A pack that says it holds offered chunks `wanted`, with other content in their place."""
    keys = repository.writer.client.common
    ids = b"".join(chunk_id(keys.chunk_key, data) for data in wanted)
    lengths = array("I", [len(data) for data in wanted])
    block = block_id(keys.block_key, ids_and_lengths(ids, lengths))
    pack = repository.new_pack(KIND_DATA)
    raw = content[: sum(lengths)]
    pack.add(block, ids, lengths, NONE, raw, len(raw), offered=True)
    footer = pack.finish()
    repository.write_index([footer])
    return footer


COMMON = {b"libc": os.urandom(3000), b"bash": os.urandom(2000)}


def test_false_claims_are_not_counted_copied_or_believed(daemon, appliance, open_as):
    liar = open_as(daemon.agent("web1"), "web1")
    claim_falsely(liar, list(COMMON.values()), bytes(5000))
    honest = {}
    for name in ("web2", "web3"):
        backup = TinyBackup(open_as(daemon.agent(name), name))
        backup.store(COMMON, offered=True)
        honest[name] = backup.commit()
    whole = appliance.for_all_clients()
    judge = required_judge(appliance.store)
    report = vouch(whole, judge, NullProgress())
    assert [kind for kind, _, _ in report.false_objects] == ["packs"]
    assert share(whole, ShareOptions(3), NullProgress()).shared_chunks == 0
    assert share(whole, ShareOptions(2), NullProgress()).shared_chunks == len(COMMON)
    prune(whole, PRUNE, NullProgress())
    for snapshot in honest.values():
        assert read_back(appliance, snapshot.id) == COMMON


def test_an_unverified_pack_is_neither_counted_nor_repacked(daemon, appliance, open_as):
    for name in ("web1", "web2", "web3"):
        backup = TinyBackup(open_as(daemon.agent(name), name))
        backup.store(COMMON, offered=True)
        backup.commit()
    whole = appliance.for_all_clients()
    assert share(whole, ShareOptions(3), NullProgress()).shared_chunks == 0
    unverified = appliance.store.unverified("packs")
    prune(whole, PRUNE, NullProgress())
    assert appliance.store.unverified("packs") == unverified
    vouch(whole, required_judge(appliance.store), NullProgress())
    assert share(whole, ShareOptions(3), NullProgress()).shared_chunks == len(COMMON)


def test_a_pack_that_an_agent_thinned_is_false(daemon, appliance, open_as):
    agent = open_as(daemon.agent("web1"), "web1")
    keys = agent.writer.client.common
    data = b"present", b"absent!"
    ids = b"".join(chunk_id(keys.chunk_key, one) for one in data)
    lengths = array("I", map(len, data))
    pack = agent.new_pack(KIND_DATA)
    block = block_id(keys.block_key, ids_and_lengths(ids, lengths))
    pack.add(block, ids, lengths, NONE, data[0], len(data[0]), b"\2", offered=True)
    agent.write_index([pack.finish()])
    report = vouch(appliance.for_all_clients(), required_judge(appliance.store), NullProgress())
    assert [kind for kind, _, _ in report.false_objects][:1] == ["packs"]


def test_a_worthless_later_copy_is_no_reason_to_remove_a_sound_one(daemon, appliance, open_as):
    agent = open_as(daemon.agent("web1"), "web1")
    backup = TinyBackup(agent)
    backup.store(COMMON, offered=True)
    kept = backup.commit()
    whole = appliance.for_all_clients()
    vouch(whole, required_judge(appliance.store), NullProgress())
    claim_falsely(agent, list(COMMON.values()), bytes(5000))
    prune(whole, PRUNE, NullProgress())
    assert read_back(appliance, kept.id) == COMMON


def test_an_agent_sees_the_chunks_of_nobody_else_unless_they_are_shared(daemon, appliance, open_as):
    for name in ("web1", "web2", "web3"):
        backup = TinyBackup(open_as(daemon.agent(name), name))
        backup.store(COMMON, offered=True)
        backup.store({b"key": b"the same TLS key on three hosts" * 9})
        backup.commit()
    whole = appliance.for_all_clients()
    spy = open_as(daemon.agent("spy"), "spy")
    vouch(whole, required_judge(appliance.store), NullProgress())
    assert len(known_chunks(spy)) == 0
    share(whole, ShareOptions(3), NullProgress())
    spy = open_as(daemon.agent("spy"), "spy")
    assert len(known_chunks(spy)) == len(COMMON)


def test_the_key_of_a_pack_follows_from_owner_kind_and_cipher():
    house = new_repository(MemoryStore()).for_all_clients()
    back_up(house, SECRET, "web2")
    name = next(info.name for info in house.store.list("packs"))
    header = house.store.get("packs", name, 0, HEADER_SIZE)
    shared = agree(house.restore_key.private, parse_header(header).ephemeral_public)
    keys = {pack_key(shared, header, house.key.restore_public)}
    for at in (5, 6, 8, 23):
        changed = header[:at] + bytes([header[at] ^ 1]) + header[at + 1 :]
        keys.add(pack_key(shared, changed, house.key.restore_public))
    assert len(keys) == 5


def test_sharing_and_thinning_lower_no_quota(daemon, appliance, open_as):
    """Or clients that offer the same together store more than each may."""
    names = ("web1", "web2", "web3")
    files = {b"%d" % number: os.urandom(60_000) for number in range(5)}
    for name in names:
        backup = TinyBackup(open_as(daemon.agent(name), name))
        backup.store(files, offered=True)
        backup.commit()
    quotas = daemon.server.serving.repository("").quotas
    whole = appliance.for_all_clients()
    vouch(whole, required_judge(appliance.store), NullProgress())
    assert share(whole, ShareOptions(3), NullProgress()).shared_chunks == len(files)
    while prune(whole, PRUNE, NullProgress()).removed_packs:
        pass
    content = sum(map(len, files.values()))
    usage = daemon.server.serving.repository("").owner_list.usage()
    for name in names:
        owner = daemon.client_id(name)
        # Its own copy is gone, and it is charged for it all the same.
        assert usage[owner].stored_bytes < content // 2
        assert quotas.used()[owner] >= content
