"""OpenSSH's sshd on loopback, and an `ssh` that reaches nothing else; a test is skipped without it.

The `ssh` of the user's PATH becomes a script that names a configuration of the test: ssh itself
reads the one in the home that the password file says, whatever HOME is.
"""

from __future__ import annotations

import getpass
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kit.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_START_SECONDS = 30.0
_SSHD = "/usr/sbin/sshd"
_SERVER = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
PidFile none
AuthorizedKeysFile {folder}/authorized_keys
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
MaxStartups 64
MaxSessions 64
PermitRootLogin yes
Subsystem sftp internal-sftp
SetEnv PATH={path}
"""
_CLIENT = """\
Host there
    HostName 127.0.0.1
    Port {port}
    User {user}
    IdentityFile {folder}/{{key}}
    IdentitiesOnly yes
    UserKnownHostsFile {folder}/known_hosts
"""


class SshServer:
    """`keys`: names of key pairs, and what authorized_keys says before each."""

    def __init__(self, folder: Path, keys: Mapping[str, str]) -> None:
        if not os.access(_SSHD, os.X_OK):
            pytest.skip("sshd is not installed (Debian: openssh-server)")
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        lines = []
        for name in ("host_key", *keys):
            words = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name))
            subprocess.run(words, check=True)
        for name, said in keys.items():
            lines.append(f"{said} {(folder / f'{name}.pub').read_text()}".strip())
        (folder / "authorized_keys").write_text("\n".join(lines) + "\n")
        host = (folder / "host_key.pub").read_text()
        (folder / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {host}")
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        config = folder / "sshd_config"
        config.write_text(_SERVER.format(port=self.port, folder=folder, path=path))
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        self._log = (folder / "sshd.log").open("wb")
        self._process = subprocess.Popen(
            [_SSHD, "-D", "-e", "-f", str(config)],
            stdin=subprocess.DEVNULL,
            stderr=self._log,
        )
        self._logins: list[subprocess.Popen[bytes]] = []
        self._await(self._listens)

    def programs(self, key: str) -> Path:
        """A folder for the front of PATH whose `ssh` logs in with a key; the host is `there`."""
        made = self.folder / f"bin-{key}"
        if not made.exists():
            made.mkdir()
            config = made / "config"
            text = _CLIENT.format(port=self.port, user=getpass.getuser(), folder=self.folder)
            config.write_text(text.format(key=key))
            script = made / "ssh"
            script.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {config} "$@"\n')
            script.chmod(0o755)
        return made

    def logged_in(self, key: str) -> Path:
        """The same, but all go through one login, made here: for tests of what comes after it."""
        made = self.folder / f"in-{key}"
        if not made.exists():
            config = self.programs(key) / "config"
            made.mkdir()
            way = made / "control"
            login = ["/usr/bin/ssh", "-F", str(config), "-M", "-N", "-S", str(way), "there"]
            self._logins.append(subprocess.Popen(login, stdin=subprocess.DEVNULL, stderr=self._log))
            self._await(way.exists)
            script = made / "ssh"
            script.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {config} -S {way} "$@"\n')
            script.chmod(0o755)
        return made

    def stop(self) -> None:
        """End it; sessions that are open continue."""
        for login in self._logins:
            login.terminate()
            login.wait()
        self._process.terminate()
        self._process.wait()
        self._log.close()

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def _await(self, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not ready():
            assert self._process.poll() is None, (self.folder / "sshd.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.02)


def ssh_server(folder: Path, keys: Mapping[str, str]) -> Iterator[SshServer]:
    """For a fixture."""
    server = SshServer(folder, keys)
    yield server
    server.stop()
