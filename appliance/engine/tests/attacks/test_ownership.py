"""A compromised agent stores what another stored before, to become an owner of it too."""

import pytest

from kit.tiny_backup import back_up
from strongroom.base.errors import ObjectMissingError, RightError

FILES = {b"one": b"first" * 1000}
LEASE = "1" * 32


@pytest.mark.parametrize("mode", ["publish", "put", "durable", "new", "replace"])
def test_nobody_takes_over_the_lease_of_another(daemon, appliance, mode):
    victim, attacker = daemon.agent("web2"), daemon.agent("web1")
    theirs, renewed = (daemon.object_of("web2", text) for text in (b"mine", b"renewed"))
    mine = daemon.object_of("web1", b"mine")
    free = "2" * 32
    assert victim.put_new("leases", LEASE, theirs)

    def take() -> None:
        if mode == "publish":
            writer = attacker.writer("leases")
            writer.write(mine)
            writer.commit(LEASE)
        elif mode == "new":
            attacker.put_new("leases", LEASE, mine)
        else:
            store = {"put": attacker.put, "durable": attacker.put_durable}
            store.get(mode, attacker.replace)("leases", LEASE, mine)

    # A renewal tells nothing; otherwise the name is taken, whatever the size of what has it.
    with pytest.raises(ObjectMissingError if mode == "replace" else RightError) as told:
        take()
    assert "another" not in str(told.value).replace("choose another name", "")
    for name in (LEASE, free):
        with pytest.raises(ObjectMissingError) as told:
            attacker.replace("leases", name, mine)
        assert str(told.value).count(name) == 1
        attacker.delete("leases", name)
    assert [info.name for info in attacker.list("leases")] == []
    victim.replace("leases", LEASE, renewed)
    assert daemon.local().get("leases", LEASE) == renewed
    assert daemon.local().owners("leases") == {LEASE: {"web2"}}
    victim.delete("leases", LEASE)
    assert list(daemon.local().list("leases")) == []


@pytest.mark.parametrize("kind", ["packs", "index", "snapshots"])
def test_whoever_stores_the_same_bytes_again_does_not_own_them(daemon, appliance, open_as, kind):
    back_up(open_as(daemon.agent("web2")), FILES)
    local, attacker = daemon.local(), daemon.agent("web1")
    mine = daemon.object_of("web1", b"mine")
    attacker.put_new("leases", LEASE, mine)
    for name in [info.name for info in local.list(kind)]:
        data = local.get(kind, name)
        for store in (attacker.put, attacker.put_durable):
            with pytest.raises(RightError, match="of another client"):
                store(kind, name, data)
        with pytest.raises(RightError):
            attacker.delete(kind, name)
        with pytest.raises(ObjectMissingError):
            attacker.get(kind, name)
        assert local.owners(kind)[name] == {"web2"}
    web1 = daemon.client_id("web1")
    assert daemon.server.serving.repository("").quotas.used()[web1] == len(mine)


def test_an_object_that_has_lost_its_entry_becomes_nobodys(daemon, appliance, open_as):
    back_up(open_as(daemon.agent("web2")), FILES)
    local = daemon.local()
    packs = {info.name: local.get("packs", info.name) for info in local.list("packs")}
    local.close()
    daemon.server.stop()
    (daemon.repository / "provenance" / "objects.sqlite").unlink()
    daemon.restart()
    attacker = daemon.agent("web1")
    for name, data in packs.items():
        with pytest.raises(RightError):
            attacker.put("packs", name, data)
    assert daemon.local().owners("packs") == {}


def test_what_the_appliance_stores_again_is_verified_and_stays_its_owners(
    daemon, appliance, open_as
):
    back_up(open_as(daemon.agent("web2")), FILES)
    local = daemon.local()
    name = next(info.name for info in local.list("packs"))
    local.put("packs", name, local.get("packs", name))
    assert name not in local.unverified("packs")
    assert local.owners("packs")[name] == {"web2"}
