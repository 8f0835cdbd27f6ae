"""The system's ssh, started so that its standard input and output are one socket of ours.

It reads the user's configuration, agent, jump hosts and known hosts; all that is decided here is
that no one is asked anything (jobs run without a terminal) and that a dead connection ends.
"""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from strongroom.base.errors import ConnectionLostError, OperatingSystemError
from strongroom.base.printable import printable
from strongroom.engine.stores.place import SshLocation

# The fastest first; ^: before ssh's own choice, which a server without them gets.
_CIPHERS: Final = "^aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20-poly1305@openssh.com"
_END_SECONDS: Final = 5.0
_SHOWN_BYTES: Final = 4 << 10
# What the other side prints as errors waits here until somebody wants to know.
_MESSAGES_BYTES: Final = 1 << 20


class SshProcess:
    """A running ssh. `socket` is ours: closing it ends ssh."""

    def __init__(
        self, place: SshLocation, remote: Sequence[str], *, is_subsystem: bool = False
    ) -> None:
        """remote: the command there, or the name of a subsystem. Raises OperatingSystemError."""
        self._place = place
        self.socket, theirs = socket.socketpair()
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        with suppress(OSError):
            fcntl.fcntl(reading, fcntl.F_SETPIPE_SZ, _MESSAGES_BYTES)
        self._messages = os.fdopen(reading, "rb", buffering=0)
        self._printed = b""
        try:
            self._process = subprocess.Popen(
                [*_options(place, is_subsystem=is_subsystem), *remote],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=writing,
                start_new_session=True,
            )
        except OSError as error:
            self.socket.close()
            self._messages.close()
            raise OperatingSystemError(
                f"ssh could not be started: {error.strerror}; install openssh-client"
            ) from error
        finally:
            theirs.close()
            os.close(writing)

    def explain(self, error: ConnectionLostError) -> ConnectionLostError:
        """The error of a connection that broke, with what ssh and the other side have printed."""
        with suppress(subprocess.TimeoutExpired):
            # ssh prints why before it ends.
            self._process.wait(_END_SECONDS)
        text = self._message_text()
        host = printable(self._place.host)
        if "Host key verification failed" in text:
            text += f"\nrun `ssh {host}` once, and compare the fingerprint it shows"
        elif "Permission denied" in text:
            text += f"\n`ssh {host} true` has to work without a question: log in with a key"
        elif "not found" in text and "strongroom" in text:
            text += f"\ninstall strongroom on {host}, for all users"
        return ConnectionLostError(f"{error}; ssh printed:\n{text}" if text else str(error))

    def close(self) -> None:
        """End it; in a forked child, for which the process is none of its own, only the socket."""
        self.socket.close()
        self._messages.close()
        if self._process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_SECONDS)
                return
            self._process.kill()
            self._process.wait()

    def _message_text(self) -> str:
        if not self._messages.closed:
            more = self._messages.read(_MESSAGES_BYTES) or b""
            self._printed = (self._printed + more)[-_SHOWN_BYTES:]
        lines = self._printed.decode("utf-8", "replace").splitlines()
        return "\n".join(f"  {printable(line.strip())}" for line in lines if line.strip())


def _options(place: SshLocation, *, is_subsystem: bool) -> list[str]:
    options = ("BatchMode=yes", "ServerAliveInterval=30", "ServerAliveCountMax=4")
    words = ["ssh", "-T", "-x", "-a", "-c", _CIPHERS]
    for option in options:
        words += ["-o", option]
    if is_subsystem:
        words.append("-s")
    if place.user:
        words += ["-l", place.user]
    if place.port:
        words += ["-p", str(place.port)]
    return [*words, "--", place.host]
