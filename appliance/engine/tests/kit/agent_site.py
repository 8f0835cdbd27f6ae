"""A machine with a real agent, its certificate and put key, and a repository in a folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kit.appliance_keys import client_of
from kit.ports import free_port
from kit.prepared_commands import Process, start_command
from kit.prepared_jobs import children_of
from kit.small_director import SmallDirector
from strongroom.agent.put_keys import keep_put_key
from strongroom.engine.filesets.spec import FileSetInclude, FileSetSpec
from strongroom.engine.repository.keys.files import export_key
from strongroom.engine.repository.keys.wrapping import Argon2Cost
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.restore_ticket import make_ticket
from strongroom.engine.repository.snapshots import Snapshot
from strongroom.engine.repository.ticket_objects import store_ticket
from strongroom.engine.stores.local import LocalStore
from strongroom.net.control.messages import (
    RestoreChoices,
    Script,
    StartBackup,
    StartRestore,
    StorageTarget,
)
from strongroom.net.identities.authority import Authority
from strongroom.net.identities.peer import ClientOf

DIRECTOR = "vault-dir"
CLIENT = "web1"
PASSPHRASE = b"open sesame"
PATIENCE_SECONDS = 60
_CHEAP = Argon2Cost(1024, 1, 1)
_CONFIGURATION = """
Client {{
  Name = {client}
  Identity Directory = "{identity}"
  Working Directory = "{working}"
  Scripts Directory = "{scripts}"
  {of_client}
}}
Director {{
  Name = {director}
  Password = "unused"
  {way}
  {of_director}
}}
"""


@dataclass
class AgentSite:
    """Everything in `folder`; the agent runs after `start`. `others`: the authority of others.

    user: whom the agent runs as, 0 for anyone who tests. clients: which client the agent is in
    further repositories.
    """

    folder: Path
    of_client: str = ""
    of_director: str = ""
    listens_at: int = 0
    others: Authority | None = None
    user: int = 0
    clients: tuple[ClientOf, ...] = ()
    director: SmallDirector = field(init=False)

    def __post_init__(self) -> None:
        self.authority = self.others or Authority.create(str(self.folder / "ca"), "house")
        self.director_identity = self.authority.issue_identity(
            str(self.folder / "director"), DIRECTOR, "director", ["127.0.0.1"]
        )
        self.identity = self.folder / "identity"
        self.repository = self.folder / "repository"
        made = Repository.create(LocalStore(str(self.repository)), PASSPHRASE, cost=_CHEAP)
        self.restore_key = made.restore_key
        clients = [client_of(made.key, CLIENT), *self.clients]
        self.authority.issue_identity(str(self.identity), CLIENT, "agent", clients=clients)
        keep_put_key(str(self.identity), export_key(made.key.put_key(CLIENT)))
        made.close()
        self.scripts = self.folder / "scripts"
        self.scripts.mkdir()
        self.source = self.folder / "source"
        self.source.mkdir()
        self.director = SmallDirector(self.director_identity, DIRECTOR, port=free_port())
        self.process: Process | None = None
        self.messages = self.folder / "agent.log"
        self.configuration = self.folder / "agent.conf"
        self.configure()

    def configure(self) -> None:
        """Write the configuration as the fields have it now."""
        way = f"Address = 127.0.0.1\n  Port = {self.director.port}\n  Reconnection Time = 1"
        of_client = self.of_client
        if self.listens_at:
            way = "Connection From Director To Client = yes"
            of_client += f"\n  Address = 127.0.0.1\n  Port = {self.listens_at}"
        self.configuration.write_text(
            _CONFIGURATION.format(
                client=CLIENT,
                identity=self.identity,
                working=self.folder / "working",
                scripts=self.scripts,
                of_client=of_client,
                director=DIRECTOR,
                way=way,
                of_director=self.of_director,
            )
        )

    def start(self) -> None:
        """Start the agent."""
        kept = {name: text for name, text in os.environ.items() if "STRONGROOM" not in name}
        environment = {**kept, "LC_ALL": "C.UTF-8"}
        words = ["agent", "--config", str(self.configuration)]
        with self.messages.open("ab") as messages:
            if self.user:
                self.process = subprocess.Popen(
                    [sys.executable, "-m", "strongroom", *words],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=messages,
                    stderr=messages,
                    cwd=self.folder,
                    user=self.user,
                    group=self.user,
                    extra_groups=[],
                )
            else:
                both = messages.fileno()
                self.process = start_command(words, environment, both, both, self.folder)

    def start_connected(self) -> None:
        """Start the agent and wait until the director has welcomed it."""
        before = self.director.connections
        self.start()
        self.director.await_connection(before + 1)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Signal the agent and wait for its end; gives its status."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_SECONDS)

    def close(self) -> None:
        """Stop everything."""
        if self.process is not None and self.process.poll() is None:
            self.end()
        self.director.close()

    def target(self) -> StorageTarget:
        """The repository, as a local folder."""
        return StorageTarget(address=str(self.repository), port=0, server_name="")

    def fileset(self, **options: Any) -> FileSetSpec:
        """The source folder."""
        return FileSetSpec(
            name="all", includes=(FileSetInclude(files=(str(self.source),)),), **options
        )

    def backup(self, *scripts: Script, **fields: Any) -> StartBackup:
        """A request for a backup of the source."""
        return StartBackup(
            **{
                "run_id": uuid.uuid4().hex,
                "job": "nightly",
                "level": "incremental",
                "fileset": self.fileset(),
                "storage": self.target(),
                "scripts": scripts,
                **fields,
            }
        )

    def restore(self, snapshot: str, target: Any, **options: Any) -> StartRestore:
        """A request for a restore, with its ticket; `options`: fields of RestoreChoices."""
        repository = self.open()
        ticket = store_ticket(
            repository.store, make_ticket(repository, repository.snapshot(snapshot))
        )
        repository.close()
        return StartRestore(
            run_id=uuid.uuid4().hex,
            job="restore",
            storage=self.target(),
            ticket=ticket,
            grant="",
            target=target,
            options=RestoreChoices(**options),
        )

    def script(self, name: str, text: str) -> str:
        """A shell script in the allowed folder; its path."""
        path = self.scripts / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return str(path)

    def open(self) -> Repository:
        """The repository with the restore key."""
        return Repository.open(LocalStore(str(self.repository)), self.restore_key)

    def snapshots(self) -> list[Snapshot]:
        """What was committed."""
        with self.open() as repository:
            return repository.snapshots()

    def journals(self) -> list[str]:
        """Runs that the agent keeps."""
        folder = self.folder / "working" / "runs"
        return sorted(path.name for path in folder.glob("*.journal"))

    def job_processes(self) -> list[int]:
        """Pids of job processes of this site's agent, and of what they started."""
        assert self.process is not None
        found: list[int] = []
        pending = [self.process.pid]
        while pending:
            try:
                below = children_of(pending[0])
            except FileNotFoundError:
                below = []
            pending = pending[1:] + below
            found += below
        return found
