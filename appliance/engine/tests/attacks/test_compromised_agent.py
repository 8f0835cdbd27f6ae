"""A compromised agent, with its certificate and put key, at a real storage daemon and director."""

import os

import pytest

from kit.director_in_process import OPERATOR, TestDirector, client, in_loop, job
from kit.director_with_repositories import rebuild_catalog
from kit.tiny_backup import PASSPHRASE, TinyBackup, back_up, new_repository, read_back
from kit.virtual_time import ShiftedTime
from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import (
    DamageError,
    FalseSnapshotError,
    KeyRightError,
    LeaseError,
    ObjectMissingError,
    QuotaError,
    RightError,
    StrongroomError,
)
from strongroom.base.progress import NullProgress
from strongroom.director.results.snapshots import RestoreRequest
from strongroom.engine.check.vouch import required_judge, vouch
from strongroom.engine.content.digests import object_name
from strongroom.engine.repository.keys.owners import SHARED
from strongroom.engine.repository.leases import MOST_AGE_SECONDS
from strongroom.engine.repository.packs import HEADER_SIZE, KIND_DATA, parse_header
from strongroom.engine.repository.restore_ticket import make_ticket, open_with_ticket
from strongroom.engine.repository.ticket_objects import fetch_ticket
from strongroom.engine.stores.capabilities import ChargesShared
from strongroom.engine.stores.store import KINDS
from strongroom.net.control.messages import StartRestore, StartVerify
from strongroom.net.identities.authority import Authority
from strongroom.net.identities.statements import verify_statement
from strongroom.storage.settings import StorageLimits

COMPARE = """Job { Name = compare; Type = Verify; Level = DiskToCatalog; Client = web1
  FileSet = Home; Storage = main; Pool = Default; Messages = Standard; JobToVerify = nightly }
"""
SECRET = {b"shadow": b"root:secret of web2" * 100}
LEASE = "1" * 32
ORDERS = (StartRestore, StartVerify)
ADDED = ("packs", "index", "snapshots", "leases")


def names(store, kind):
    return {info.name for info in store.list(kind)}


@pytest.mark.parametrize("verified", [False, True])
def test_an_agent_sees_no_name_of_another_clients_objects(daemon, appliance, open_as, verified):
    victim = open_as(daemon.agent("web2"))
    back_up(victim, SECRET)
    victim.lease("web2", 1, "backup")
    if verified:
        vouch(appliance, required_judge(appliance.store), NullProgress())
    tombstone = daemon.object_of("web2", b"a tombstone")
    daemon.local().put("tombstones", object_name(tombstone), tombstone)
    attacker = daemon.agent("web1")
    for kind in KINDS:
        assert names(attacker, kind) == ({"config"} if kind == "config" else set())
    for kind in (*ADDED, "tombstones", "keys"):
        for name in names(daemon.local(), kind):
            for ask in (attacker.get, attacker.info):
                with pytest.raises(ObjectMissingError):
                    ask(kind, name)
    assert attacker.unverified("packs") == frozenset()


@pytest.mark.parametrize("kind", ADDED)
@pytest.mark.parametrize("whose", ["web2", "all", "nobody"])
def test_an_agent_stores_nothing_that_is_not_its_own(daemon, appliance, kind, whose):
    attacker = daemon.agent("web1")
    attacker.put_new("leases", LEASE, daemon.object_of("web1", b"its own"))
    owner = {"web2": daemon.client_id("web2"), "all": SHARED, "nobody": b""}[whose]
    forged = bytes(8) + owner + b"content"[: 7 if owner else 1]
    name = "2" * 32 if kind == "leases" else object_name(forged)
    for put in (attacker.put, attacker.put_new, attacker.put_durable):
        with pytest.raises(RightError, match=f"{kind} of"):
            put(kind, name, forged)
    writer = attacker.writer(kind)
    writer.write(forged)
    with pytest.raises(RightError):
        writer.commit(name)
    if kind == "leases":
        with pytest.raises(RightError):
            attacker.replace(kind, LEASE, forged)
    assert names(daemon.local(), kind) == ({LEASE} if kind == "leases" else set())
    for other in ("tombstones", "config", "keys", "tickets"):
        with pytest.raises(RightError):
            attacker.put(other, object_name(forged), forged)


def test_an_agent_without_an_id_in_its_certificate_does_nothing(daemon, appliance):
    daemon.anonymous.add("web1")
    with pytest.raises(RightError, match="which client"):
        list(daemon.agent("web1").list("packs"))


def test_a_lease_that_is_renewed_for_ever_ends(daemon, appliance, monkeypatch):
    attacker = daemon.agent("web1")
    text = daemon.object_of("web1", b"it has just begun, it says")
    attacker.put_new("leases", LEASE, text)
    now_ns, since_boot_ns = clock.now_ns, clock.since_boot_ns
    later = 0

    def pass_time(seconds):
        nonlocal later
        later += int(seconds * SECOND_NS)
        monkeypatch.setattr(clock, "now_ns", lambda: now_ns() + later)
        monkeypatch.setattr(clock, "since_boot_ns", lambda: since_boot_ns() + later)

    pass_time(MOST_AGE_SECONDS - 60)
    attacker.replace("leases", LEASE, text)
    pass_time(120)
    with pytest.raises(LeaseError, match="7 days"):
        attacker.replace("leases", LEASE, text)
    assert names(daemon.local(), "leases") == set()
    with pytest.raises(ObjectMissingError):
        attacker.replace("leases", LEASE, text)


