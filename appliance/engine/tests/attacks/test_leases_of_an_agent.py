"""A compromised agent keeps leases forever, so that no space is freed any more."""

import os
import struct

import pytest

from kit.tiny_backup import back_up, new_repository, read_back
from strongroom.base.progress import NullProgress
from strongroom.engine.prune.prune import prune
from strongroom.engine.prune.prune_options import PruneOptions
from strongroom.engine.repository.leases import APPLIANCE, MOST_AGE_SECONDS
from strongroom.engine.stores.local import LocalStore

PRUNE = PruneOptions(max_unused=0.0, repack_below=1.0, grace_seconds=0.0, threads=1)
LEASE = "1" * 32
FILES = {b"%d" % number: os.urandom(2000) for number in range(6)}


@pytest.fixture
def house(folder):
    made = new_repository(LocalStore(str(folder / "repository")))
    yield made.for_all_clients()
    made.close()


def head(owner):
    return struct.pack("<4sB3x16s", b"SRLS", 1, owner)


def lease_of(house, name):
    """A sound lease of a client that says that it begins now, and knows no tombstone."""
    with house.for_client(name).lease(name, 1, "backup") as lease:
        return house.store.get("leases", lease.name)


FORGED = {
    "nothing": lambda _: b"",
    "noise": lambda _: os.urandom(200),
    "the appliance's": lambda _: head(APPLIANCE) + bytes(80),
    "the victim's": lambda house: head(house.key.client_id("web2")) + bytes(80),
    "its own": lambda house: lease_of(house, "web1"),
}


def age(house, kind):
    """Make all objects of a kind as old as no client's lease gets."""
    for folder, _, names in os.walk(os.path.join(house.store.location, kind)):
        for name in names:
            path = os.path.join(folder, name)
            status = os.stat(path)
            old = status.st_mtime_ns - int((MOST_AGE_SECONDS + 7200) * 1e9)
            os.utime(path, ns=(old, old))


@pytest.mark.parametrize("forged", FORGED)
def test_a_lease_without_end_keeps_space_for_seven_days_at_most(house, forged):
    gone = back_up(house, FILES, "web2")
    kept = back_up(house, {b"0": FILES[b"0"]}, "web2")
    house.store.delete("snapshots", gone.id)
    house.store.put("leases", LEASE, FORGED[forged](house))

    def tidy():
        # It renews its lease all the time.
        os.utime(os.path.join(house.store.location, "leases", LEASE))
        return prune(house, PRUNE, NullProgress())

    age(house, "packs")
    first = tidy()
    assert first.marked_packs
    age(house, "tombstones")
    removed = first.removed_packs + tidy().removed_packs
    assert removed >= first.marked_packs
    assert list(house.store.list("tombstones")) == []
    assert read_back(house, kept.id) == {b"0": FILES[b"0"]}
