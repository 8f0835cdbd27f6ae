"""An agent and a real storage daemon: modes, grants, and a daemon that goes away meanwhile."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.agent_site import CLIENT, AgentSite
from kit.appliance_keys import client_of
from kit.storage_site import StorageSite
from kit.tree_compare import compare_trees
from strongroom.agent.put_keys import keep_put_key
from strongroom.engine.knobs.settings import KnobSettings
from strongroom.engine.repository.keys.files import import_key
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.restore_ticket import make_ticket
from strongroom.engine.repository.ticket_objects import TicketObject, store_ticket
from strongroom.net.control.messages import SetBandwidth, StartRestore, StorageTarget
from strongroom.net.identities.statements import sign_statement
from strongroom.net.storage.place import open_socket, parse_place


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[StorageSite]:
    folder = tmp_path.resolve() / "storage"
    folder.mkdir()
    site = StorageSite(folder, "Tls Require = no")
    yield site
    site.stop()


@pytest.fixture
def agent(tmp_path: Path, storage: StorageSite) -> Iterator[AgentSite]:
    """An agent of the same house, with the put key of the daemon's repository."""
    folder = tmp_path.resolve() / "machine"
    folder.mkdir()
    web1 = client_of(import_key(storage.restore_key.read_text()), CLIENT)
    site = AgentSite(folder, others=storage.authority, clients=(web1,))
    keep_put_key(str(site.identity), storage.put_key.read_text())
    site.start_connected()
    yield site
    site.close()


def target(storage: StorageSite, mode: str) -> StorageTarget:
    return StorageTarget(
        address="127.0.0.1",
        port=storage.port,
        server_name="vault",
        tls_mode=mode,  # type: ignore[arg-type]
        repository_id="disk",
    )


def ticket_of(storage: StorageSite, snapshot_id: str) -> TicketObject:
    key = import_key(storage.restore_key.read_text())
    repository = Repository.open(open_socket(parse_place(storage.place)), key)
    ticket = make_ticket(repository, repository.snapshot(snapshot_id))
    stored = store_ticket(repository.store, ticket)
    repository.close()
    return stored


@pytest.mark.parametrize("mode", ["tls", "off"])
def test_a_backup_goes_there_and_comes_back_with_a_grant(
    agent: AgentSite, storage: StorageSite, mode: str
) -> None:
    (agent.source / "a").write_bytes(os.urandom(3 << 20))
    request = agent.backup(storage=target(storage, mode))
    agent.director.send(request)
    ended = agent.director.ended(request.run_id)
    assert (ended.status, ended.error) == ("done", "")
    assert ended.security["mode"] == mode
    again = agent.backup(storage=target(storage, mode), parent=ended.snapshot)
    agent.director.send(again)
    second = agent.director.ended(again.run_id)
    assert (second.status, second.summary["new_bytes"]) == ("done", 0)
    ticket = ticket_of(storage, ended.snapshot)
    payload = {
        "agent": CLIENT,
        "client": import_key(storage.restore_key.read_text()).client_id(CLIENT).hex(),
        "snapshot": ended.snapshot,
        "ticket": ticket.name,
    }
    restore = StartRestore(
        run_id=uuid.uuid4().hex,
        job="restore",
        storage=target(storage, mode),
        ticket=ticket,
        grant=sign_statement(agent.director_identity, "restore", payload, 600),
        target=str(agent.folder / "back"),
    )
    agent.director.send(restore)
    restored = agent.director.ended(restore.run_id)
    assert (restored.status, restored.error) == ("done", "")
    back = os.fsencode(str(agent.folder / "back") + str(agent.source))
    assert compare_trees(os.fsencode(agent.source), back) == []


def test_a_backup_waits_for_a_daemon_that_is_restarted(
    agent: AgentSite, storage: StorageSite
) -> None:
    for number in range(100):
        (agent.source / str(number)).write_bytes(os.urandom(1 << 20))
    request = agent.backup(
        storage=target(storage, "tls"),
        tuning=KnobSettings(compression="none", shards=1),
        maximum_bytes_per_second=16 << 20,
    )
    agent.director.send(request)
    # A pack is done with 32 MiB, and two are filled at a time.
    agent.director.progress(request.run_id, 66 << 20)
    agent.director.send(SetBandwidth(run_id=request.run_id, maximum_bytes_per_second=100 << 10))
    storage.kill()
    agent.director.await_log(request.run_id, "trying again")
    storage.start()
    agent.director.send(SetBandwidth(run_id=request.run_id, maximum_bytes_per_second=0))
    ended = agent.director.ended(request.run_id)
    assert (ended.status, ended.error) == ("done", "")
    # One attempt after the other: what the first had stored was not stored again.
    assert ended.summary["new_bytes"] < 100 << 20


def test_a_stranger_to_the_daemon_is_told_so(agent: AgentSite, storage: StorageSite) -> None:
    (agent.source / "a").write_text("a")
    storage.authority.revoke(CLIENT)
    request = agent.backup(storage=target(storage, "tls"))
    agent.director.send(request)
    ended = agent.director.ended(request.run_id)
    assert (ended.status, ended.error_id) == ("failed", "peer-refused")