def test_what_is_stored_for_a_client_counts_in_its_quota(make_daemon):
    daemon = make_daemon(limits=StorageLimits(quotas={"web1": 300_000}))
    appliance = new_repository(daemon.local())
    agent, local = daemon.agent("web1"), daemon.local()

    def put(size):
        data = daemon.object_of("web1", os.urandom(size))
        agent.put("packs", object_name(data), data)

    put(100_000)
    # A pack that prune rewrote, and what the client uses of shared packs.
    rewritten = daemon.object_of("web1", os.urandom(100_000))
    local.put("packs", object_name(rewritten), rewritten)
    quotas = local.capability(ChargesShared)
    quotas.charge(daemon.client_id("web1"), 90_000)
    with pytest.raises(QuotaError):
        put(20_000)
    daemon.restart()
    agent, local = daemon.agent("web1"), daemon.local()
    with pytest.raises(QuotaError):
        put(20_000)
    local.capability(ChargesShared).charge(daemon.client_id("web1"), 10_000)
    put(20_000)
    with pytest.raises(RightError):
        agent.charge(daemon.client_id("web1"), 0)
    # The appliance itself is stopped by no quota of a client.
    more = daemon.object_of("web1", os.urandom(200_000))
    local.put("packs", object_name(more), more)
    appliance.close()


@pytest.fixture
def director(tmp_path, monkeypatch, daemon):
    authority = Authority.create(str(tmp_path / "ca"), "house")
    identity = authority.issue_identity(str(tmp_path / "identity"), "dir", "director")
    (tmp_path / "passphrase").write_bytes(PASSPHRASE + b"\n")
    (tmp_path / "passphrase").chmod(0o600)
    made = TestDirector(tmp_path, ShiftedTime(monkeypatch), identity)
    made.configure(
        client("web1") + client("web2") + job("nightly") + COMPARE,
        storage=f'Repository = "unix:{daemon.socket_path}"; '
        f'PassphraseFile = "{tmp_path}/passphrase"',
    )
    return made


def steal(thief, appliance):
    """The packs of web2, and a backup of the thief whose rows refer to a block there."""
    index = appliance.for_all_clients().load_index()
    web2 = appliance.key.client_id("web2")
    packs = [pack for pack in index.packs() if index.owners[pack.owner] == web2]
    (data,) = [pack for pack in packs if pack.kind == KIND_DATA]
    backup = TinyBackup(thief)
    backup.refer(b"loot", index.block_ids(data.first_row, 1), 0, len(SECRET[b"shadow"]))
    return packs, backup


@pytest.mark.parametrize("way", ["restore", "verify"])
def test_no_ticket_opens_a_pack_of_a_client_that_the_snapshot_does_not_own(
    director, daemon, appliance, open_as, way
):
    @in_loop
    async def test(director):
        back_up(open_as(daemon.agent("web2")), SECRET)
        agent = await director.with_agent()
        run = await director.start("nightly")
        await agent.start(run.id)
        packs, backup = steal(open_as(daemon.agent("web1")), appliance)
        false = backup.commit(agent.order().tags, job="nightly").id
        await director.end(agent, run.id, snapshot=false)
        if way == "restore":
            request = RestoreRequest(false, client="web1", target=b"/tmp/loot")
            with pytest.raises(FalseSnapshotError):
                await director.service.commands.start_restore(request, OPERATOR)
        else:
            assert (await director.start("compare")).state == "failed"
        await director.settle()
        assert not [one for one in agent.orders.values() if isinstance(one, ORDERS)]
        local = daemon.local()
        assert names(local, "tickets") == set()
        # Nor does one that is made of it all the same.
        ticket = make_ticket(appliance.for_all_clients(), appliance.snapshot(false))
        opened = open_with_ticket(local, appliance.key.put_key("web1"), ticket)
        assert not {pack.pack_id for pack in packs} & set(opened.key.packs)
        with pytest.raises((DamageError, KeyRightError)):
            read_back(opened, false)

    test(director=director)


@in_loop
async def test_a_restore_to_another_client_shows_it_that_snapshot_only(
    director, daemon, appliance, open_as
):
    """What the operator wants to give web1 of web2 it gets, and nothing else of web2."""
    await director.open()
    owner, receiver = await director.agent("web2"), await director.agent("web1")
    repository = open_as(daemon.agent("web2"))
    kept = back_up(repository, {b"other": os.urandom(9000)})
    given = back_up(repository, SECRET)
    context = director.service.context
    await context.with_repository(rebuild_catalog, context, "main")
    request = RestoreRequest(given.id, client="web1", target=b"/tmp/back")
    await director.service.commands.start_restore(request, OPERATOR)
    await director.settle()
    order = receiver.order(StartRestore)
    assert not owner.orders
    grants = {
        "it": verify_statement(order.grant, director.identity.trust, "restore", ("director",))[1]
    }
    daemon.read_grant = grants.__getitem__
    daemon.restart()
    store = daemon.agent("web1", grant="it")
    assert names(store, "snapshots") == {given.id}
    opened = open_with_ticket(
        store, appliance.key.put_key("web1"), fetch_ticket(store, order.ticket)
    )
    assert read_back(opened, given.id) == SECRET
    with pytest.raises(StrongroomError):
        opened.snapshot(kept.id)
    for pack in names(store, "packs"):
        is_given = opened.key.packs.get(bytes.fromhex(pack)) is not None
        header = parse_header(store.get("packs", pack, 0, HEADER_SIZE))
        if not is_given:
            with pytest.raises(KeyRightError):
                opened.key.pack_key(header, bytes.fromhex(pack))
    # Its put key alone, or that of somebody else, opens nothing with this ticket.
    with pytest.raises(DamageError):
        open_with_ticket(store, appliance.key.put_key("web3"), fetch_ticket(store, order.ticket))
