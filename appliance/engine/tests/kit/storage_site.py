"""The real storage daemon in its own process, with certificates, and clients of it."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kit.appliance_keys import client_of
from kit.ports import free_port
from kit.prepared_commands import Process, run_for_text, start_command
from kit.tiny_backup import new_repository
from strongroom.engine.repository.keys.files import export_key, import_key
from strongroom.net.identities.authority import Authority
from strongroom.net.identities.identity import Identity
from strongroom.net.storage.place import open_socket, parse_place

PASSPHRASE = "open sesame"
PATIENCE_SECONDS = 60.0
_CONFIGURATION = """
Storage {{
  Name = vault
  Address = {host}
  Port = {port}
  Maintenance Socket = {socket}
  Identity Directory = {identity}
  Clients = "*all*"; Operators = "ann list read"
  {further}
}}
Director {{ Name = boss; Password = unused }}
Device {{ Name = disk; Media Type = File; Archive Device = {repository} }}
"""


@dataclass
class StorageSite:
    """Made with a repository in it, its keys as files, and the daemon running."""

    folder: Path
    further: str = ""
    daemon_environment: dict[str, str] = field(default_factory=dict)
    host: str = "127.0.0.1"
    repository: Path = field(init=False)
    port: int = field(init=False)

    def __post_init__(self) -> None:
        self.repository = self.folder / "repository"
        self.socket = self.folder / "storage.sock"
        self.restore_key = self.folder / "restore.key"
        self.put_key = self.folder / "put.key"
        self.authority = Authority.create(str(self.folder / "ca"), "house")
        self.identity("vault", "storage", self.host)
        self.port = free_port()
        self.configuration = self.folder / "storage.conf"
        self.configure(self.further)
        (self.folder / "passphrase").write_text(PASSPHRASE + "\n")
        (self.folder / "passphrase").chmod(0o600)
        self._daemon: Process | None = None
        self.start()
        self.make_repository()

    def configure(self, further: str) -> None:
        """Write the configuration, with further directives."""
        self.configuration.write_text(
            _CONFIGURATION.format(
                host=self.host,
                port=self.port,
                socket=self.socket,
                identity=self.folder / "vault",
                repository=self.repository,
                further=further
                if "Minimum Retention" in further
                else f"Minimum Retention = 0\n  {further}",
            )
        )

    def identity(self, name: str, role: str, *hosts: str) -> Identity:
        """A new identity in a folder of its name; an agent is the client of that name."""
        clients = []
        if role == "agent" and self.restore_key.exists():
            clients = [client_of(import_key(self.restore_key.read_text()), name)]
        return self.authority.issue_identity(
            str(self.folder / name), name, role, hosts, clients=clients
        )

    def make_repository(self) -> None:
        """Make the repository through the daemon, and its keys as files."""
        store = open_socket(parse_place(self.place))
        with closing(new_repository(store, PASSPHRASE.encode())) as repository:
            self.restore_key.write_text(export_key(repository.restore_key))
            self.put_key.write_text(export_key(repository.key.put_key("web1")))
        for file in (self.restore_key, self.put_key):
            file.chmod(0o600)

    @property
    def place(self) -> str:
        """How maintenance names it."""
        return f"unix:{self.socket}"

    def start(self) -> None:
        """Start the daemon and wait until it listens."""
        with (self.folder / "storage.log").open("ab") as log:
            self._daemon = start_command(
                ["storage", "--config", str(self.configuration)],
                {**self.environment, **self.daemon_environment},
                log.fileno(),
                log.fileno(),
            )
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            with socket.socket(socket.AF_UNIX) as probe, socket.socket() as remote:
                if not probe.connect_ex(str(self.socket)) and not remote.connect_ex(
                    (self.host, self.port)
                ):
                    return
            assert self._daemon.poll() is None, self.log()
            time.sleep(0.05)
        raise AssertionError(self.log())

    def log(self) -> str:
        """What the daemon said."""
        return (self.folder / "storage.log").read_text(errors="replace")

    def signal(self, number: int) -> None:
        """Send the daemon a signal."""
        assert self._daemon is not None
        self._daemon.send_signal(number)

    def kill(self) -> None:
        """As a power cut, but for the kernel's memory."""
        assert self._daemon is not None
        self._daemon.kill()
        self._daemon.wait(PATIENCE_SECONDS)

    def stop(self) -> int:
        """End it as systemd does; its exit code."""
        assert self._daemon is not None
        if self._daemon.poll() is None:
            self.signal(signal.SIGTERM)
        return self._daemon.wait(PATIENCE_SECONDS)

    @property
    def environment(self) -> dict[str, str]:
        """A user's environment without any setting of ours."""
        kept = {name: text for name, text in os.environ.items() if "STRONGROOM" not in name}
        kept.pop("XDG_CACHE_HOME", None)
        return {**kept, "HOME": str(self.folder / "home"), "LC_ALL": "C.UTF-8", "TZ": "UTC"}

    def local(self, *words: str, key: Path | bool | None = True, exit_code: int = 0) -> str:
        """Run a command of maintenance; what it prints."""
        options = ["--repo", self.place]
        if key is True:
            options += ["--key-file", str(self.restore_key)]
        return self._run([*words, *options], exit_code)

    def agent_words(self, name: str, *words: str, tls: str = "tls") -> list[str]:
        """The command line of an agent, which has only the put key."""
        place = f"strongroom://{self.host}:{self.port}"
        identity = str(self.folder / name)
        return self._words(
            *words,
            *("--repo", place, "--identity", identity, "--tls", tls),
            *(
                "--key-file",
                str(self.put_key_of(name)),
                "--cache-dir",
                str(self.folder / f"cache-{name}"),
            ),
        )

    def put_key_of(self, name: str) -> Path:
        """The file with the put key of a client."""
        file = self.folder / f"put-{name}.key"
        if not file.exists():
            key = import_key(self.restore_key.read_text()).put_key(name)
            file.write_text(export_key(key))
            file.chmod(0o600)
        return file

    def agent(self, name: str, *words: str, tls: str = "tls", exit_code: int = 0) -> str:
        """Run a command as an agent; what it prints."""
        return self._run(self.agent_words(name, *words, tls=tls)[3:], exit_code)

    def back_up(self, name: str, *words: str, tls: str = "tls") -> dict[str, Any]:
        """Back up as an agent; the summary."""
        lines = self.agent(name, "backup", *words, "--json", tls=tls).splitlines()
        summary: dict[str, Any] = json.loads(lines[-1])
        return summary

    def restore_as_operator(self, name: str, snapshot: str, target: Path, tls: str = "tls") -> None:
        """Restore over the network with the restore key, as an operator may."""
        words = ["restore", snapshot, "--target", str(target), "--tls", tls]
        words += ["--repo", f"strongroom://{self.host}:{self.port}"]
        words += ["--identity", str(self.folder / name), "--key-file", str(self.restore_key)]
        self._run(words, 0)

    def _run(self, words: list[str], exit_code: int) -> str:
        answer = run_for_text(words, self.environment)
        assert answer.returncode == exit_code, (words, answer.returncode, answer.stderr, self.log())
        return answer.stdout + (answer.stderr if exit_code else "")

    def _words(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "strongroom", *words]
