"""A storage daemon on loopback, in threads of the test, and stores that lead to it."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

from kit.tiny_backup import PASSPHRASE
from kit.user import User
from strongroom.base.errors import ConnectionLostError, RepositoryNotFoundError
from strongroom.config.settings.daemons import EVERYBODY
from strongroom.engine.repository.keys.roles import ApplianceKey, required_appliance_key
from strongroom.engine.repository.repository import Repository
from strongroom.engine.stores.local import LocalStore
from strongroom.engine.stores.servable import ServableStore
from strongroom.engine.stores.store import Store
from strongroom.net.channels.channel import Channel, tune_socket
from strongroom.net.channels.greeting import receive_greeting, send_welcome
from strongroom.net.channels.local_channel import LocalChannel
from strongroom.net.identities.peer import ClientOf, Peer
from strongroom.net.storage.place import open_socket, parse_place
from strongroom.net.storage.protocol import PROTOCOL_VERSION, StorageHello
from strongroom.net.storage.store import RemoteStore
from strongroom.storage.admission import READING_VERBS, Admission
from strongroom.storage.bucket import Bucket
from strongroom.storage.server import StorageServer
from strongroom.storage.settings import StorageDaemonSettings, StorageLimits

DIRECTOR = Peer("director", "director", "1")


class Daemon:
    """A real server; peers over TCP are who they say they are, which is what TLS is for.

    Without an `admission` every agent and director may connect, and operators to read.

    A connection over TCP begins with a line of role and name. Agents are the clients of their
    names, once there is a repository with the passphrase of kit.tiny_backup.
    """

    def __init__(
        self,
        folder: Path,
        limits: StorageLimits | None = None,
        read_grant: Callable[[str], dict[str, object]] | None = None,
        open_store: Callable[[bytes], ServableStore] = LocalStore,
        admission: Admission | None = None,
        bucket: str = "",
    ) -> None:
        """`bucket`: the place in an object store where the objects are."""
        self.folder = folder
        self.repository = folder / "repository"
        self.socket_path = folder / "storage.sock"
        self.settings = StorageDaemonSettings(
            "storage",
            (("disk", os.fsencode(self.repository)),),
            buckets={os.fsencode(self.repository): bucket} if bucket else {},
            addresses=(("127.0.0.1", 0),),
            socket_path=os.fsencode(self.socket_path),
            limits=limits or StorageLimits(),
            admission=admission
            or Admission(
                clients=frozenset((EVERYBODY,)),
                directors=frozenset((EVERYBODY,)),
                operators={EVERYBODY: READING_VERBS},
            ),
        )
        self.read_grant = read_grant
        # Those of peers, in the order in which they connected.
        self.channels: list[Channel] = []
        self.open_store = open_store
        self._key: ApplianceKey | None = None
        self._names: list[tuple[Store, str]] = []
        # Agents whose certificates say of no repository which client they are.
        self.anonymous: set[str] = set()
        self.start()

    def start(self) -> None:
        """Start it."""
        self.server = StorageServer(self.settings, self._admit, self.read_grant, self.open_store)
        self.server.start()

    def restart(self, limits: StorageLimits | None = None) -> None:
        """Stop it and start it again on the same repository."""
        self.server.stop()
        if limits is not None:
            self.settings = replace(self.settings, limits=limits)
        self.start()

    def operator(self, folder: Path) -> User:
        """Who types commands at the appliance, with a home below `folder`."""
        return User(
            folder,
            environment={
                "STRONGROOM_REPOSITORY": f"unix:{self.socket_path}",
                "STRONGROOM_PASSWORD": PASSPHRASE.decode(),
            },
        )

    def local(self, cache_folder: bytes | None = None, view_as: str = "") -> RemoteStore:
        """The store of maintenance."""
        place = parse_place(f"unix:{self.socket_path}")
        return open_socket(place, cache_folder=cache_folder, view_as=view_as)

    def agent(self, name: str, grant: str = "", job: str = "") -> RemoteStore:
        """The store of an agent."""
        store = self.peer(Peer(name, "agent", "ab"), StorageHello(PROTOCOL_VERSION, "", job, grant))
        self._names.append((store, name))
        return store

    def name_of(self, store: Store) -> str:
        """The name of the agent whose store this is."""
        return next(name for one, name in self._names if one is store)

    def client_id(self, name: str) -> bytes:
        """The id of a client; b"" while there is no repository."""
        if self._key is None:
            try:
                with (
                    closing(self._opened_here()) as store,
                    Repository.open(store, PASSPHRASE) as repository,
                ):
                    self._key = required_appliance_key(repository.key)
            except RepositoryNotFoundError:
                return b""
        return self._key.client_id(name)

    def _opened_here(self) -> Store:
        if place := self.settings.buckets.get(os.fsencode(self.repository)):
            return Bucket(place, os.fsencode(self.repository)).open()
        return self.open_store(os.fsencode(self.repository))

    def object_of(self, name: str, content: bytes) -> bytes:
        """An object that is the client's, whatever else it may be."""
        return bytes(8) + self.client_id(name) + content

    def peer(
        self,
        peer: Peer,
        hello: StorageHello | None = None,
        cache_folder: bytes | None = None,
        *,
        is_far: bool = False,
    ) -> RemoteStore:
        """The store of any peer; `is_far`: as over a network that takes its time."""
        return RemoteStore(
            f"strongroom://127.0.0.1:{self.server.ports[0]}",
            lambda: self.connect(peer),
            hello or StorageHello(PROTOCOL_VERSION),
            cache_folder,
            is_far=is_far,
        )

    def connect(self, peer: Peer) -> Channel:
        """A connection that was accepted but has not said hello."""
        connection = socket.create_connection(("127.0.0.1", self.server.ports[0]), 30)
        tune_socket(connection)
        channel = LocalChannel(connection, peer)
        self.channels.append(channel)
        channel.send(f"{peer.role} {peer.name}\n".encode().ljust(64))
        receive_greeting(channel)
        return channel

    def stop(self) -> None:
        """End it."""
        self.server.stop()

    def _admit(self, connection: socket.socket) -> Channel:
        tune_socket(connection)
        nobody = LocalChannel(connection, Peer("", "", ""))
        role, _, name = nobody.receive_exactly(64).decode().strip().partition(" ")
        if not name:
            raise ConnectionLostError("no one was named")
        clients: tuple[ClientOf, ...] = ()
        if (
            role == "agent"
            and name not in self.anonymous
            and (client := self.client_id(name))
            and self._key is not None
        ):
            clients = (ClientOf(self._key.repository_id, client),)
        channel = LocalChannel(connection, Peer(name, role, "ab", clients=clients))
        send_welcome(channel)
        return channel


class Relay:
    """Sits between a store and the daemon and can cut every connection."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._pairs: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Break every connection there is, as if the machine between were gone."""
        for one in self._pairs:
            # Closing alone would leave the connection to the thread that is inside.
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def close(self) -> None:
        """Cut, and take no more."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                ours, _ = self._listening.accept()
                theirs = socket.create_connection(("127.0.0.1", self._target))
                tune_socket(ours)
                tune_socket(theirs)
                self._pairs += [ours, theirs]
                for source, sink in ((ours, theirs), (theirs, ours)):
                    threading.Thread(target=_pass_on, args=(source, sink), daemon=True).start()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
