"""A storage daemon of ours in a fresh folder, with certificates, keys and an empty repository."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Self

from bench.network.processes import Daemon, free_ports, plain_environment
from strongroom.net.identities.authority import Authority
from strongroom.net.identities.peer import ClientOf
from strongroom.repo.keys.files import import_key
from strongroom.repo.keys.roles import PutKey

if TYPE_CHECKING:
    from pathlib import Path

PASSWORD = "benchmark only"
STRONGROOM = [sys.executable, "-m", "strongroom"]
_CONFIGURATION = """
Storage {{
  Name = vault
  Address = 127.0.0.1
  Port = {port}
  Maintenance Socket = {folder}/storage.sock
  Identity Directory = {folder}/vault
  TLS Require = no
  Clients = "*all*"
}}
Director {{ Name = boss; Password = unused }}
Device {{ Name = disk; Media Type = File; Archive Device = {folder}/repository }}
"""


class Vault:
    """Runs within its `with` block; `folder` is new and the caller's to remove."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.repository = folder / "repository"
        self.put_key = folder / "put.key"
        self.environment = plain_environment(folder / "home")
        self.authority = Authority.create(str(folder / "ca"), "bench")
        self.authority.issue_identity(str(folder / "vault"), "vault", "storage", ["127.0.0.1"])
        (self.port,) = free_ports(1)
        self.passphrase_file = folder / "passphrase"
        self.passphrase_file.write_text(PASSWORD + "\n")
        self.passphrase_file.chmod(0o600)
        configuration = folder / "storage.conf"
        configuration.write_text(_CONFIGURATION.format(port=self.port, folder=folder))
        command = [*STRONGROOM, "storage", "--config", str(configuration)]
        self.daemon = Daemon(command, self.environment, folder / "storage.log")

    def __enter__(self) -> Self:
        try:
            self.daemon.await_port(self.port)
            self.maintain("init")
            self.maintain("key", "export-put", "--client", "web1", str(self.put_key))
            key = import_key(self.put_key.read_text())
            assert isinstance(key, PutKey)
            clients = [ClientOf(key.repository_id, key.client_id)]
            self.authority.issue_identity(
                str(self.folder / "web1"), "web1", "agent", clients=clients
            )
        except BaseException:
            self.daemon.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.daemon.stop()

    def maintain(self, *words: str) -> str:
        """Run a command on the daemon's socket; its output."""
        place = ["--repo", f"unix:{self.folder}/storage.sock"]
        secret = ["--password-file", str(self.passphrase_file), "--no-cache"]
        return subprocess.run(
            [*STRONGROOM, *words, *place, *secret],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout

    def backup(self, data: Path, mode: str, *words: str, port: int = 0) -> list[str]:
        """The command line of an agent; `port` where it is to connect instead, as to a relay."""
        place = f"strongroom://127.0.0.1:{port or self.port}"
        identity = ["--identity", str(self.folder / "web1"), "--tls", mode]
        return [*_backup(place, self.folder, self.put_key), *identity, *words, str(data)]


def make_local(folder: Path) -> Path:
    """A fresh repository of the local engine in `folder`, and its put key; the repository."""
    folder.mkdir(parents=True)
    environment = plain_environment(folder / "home", STRONGROOM_PASSWORD=PASSWORD)
    repository = folder / "repository"
    for words in (["init"], ["key", "export-put", str(folder / "put.key")]):
        subprocess.run(
            [*STRONGROOM, *words, "--quiet", "--no-cache", "--repo", str(repository)],
            env=environment,
            stdin=subprocess.DEVNULL,
            check=True,
        )
    return repository


def local_backup(folder: Path, data: Path, *words: str) -> list[str]:
    """The command line of the same job with the repository of `make_local`."""
    place = str(folder / "repository")
    return [*_backup(place, folder, folder / "put.key"), *words, str(data)]


def _backup(place: str, folder: Path, put_key: Path) -> list[str]:
    key = ["--key-file", str(put_key), "--cache-dir", str(folder / "cache")]
    return [*STRONGROOM, "backup", "--level", "full", "--json", "--repo", place, *key]
