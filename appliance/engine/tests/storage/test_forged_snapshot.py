"""A forged snapshot of one agent keeps the appliance from nothing."""

import os

import pytest

from kit.tiny_backup import TinyBackup, back_up, read_back
from strongroom.base.errors import DamageError
from strongroom.base.progress import NullProgress
from strongroom.engine.check.vouch import required_judge, vouch
from strongroom.engine.content.digests import object_name
from strongroom.engine.prune.prune import prune
from strongroom.engine.prune.prune_options import PruneOptions

FILES = {b"one": b"first" * 1000, b"two": b"second" * 2000}


def test_the_appliance_goes_on_beside_a_forged_snapshot(daemon, appliance, open_as):
    honest = back_up(open_as(daemon.agent("web1")), FILES)
    liar = open_as(daemon.agent("liar"))
    backup = TinyBackup(liar)
    garbage = daemon.object_of("liar", os.urandom(1000))
    liar.store.put_durable("snapshots", object_name(garbage), garbage)
    backup.abandon()
    assert [one.id for one in appliance.snapshots()] == [honest.id]
    prune(appliance, PruneOptions(grace_seconds=0.0, threads=1), NullProgress())
    vouch(appliance, required_judge(appliance.store), NullProgress())
    prune(appliance, PruneOptions(grace_seconds=0.0, threads=1), NullProgress())
    assert read_back(appliance, honest.id) == FILES


def test_a_damaged_snapshot_is_still_told(daemon, appliance, open_as):
    damaged = back_up(open_as(daemon.agent("web1")), FILES)
    path = daemon.repository / "snapshots" / damaged.id
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(DamageError):
        appliance.snapshots()
