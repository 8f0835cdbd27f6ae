"""A storage daemon of ours in a fresh folder, with certificates, keys and an empty repository."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Self

from strongroom.cli.measure.testbed.daemons import (
    Daemon,
    DaemonError,
    free_ports,
    plain_environment,
)
from strongroom.cli.measure.testbed.local import STRONGROOM, backup_words
from strongroom.engine.repository.keys.files import import_key
from strongroom.engine.repository.keys.roles import PutKey
from strongroom.net.identities.authority import Authority
from strongroom.net.identities.peer import ClientOf

PASSWORD = "of a measurement"  # noqa: S105 - of a repository that is thrown away
_CONFIGURATION = """
Storage {{
  Name = vault
  Address = 127.0.0.1
  Port = {port}
  Maintenance Socket = {socket}
  Identity Directory = {folder}/vault
  TLS Require = no
  Clients = "*all*"
{more}}}
Director {{ Name = boss; Password = unused }}
Device {{ Name = disk; Media Type = File; Archive Device = {folder}/repository }}
"""


class Vault:
    """Runs within its `with` block; `folder` is new and the caller's to remove.

    cipher_suites: those of TLS 1.3, "" for OpenSSL's choice.
    """

    def __init__(self, folder: Path, cipher_suites: str = "") -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.repository = folder / "repository"
        self.put_key = folder / "put.key"
        self.environment = plain_environment(folder / "home")
        self.authority = Authority.create(str(folder / "ca"), "measurement")
        self.authority.issue_identity(str(folder / "vault"), "vault", "storage", ["127.0.0.1"])
        (self.port,) = free_ports(1)
        self.passphrase_file = folder / "passphrase"
        self.passphrase_file.write_text(PASSWORD + "\n")
        self.passphrase_file.chmod(0o600)
        configuration = folder / "storage.conf"
        # The path of a socket is short, whatever the folder's is.
        self._sockets = Path(tempfile.mkdtemp(prefix="strongroom-"))
        self.socket = self._sockets / "storage.sock"
        configuration.write_text(
            _CONFIGURATION.format(
                port=self.port,
                folder=folder,
                socket=self.socket,
                more=f'  TLS Cipher Suites = "{cipher_suites}"\n' if cipher_suites else "",
            )
        )
        command = [*STRONGROOM, "storage", "--config", str(configuration)]
        self.daemon = Daemon(command, self.environment, folder / "storage.log")

    def __enter__(self) -> Self:
        try:
            self.daemon.await_port(self.port)
            # It opens this one later.
            self.daemon.await_socket(self.socket)
            self.maintain("init")
            self.maintain("key", "export-put", "--client", "web1", str(self.put_key))
            key = import_key(self.put_key.read_text())
            assert isinstance(key, PutKey)
            clients = [ClientOf(key.repository_id, key.client_id)]
            self.authority.issue_identity(
                str(self.folder / "web1"), "web1", "agent", clients=clients
            )
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        self.daemon.stop()
        shutil.rmtree(self._sockets, ignore_errors=True)

    def maintain(self, *words: str) -> str:
        """Run a command on the daemon's socket; its output. Raises DaemonError."""
        place = ["--repo", f"unix:{self.socket}"]
        secret = ["--password-file", str(self.passphrase_file), "--no-cache"]
        done = subprocess.run(
            [*STRONGROOM, *words, *place, *secret],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise DaemonError(f"{' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def backup(self, mode: str, *words: str, port: int = 0) -> list[str]:
        """The command line of an agent; `port` where it is to connect instead, as to a relay."""
        place = f"strongroom://127.0.0.1:{port or self.port}"
        identity = ["--identity", str(self.folder / "web1"), "--tls", mode]
        return backup_words(place, self.folder, self.put_key, *identity, *words)
