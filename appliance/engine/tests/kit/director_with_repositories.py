"""A director in this process with repositories in folders, and agents that back up for real."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from kit.agents_in_process import SimulatedAgent
from kit.director_in_process import TestDirector
from kit.prepared_commands import LOCALE, run_command
from kit.tiny_backup import CHEAP
from kit.virtual_time import ShiftedTime
from strongroom.director.context import DirectorContext
from strongroom.director.snapshots.reconciliation import reconcile
from strongroom.engine.repository.repository import Repository
from strongroom.engine.stores.local import LocalStore
from strongroom.net.identities.authority import Authority

PASSPHRASE = b"open sesame"
ADMIN = """Job { Name = admin; Type = Admin; Storage = main; Pool = Default; Messages = Standard
  Client = web1; FileSet = Home
  RunScript { RunsWhen = Before; RunsOnClient = no; %s } }
"""


def rebuild_catalog(context: DirectorContext, storage: str) -> int:
    """Rebuild the catalog from the repository of a storage; how many snapshots were new."""
    return len(reconcile(context, storage, rebuilds=True).entered)


class Place(TestDirector):
    """A director with two repositories, and a folder that is backed up."""

    def __init__(self, folder: Path, time: ShiftedTime) -> None:
        authority = Authority.create(str(folder / "ca"), "test")
        identity = authority.issue_identity(str(folder / "identity"), "dir", "director", ())
        super().__init__(folder, time, identity)
        self.source = folder / "home"
        self.source.mkdir()
        for number in range(20):
            (self.source / f"file{number}").write_bytes(os.urandom(2000))
        (self.source / "odd \xff".encode("latin-1").decode("utf-8", "surrogateescape")).write_text(
            "x"
        )
        (folder / "passphrase").write_bytes(PASSPHRASE + b"\n")
        (folder / "passphrase").chmod(0o600)
        for name in ("main", "offsite"):
            Repository.create(LocalStore(str(folder / name)), PASSPHRASE, cost=CHEAP).close()

    def configure(self, text: str, **settings: Any) -> None:
        offsite = f"""
        Storage {{ Name = offsite; Address = 192.0.2.4; Password = "x"; Device = disk
          MediaType = File; {self.reached("offsite")} }}
        Pool {{ Name = Offsite; Storage = offsite; KeepLast = 2; MinimumRetention = 0 }}
        """
        super().configure(text + offsite, storage=self.reached("main"), **settings)

    def reached(self, name: str) -> str:
        return f'Repository = "{self.folder}/{name}"; PassphraseFile = "{self.folder}/passphrase"'

    def repository(self, name: str = "main") -> Repository:
        return Repository.open(LocalStore(str(self.folder / name)), PASSPHRASE)

    async def back_up(self, agent: SimulatedAgent, name: str = "nightly", host: str = "") -> str:
        """Have the agent do what it is told, by the command line of the engine."""
        run = await self.start(name)
        await agent.start(run.id)
        summary = await self._store(agent, host or agent.name)
        await self.end(agent, run.id, snapshot=summary["snapshot"], summary=summary)
        return str(summary["snapshot"])

    async def store(self, agent: SimulatedAgent) -> str:
        """Have the agent store a snapshot for its last order; its id, which is not reported."""
        return str((await self._store(agent, agent.name))["snapshot"])

    async def _store(self, agent: SimulatedAgent, host: str) -> dict[str, Any]:
        order = agent.order()
        words = ["--host", host, "--job", order.job, "--tag", ",".join(order.tags), "--shards", "1"]
        return await asyncio.to_thread(self.command, "backup", str(self.source), *words)

    def command(self, *words: str) -> dict[str, Any]:
        place = ("--repo", str(self.folder / "main"))
        secret = ("--password-file", str(self.folder / "passphrase"))
        ended = run_command(
            [*words, "--json", "--no-cache", *place, *secret], {**os.environ, "LC_ALL": LOCALE}
        )
        assert ended.returncode in (0, 3), ended.stderr  # 3: not everything could be read
        return dict(json.loads(ended.stdout.splitlines()[-1]))
