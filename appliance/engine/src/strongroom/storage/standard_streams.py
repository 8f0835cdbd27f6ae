"""A repository served to one peer over standard input and output: `strongroom serve`.

For ssh, whose other end is `strongroom.net.channels.ssh_channel`. Any number of such processes may
serve one folder at once, as any number of jobs may use it.

A peer for whom `append_only` holds sees everything and adds packs, index objects, snapshots and
leases. It removes and replaces nothing but the leases, and takes back nothing but the snapshots,
that it has stored over the same connection; so anyone who has its ssh key can fill the disk, but
not destroy what is there. A shared owner list (`owner_list`) names what such peers have stored:
until `vouch` has verified it, it is no reason to remove anything else. Without such peers there is
no list; then who stored an object is known of this connection only.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from typing import Final

from strongroom.base import clock
from strongroom.engine.stores.local import LocalStore
from strongroom.net.channels.greeting import send_welcome
from strongroom.net.channels.local_channel import LocalChannel, local_peer
from strongroom.net.channels.ssh_channel import SECURITY
from strongroom.net.identities.peer import APPEND_ONLY_ROLE, Peer
from strongroom.storage.owner_list import owner_list_path
from strongroom.storage.serving import Serving
from strongroom.storage.session import Session
from strongroom.storage.settings import StorageDaemonSettings

log = logging.getLogger("strongroom.storage")

_RELAYED_BYTES: Final = 256 << 10


def serve_standard_streams(folder: bytes, *, append_only: bool) -> None:
    """Serve a folder until the peer leaves. Raises StoreError, RepositoryExistsError."""
    peer = local_peer(os.geteuid())
    if append_only:
        # A name of its own: what other connections have stored is not this one's to take back,
        # unless it proves to be of the same job (`strongroom.storage.rights.as_job`).
        peer = Peer(f"{peer.name} {clock.random_bytes(8).hex()}", APPEND_ONLY_ROLE, "")
    settings = StorageDaemonSettings("ssh", (("repository", folder),))
    has_list = append_only or os.path.exists(owner_list_path(folder))
    serving = Serving(settings, LocalStore, None, lambda: (), "shared" if has_list else "none")
    try:
        channel = LocalChannel(_take_streams(), peer, SECURITY)
        send_welcome(channel)
        share = serving.shares.enter(peer)
        assert not isinstance(share, str)
        Session(serving, channel, share, "ssh").run()
    finally:
        serving.close()


def _take_streams() -> socket.socket:
    """Standard input and output as one socket; what is printed from now on goes to the log."""
    given = (os.dup(0), os.dup(1))
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    if os.path.sameopenfile(*given):
        # sshd gives a command one socket for both.
        try:
            os.close(given[1])
            return socket.socket(fileno=given[0])
        except OSError:
            given = (given[0], os.dup(given[0]))
    ours, theirs = socket.socketpair()
    incoming = (given[0], theirs.fileno(), theirs)
    threading.Thread(target=_relay, args=incoming, daemon=True).start()
    # The process ends only when the last answer has gone out.
    threading.Thread(target=_relay, args=(theirs.fileno(), given[1], theirs)).start()
    return ours


def _relay(source: int, sink: int, pair: socket.socket) -> None:
    """Pass on what comes through a pipe."""
    try:
        while data := os.read(source, _RELAYED_BYTES):
            left = memoryview(data)
            while left:
                left = left[os.write(sink, left) :]
    except OSError as error:
        log.debug("a stream broke: %s", error)
    finally:
        # Where both directions are done the other thread has nothing to wait for.
        if sink == pair.fileno():
            pair.shutdown(socket.SHUT_WR)
        else:
            os.close(sink)
