"""A compromised agent stores objects that no version of Strongroom would write."""

import os

import pytest

from kit.passing_store import PassingStore
from kit.tiny_backup import back_up, read_back
from strongroom.base.errors import DamageError
from strongroom.base.progress import NullProgress
from strongroom.engine.check.check import CheckOptions, check
from strongroom.engine.check.vouch import required_judge, vouch
from strongroom.engine.content.digests import object_name
from strongroom.engine.prune.prune import prune
from strongroom.engine.prune.prune_options import PruneOptions
from strongroom.engine.repair.repair import RepairOptions, repair
from strongroom.engine.repository.snapshots import list_snapshots, was_stored_unreadable

FILES = {b"one": b"first" * 1000}
MAGIC = {"snapshots": b"SRSN", "index": b"SRIX", "packs": b"SRPK"}


@pytest.mark.parametrize("version", [1, 9])
@pytest.mark.parametrize("kind", ["snapshots", "index", "packs"])
def test_a_beginning_of_an_object_stops_no_backup_restore_or_maintenance(
    daemon, appliance, open_as, kind, version
):
    attacker, victim = open_as(daemon.agent("web1")), open_as(daemon.agent("web2"))
    snapshot = back_up(victim, FILES)
    forged = MAGIC[kind] + bytes([version]) + bytes(3) + attacker.writer.client_id + bytes(4)
    with attacker.lease("web1", 1, "backup"):
        attacker.store.put(kind, object_name(forged), forged)

    again = back_up(victim, {**FILES, b"two": b"second" * 500})
    assert {one.id for one in list_snapshots(appliance.store, appliance.key)} == {
        snapshot.id,
        again.id,
    }
    assert read_back(appliance, snapshot.id) == FILES
    vouch(appliance, required_judge(appliance.store), NullProgress())
    report = prune(appliance, PruneOptions(grace_seconds=0.0), NullProgress())
    assert [name for name, _ in report.false_snapshots] == (
        [object_name(forged)] if kind == "snapshots" else []
    )
    check(appliance, CheckOptions(), NullProgress())
    repair(appliance, RepairOptions(), NullProgress())
    assert read_back(appliance, again.id)[b"two"] == b"second" * 500


def test_of_what_a_later_version_may_need_nothing_is_given_back(daemon, appliance, open_as):
    later, other = open_as(daemon.agent("web1")), open_as(daemon.agent("web2"))
    gone = [back_up(one, {b"gone": os.urandom(90_000)}) for one in (later, other)]
    forged = b"SRSN" + bytes([9]) + bytes(3) + later.writer.client_id + os.urandom(99)
    with later.lease("web1", 1, "backup"):
        later.store.put("snapshots", object_name(forged), forged)
    for one in gone:
        appliance.store.delete("snapshots", one.id)
    options = PruneOptions(grace_seconds=0.0, spare_seconds=-1e6)
    assert prune(appliance, options, NullProgress()).removed_packs == 2
    owners = appliance.store.owners("packs")
    left = [owners[info.name] for info in appliance.store.list("packs")]
    assert left == [{"web1"}, {"web1"}]
    appliance.store.delete("snapshots", object_name(forged))
    assert prune(appliance, options, NullProgress()).removed_packs == 2


def test_what_was_marked_before_stays_as_well(daemon, appliance, open_as):
    later, other = open_as(daemon.agent("web1")), open_as(daemon.agent("web2"))
    for one in (later, other):
        gone = back_up(one, {b"gone": os.urandom(90_000)})
        appliance.store.delete("snapshots", gone.id)
    waiting = PruneOptions(grace_seconds=3600.0, spare_seconds=-1e6)
    assert prune(appliance, waiting, NullProgress()).waiting_packs == 4
    forged = b"SRSN" + bytes([9]) + bytes(3) + later.writer.client_id + os.urandom(99)
    with later.lease("web1", 1, "backup"):
        later.store.put("snapshots", object_name(forged), forged)
    options = PruneOptions(grace_seconds=0.0, spare_seconds=-1e6)
    report = prune(appliance, options, NullProgress())
    assert (report.removed_packs, report.waiting_packs) == (2, 2)
    owners = appliance.store.owners("packs")
    assert [owners[info.name] for info in appliance.store.list("packs")] == [{"web1"}, {"web1"}]
    appliance.store.delete("snapshots", object_name(forged))
    assert prune(appliance, options, NullProgress()).removed_packs == 2


class ReadOnceWrong(PassingStore):
    """The first read of a snapshot brings a flipped bit, as a bad cable or memory does."""

    def get(self, kind, name, offset=0, length=None):
        data = super().get(kind, name, offset, length)
        if kind == "snapshots" and not self.__dict__.setdefault("read", False):
            self.read = True
            return data[:-1] + bytes([data[-1] ^ 1])
        return data


def test_a_read_that_goes_wrong_once_makes_no_snapshot_invalid(daemon, appliance, open_as):
    snapshot = back_up(open_as(daemon.agent("web1")), FILES)
    assert snapshot.id in appliance.store.unverified("snapshots")
    store = ReadOnceWrong(appliance.store, lambda _: None)
    with pytest.raises(DamageError):
        list_snapshots(store, appliance.key)
    assert not was_stored_unreadable(
        ReadOnceWrong(appliance.store, lambda _: None), appliance.key, snapshot.id
    )
    assert not was_stored_unreadable(appliance.store, appliance.key, snapshot.id)
    assert read_back(appliance, snapshot.id) == FILES
