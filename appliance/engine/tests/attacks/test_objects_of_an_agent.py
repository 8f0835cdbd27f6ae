"""A compromised agent stores objects that no version of Strongroom would write."""

import pytest

from kit.tiny_backup import back_up, read_back
from strongroom.content.digests import object_name
from strongroom.errors import UnknownFormatError
from strongroom.jobs.check.check import CheckOptions, check
from strongroom.jobs.check.vouch import required_judge, vouch
from strongroom.jobs.repair.repair import RepairOptions, repair
from strongroom.jobs.upkeep.prune import PruneOptions, prune
from strongroom.progress import NullProgress
from strongroom.repo.snapshots import list_snapshots

FILES = {b"one": b"first" * 1000}
MAGIC = {"snapshots": b"SRSN", "index": b"SRIX", "packs": b"SRPK"}


@pytest.mark.parametrize("version", [1, 9])
@pytest.mark.parametrize("kind", ["snapshots", "index", "packs"])
def test_sixteen_bytes_stop_no_backup_restore_or_maintenance(
    daemon, appliance, open_as, kind, version
):
    attacker, victim = open_as(daemon.agent("web1")), open_as(daemon.agent("web2"))
    snapshot = back_up(victim, FILES)
    forged = MAGIC[kind] + bytes([version]) + bytes(11)
    with attacker.lease("web1", 1, "backup"):
        attacker.store.put(kind, object_name(forged), forged)

    again = back_up(victim, {**FILES, b"two": b"second" * 500})
    assert {one.id for one in list_snapshots(appliance.store, appliance.key)} == {
        snapshot.id,
        again.id,
    }
    assert read_back(appliance, snapshot.id) == FILES
    vouch(appliance, required_judge(appliance.store), NullProgress())
    if (kind, version) == ("snapshots", 9):
        # It may be of a later version of the agent: nothing is given back that it could need.
        with pytest.raises(UnknownFormatError):
            prune(appliance, PruneOptions(grace_seconds=0.0), NullProgress())
    else:
        prune(appliance, PruneOptions(grace_seconds=0.0), NullProgress())
    check(appliance, CheckOptions(), NullProgress())
    repair(appliance, RepairOptions(), NullProgress())
    assert read_back(appliance, again.id)[b"two"] == b"second" * 500
