"""A compromised agent describes packs in its index that are not its own, or not as they are."""

import os

import msgspec
import pytest

from attacks.test_sharing import PRUNE, client, steal
from kit.block_making import block_id_of, chunk_ids_of, make_pack
from kit.tiny_backup import TinyBackup, back_up, read_back
from strongroom.base.errors import DamageError
from strongroom.base.progress import NullProgress
from strongroom.engine.check.check import CheckOptions, DataSubset, check
from strongroom.engine.check.vouch import required_judge, vouch
from strongroom.engine.prune.prune import prune
from strongroom.engine.repository.index.objects import write_index_object
from strongroom.engine.repository.packs import KIND_DATA, read_footer
from strongroom.engine.repository.restore_ticket import make_ticket
from strongroom.engine.share.share import ShareOptions, share

SECRET = {b"shadow": b"root:secret of web2" * 50}
COMMON = {b"libc": os.urandom(3000), b"bash": os.urandom(2000)}


def packs_of(house, name):
    """What the packs of a client truly hold."""
    owner = house.key.client_id(name)
    ids = [bytes.fromhex(info.name) for info in house.store.list("packs")]
    footers = [read_footer(house.store, house.key, pack_id) for pack_id in ids]
    return [footer for footer in footers if footer.owner == owner]


def claim(thief, footers, superseded=()):
    """An index object of the thief that says that packs are its own, and what is in them."""
    owner = thief.writer.client_id
    mine = [msgspec.structs.replace(footer, owner=owner) for footer in footers]
    store, cipher = thief.store, thief.cipher
    return write_index_object(store, thief.writer, owner, mine, superseded, cipher)


def test_a_claimed_pack_opens_with_no_ticket_and_no_restore_of_the_thief(house):
    back_up(house, SECRET, "web2")
    theirs = next(one for one in packs_of(house, "web2") if one.kind == KIND_DATA)
    claim(client(house, "web1"), [theirs])
    loot = steal(house, "web1", theirs.blocks[0].block_id, 0, 950)
    with pytest.raises(DamageError, match="another client's"):
        make_ticket(house, loot)
    with pytest.raises(DamageError, match="another client's"):
        read_back(house, loot.id)


@pytest.mark.parametrize("number", range(6))
def test_a_claimed_pack_stays_its_owners(house, number):
    """Whichever of the two index objects is read first: their names decide that."""
    kept = back_up(house, {**SECRET, b"number": b"%d" % number}, "web2")
    claim(client(house, "web1"), packs_of(house, "web2"))
    for _ in range(2):
        prune(house, PRUNE, NullProgress())
        assert read_back(house, kept.id)[b"number"] == b"%d" % number
    report = check(house, CheckOptions(read_data=DataSubset()), NullProgress())
    assert {finding.kind for finding in report.findings} <= {"index"}


@pytest.mark.parametrize("number", range(6))
def test_a_claimed_pack_is_not_removed_under_the_backup_that_wrote_it(house, number):
    backup = TinyBackup(house, "web2")
    files = {**SECRET, b"number": b"%d" % number}
    backup.store(files)
    claim(client(house, "web1"), packs_of(house, "web2"))
    prune(house, PRUNE, NullProgress())
    kept = backup.commit()
    for _ in range(2):
        assert read_back(house, kept.id) == files
        prune(house, PRUNE, NullProgress())
    assert read_back(house, kept.id) == files


def test_an_index_replaces_none_of_another_client(house):
    kept = back_up(house, SECRET, "web2")
    names = [info.name for info in house.store.list("index")]
    claim(client(house, "web1"), [], names)
    assert read_back(house, kept.id) == SECRET
    assert not check(house, CheckOptions(), NullProgress()).findings
    prune(house, PRUNE, NullProgress())
    assert {info.name for info in house.store.list("index")} >= set(names)
    assert read_back(house, kept.id) == SECRET


def test_an_index_with_anothers_pack_is_found_false(daemon, appliance, open_as):
    back_up(open_as(daemon.agent("web2"), "web2"), SECRET)
    whole = appliance.for_all_clients()
    name = claim(open_as(daemon.agent("web1"), "web1"), packs_of(whole, "web2"))
    report = vouch(whole, required_judge(appliance.store), NullProgress())
    assert [(kind, one) for kind, one, _ in report.false_objects] == [("index", name)]


def test_an_index_that_lies_about_a_verified_pack_counts_for_nothing(daemon, appliance, open_as):
    """It also names a pack that was never stored, so it is never found true or false."""
    for name in ("web2", "web3"):
        backup = TinyBackup(open_as(daemon.agent(name), name))
        backup.store(COMMON, offered=True)
        backup.commit()
    liar = open_as(daemon.agent("web1"), "web1")
    junk = [os.urandom(len(data)) for data in COMMON.values()]
    whole = appliance.for_all_clients()
    with liar.lease("web1", os.getpid(), "backup"):
        true = make_pack(liar, [junk], offered=True)
        liar.write_index([true])
        wanted = chunk_ids_of(liar, list(COMMON.values()), offered=True)
        lie = msgspec.structs.replace(true.columns, chunk_ids=wanted)
        ghost = msgspec.structs.replace(true, pack_id=bytes(32))
        claim(liar, [ghost, msgspec.structs.replace(true, columns=lie)])
    loot = block_id_of(liar, junk, offered=True)
    for slot, data in enumerate(junk):
        steal(whole, "web1", loot, slot, len(data))
    report = vouch(whole, required_judge(appliance.store), NullProgress())
    assert report.waiting_index_objects == 1
    assert share(whole, ShareOptions(3), NullProgress()).shared_chunks == 0
    assert share(whole, ShareOptions(2), NullProgress()).shared_chunks == len(COMMON)
