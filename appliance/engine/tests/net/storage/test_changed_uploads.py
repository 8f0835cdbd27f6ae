"""In mode off somebody on the way can change an upload; it is found out and nothing is stored."""

import os

import pytest

from kit.appliance_keys import client_of
from kit.connections import House, Relay
from kit.tiny_backup import new_repository
from strongroom.base.errors import ConnectionLostError, DamageError
from strongroom.engine.content.digests import object_name
from strongroom.net.channels.connecting import Acceptor, connect
from strongroom.net.storage.place import open_socket, parse_place
from strongroom.net.storage.protocol import PROTOCOL_VERSION, StorageHello
from strongroom.net.storage.store import RemoteStore
from strongroom.storage.admission import Admission
from strongroom.storage.server import StorageServer
from strongroom.storage.settings import StorageDaemonSettings


@pytest.fixture
def attacked(folder):
    """Makes a store whose way to the daemon goes through a relay that changes some bytes.

    And content that the agent may store.
    """
    house = House(folder)
    settings = StorageDaemonSettings(
        "vault",
        (("disk", os.fsencode(folder / "repository")),),
        addresses=(("127.0.0.1", 0),),
        socket_path=os.fsencode(folder / "storage.sock"),
        admission=Admission(clients=frozenset(("web1",))),
    )
    acceptor = Acceptor(house.storage, lambda *_: True)
    server = StorageServer(settings, acceptor.accept)
    server.start()
    place = parse_place(f"unix:{folder}/storage.sock")
    repository = new_repository(open_socket(place))
    web1 = client_of(repository.key, "web1")
    repository.close()
    agent = house.authority.issue_identity(str(folder / "x"), "web1", "agent", clients=[web1])
    content = bytes(8) + web1.client + b"content" * 100_000
    stores = []

    def make(old: bytes, new: bytes) -> RemoteStore:
        relay = Relay(lambda from_client, data: data.replace(old, new) if from_client else data)
        port = server.ports[0]
        store = RemoteStore(
            "strongroom://vault",
            lambda: connect("127.0.0.1", relay(port), "vault", agent, "off"),
            StorageHello(PROTOCOL_VERSION),
        )
        stores.append(store)
        return store

    yield make, content
    for store in stores:
        store.close()
    server.stop()
    acceptor.close()


def _put(store: RemoteStore, content: bytes, name: str) -> None:
    writer = store.writer("packs")
    writer.write(content)
    writer.commit(name)


def test_a_changed_pack_is_refused(attacked):
    attack, content = attacked
    store = attack(b"tentcon", b"TENTCON")
    with pytest.raises(DamageError, match="its name"):
        _put(store, content, object_name(content))
    assert list(store.list("packs")) == []


def test_a_changed_name_breaks_the_connection(attacked):
    attack, content = attacked
    name = object_name(content)
    store = attack(name.encode(), b"0" * len(name))
    with pytest.raises(ConnectionLostError):
        _put(store, content, name)
    assert list(attack(b"nothing", b"nothing").list("packs")) == []


def test_an_unchanged_pack_is_stored(attacked):
    attack, content = attacked
    store = attack(b"nowhere to be found", b"")
    _put(store, content, object_name(content))
    assert store.get("packs", object_name(content)) == content
