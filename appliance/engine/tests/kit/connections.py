"""An authority, identities, and real connections between them on loopback."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from strongroom.net.channels.channel import Channel, tune_socket
from strongroom.net.channels.connecting import Acceptor, connect
from strongroom.net.channels.greeting import send_welcome
from strongroom.net.channels.local_channel import admit_local, connect_local
from strongroom.net.identities.authority import Authority
from strongroom.net.identities.identity import Identity

# For waiting on what is certain to come; a busy machine takes its time.
PATIENCE_SECONDS = 30.0


@dataclass
class House:
    """An authority with identities of every role: vault, web1, boss and ann."""

    folder: Path
    authority: Authority = field(init=False)

    def __post_init__(self) -> None:
        self.authority = Authority.create(str(self.folder / "ca"), "house")
        self.storage = self.identity("vault", "storage")
        self.agent = self.identity("web1", "agent")
        self.director = self.identity("boss", "director")
        self.operator = self.identity("ann", "operator")

    def identity(self, name: str, role: str, *hosts: str) -> Identity:
        """A new identity in a folder of its name."""
        return self.authority.issue_identity(str(self.folder / name), name, role, hosts)


@contextlib.contextmanager
def listening() -> Iterator[tuple[socket.socket, int]]:
    """A listening socket, and its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener, listener.getsockname()[1]


def accept_one(
    acceptor: Acceptor, listener: socket.socket, duplicates: list[socket.socket] | None = None
) -> Channel:
    """The next connection, its handshake done; a duplicate of its socket goes to `duplicates`."""
    # Where no one could connect, the test is to fail, not to wait forever.
    listener.settimeout(PATIENCE_SECONDS)
    connection = listener.accept()[0]
    if duplicates is not None:
        duplicates.append(connection.dup())
    if listener.family == socket.AF_UNIX:
        channel = admit_local(connection)
        send_welcome(channel)
        return channel
    return acceptor.accept(connection)


@contextlib.contextmanager
def connected(
    house: House,
    mode: str,
    relay: Callable[[int], int] | None = None,
    accepted_sockets: list[socket.socket] | None = None,
    **options: Any,
) -> Iterator[tuple[Channel, Channel]]:
    """The agent's channel to the storage daemon, and the daemon's.

    `mode`: a TlsMode or "local". `relay`: takes the daemon's port, gives that to dial.
    `accepted_sockets`: gets a duplicate of the daemon's socket, to be closed by the caller.
    """
    acceptor = Acceptor(house.storage, lambda *_: True)
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(1))
        if mode == "local":
            path = str(house.folder / "socket")
            with contextlib.suppress(FileNotFoundError):
                (house.folder / "socket").unlink()
            listener = socket.socket(socket.AF_UNIX)
            stack.enter_context(listener)
            listener.bind(path)
            listener.listen()
            accepted = pool.submit(accept_one, acceptor, listener, accepted_sockets)
            ours: Channel = connect_local(path)
        else:
            listener, port = stack.enter_context(listening())
            accepted = pool.submit(accept_one, acceptor, listener, accepted_sockets)
            dialled = relay(port) if relay else port
            ours = connect("127.0.0.1", dialled, "vault", house.agent, mode, **options)  # type: ignore[arg-type]
        theirs = accepted.result(PATIENCE_SECONDS)
        # A fault shows as an error, not as a test that hangs.
        ours.set_timeout(PATIENCE_SECONDS)
        theirs.set_timeout(PATIENCE_SECONDS)
        try:
            yield ours, theirs
        finally:
            ours.close()
            theirs.close()
            acceptor.close()


class Relay:
    """Sits between client and daemon: `change(from_client, bytes)` gives what it passes on."""

    def __init__(self, change: Callable[[bool, bytes], bytes]) -> None:
        self._change = change
        self.seen: dict[bool, bytearray] = {True: bytearray(), False: bytearray()}

    def __call__(self, port: int) -> int:
        """Begin to relay one connection to `port`; the port to dial instead."""
        listener = socket.create_server(("127.0.0.1", 0))
        own_port: int = listener.getsockname()[1]
        threading.Thread(target=self._run, args=(listener, port), daemon=True).start()
        return own_port

    def _run(self, listener: socket.socket, port: int) -> None:
        with listener:
            client = listener.accept()[0]
        server = socket.create_connection(("127.0.0.1", port))
        tune_socket(client)
        tune_socket(server)
        threads = [
            threading.Thread(target=self._pass_on, args=ends, daemon=True)
            for ends in ((client, server, True), (server, client, False))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        client.close()
        server.close()

    def _pass_on(self, source: socket.socket, sink: socket.socket, from_client: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self.seen[from_client] += data
                sink.sendall(self._change(from_client, data))
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def is_closed(connection: socket.socket) -> bool:
    """Whether the other end has closed it; waits until it does or says something."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
