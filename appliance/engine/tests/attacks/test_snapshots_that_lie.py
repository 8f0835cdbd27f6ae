"""A compromised agent stores snapshots that refer to nothing, to others, or tell false totals."""

import msgspec
import pytest

from kit.forged_snapshot import NO_BLOCK, file_row, forge
from kit.tiny_backup import THOROUGH, back_up, read_back
from strongroom.base.progress import NullProgress
from strongroom.engine.check.vouch import required_judge, vouch
from strongroom.engine.prune.prune import prune
from strongroom.engine.repository.block_columns import BlockColumns
from strongroom.engine.repository.packs import KIND_DATA, PackFooter, read_footer

FILES = {b"one": b"first" * 1000, b"two": b"second" * 2000}


@pytest.fixture
def attacker(daemon, open_as):
    return open_as(daemon.agent("web1"), "web1")


@pytest.fixture
def victim(daemon, open_as):
    return open_as(daemon.agent("web2"), "web2")


def names_no_block(attacker):
    return forge(attacker, file_row(b"f", NO_BLOCK))


def names_a_pack_that_was_never_stored(attacker):
    """Its index describes the pack, so the block looks as if it were there."""
    block = b"\x77" * 24
    columns = BlockColumns(
        block_ids=block,
        codecs=b"\0",
        flags=b"\0",
        stored_lengths=(100).to_bytes(4, "little"),
        raw_lengths=(10).to_bytes(4, "little"),
        chunk_counts=(1).to_bytes(2, "little"),
        dead=b"",
        chunk_ids=bytes(24),
        chunk_lengths=(10).to_bytes(4, "little"),
    )
    footer = PackFooter(attacker.writer.client_id, b"\x99" * 32, KIND_DATA, 300, columns)
    attacker.write_index([footer])
    return forge(attacker, file_row(b"f", block))


@pytest.mark.parametrize("is_vouched", [False, True])
@pytest.mark.parametrize("lie", [names_no_block, names_a_pack_that_was_never_stored])
def test_a_snapshot_that_names_what_is_not_there_stops_no_prune(
    appliance, attacker, victim, lie, is_vouched
):
    kept = back_up(victim, FILES)
    gone = back_up(victim, {b"three": b"third" * 50_000})
    own = back_up(attacker, {b"mine": b"of the attacker" * 500})
    false = lie(attacker)
    if is_vouched:
        vouch(appliance, required_judge(appliance.store), NullProgress())
    appliance.store.delete("snapshots", gone.id)
    report = prune(appliance, THOROUGH, NullProgress())
    assert [name for name, _ in report.false_snapshots] == [false.id]
    assert report.summary()["false_snapshots"][0]["snapshot"] == false.id
    assert report.removed_packs > 0
    assert read_back(appliance, kept.id) == FILES
    assert read_back(appliance, own.id)
    # Its own client's waste is kept, until somebody forgets it.
    appliance.store.delete("snapshots", own.id)
    assert prune(appliance, THOROUGH, NullProgress()).removed_packs == 0
    appliance.store.delete("snapshots", false.id)
    report = prune(appliance, THOROUGH, NullProgress())
    assert (report.removed_packs > 0, report.false_snapshots) == (True, ())
    assert read_back(appliance, kept.id) == FILES


def test_of_the_client_of_a_verified_snapshot_that_lacks_something_nothing_goes(appliance, victim):
    kept = back_up(victim, FILES)
    gone = back_up(victim, {b"three": b"third" * 50_000})
    vouch(appliance, required_judge(appliance.store), NullProgress())
    appliance.store.delete("snapshots", gone.id)
    index = appliance.for_all_clients().load_index()
    pages = appliance.snapshot(kept.id).pages
    lost = index.of_client(kept.owner).locate(pages[0].block_id).pack_id.hex()
    appliance.store.delete("packs", lost)
    packs = {info.name for info in appliance.store.list("packs")}
    report = prune(appliance, THOROUGH, NullProgress())
    assert lost in report.set_aside.names("packs")
    assert (report.marked_packs, report.removed_packs) == (0, 0)
    assert {info.name for info in appliance.store.list("packs")} == packs


def test_a_new_snapshot_whose_index_the_disk_lost_loses_nothing_to_prune(appliance, victim):
    kept = back_up(victim, FILES)
    for info in list(appliance.store.list("index")):
        appliance.store.delete("index", info.name)
    report = prune(appliance, THOROUGH, NullProgress())
    assert [name for name, _ in report.false_snapshots] == [kept.id]
    assert report.removed_packs == report.marked_packs == 0
    # The next verification indexes its packs again.
    vouch(appliance, required_judge(appliance.store), NullProgress())
    assert prune(appliance, THOROUGH, NullProgress()).false_snapshots == ()
    assert read_back(appliance, kept.id) == FILES


def test_an_index_that_says_another_size_of_its_own_pack_stops_no_prune(
    appliance, attacker, victim
):
    own = back_up(attacker, FILES)
    kept = back_up(victim, FILES)
    gone = back_up(victim, {b"three": b"third" * 50_000})
    index = appliance.for_all_clients().load_index()
    mine = [pack for pack in index.packs() if index.owners[pack.owner] == own.owner]
    footers = [read_footer(appliance.store, appliance.key, pack.pack_id) for pack in mine]
    for info in list(attacker.store.list("index")):
        appliance.store.delete("index", info.name)
    with attacker.lease("web1", 1, "backup"):
        attacker.write_index(
            [msgspec.structs.replace(one, size_bytes=one.size_bytes + 1) for one in footers]
        )
    appliance.store.delete("snapshots", gone.id)
    report = prune(appliance, THOROUGH, NullProgress())
    assert set(report.set_aside.names("packs")) == {pack.pack_id.hex() for pack in mine}
    assert report.removed_packs > 0
    assert read_back(appliance, kept.id) == FILES
    assert {pack.pack_id.hex() for pack in mine} <= {
        info.name for info in appliance.store.list("packs")
    }
