"""Channels over ssh: to a `strongroom serve --stdio` that the system's ssh starts on a host.

ssh authenticates both sides and encrypts. What we may do there is for the host to decide: its
authorized_keys may force another command than the one asked for here.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from strongroom.base.errors import ConnectionLostError, PeerRefusedError
from strongroom.base.printable import printable
from strongroom.engine.stores.ssh_command import SshProcess
from strongroom.net.channels.channel import Security
from strongroom.net.channels.greeting import receive_greeting
from strongroom.net.channels.local_channel import LocalChannel
from strongroom.net.identities.peer import Peer

if TYPE_CHECKING:
    from strongroom.engine.stores.place import SshLocation

SECURITY = Security(mode="ssh")
# Until a far host has logged us in and started Python.
_GREETING_SECONDS = 120.0


class SshChannel(LocalChannel):
    """A channel to the standard input and output of a command on another host."""

    def __init__(self, process: SshProcess, peer: Peer) -> None:
        super().__init__(process.socket, peer, SECURITY)
        self._process = process

    def close(self) -> None:
        """End ssh, which ends the command."""
        self._process.close()


def connect_ssh(place: SshLocation) -> SshChannel:
    """Connect. Raises ConnectionLostError with what ssh printed, or PeerRefusedError."""
    # sshd gives the words to the shell of the user there.
    # A name that begins with - or holds a colon is a path there too.
    path = place.path if place.path.startswith("/") else f"./{place.path}"
    command = f"strongroom serve --stdio --path {shlex.quote(path)}"
    process = SshProcess(place, (command,))
    channel = SshChannel(process, Peer(place.host, "storage", ""))
    try:
        channel.set_timeout(_GREETING_SECONDS)
        try:
            receive_greeting(channel)
        except ConnectionLostError as error:
            reached = ConnectionLostError(f"{printable(place.text)} did not answer")
            raise process.explain(reached) from error
        except PeerRefusedError as error:
            raise PeerRefusedError(
                f"{printable(place.text)}: {error}. If the shell of the user there prints a text "
                "when it starts, let it do so at a terminal only"
            ) from error
        channel.set_timeout(None)
    except BaseException:
        channel.close()
        raise
    return channel
