"""A whole director on loopback in a thread: configuration, certificates, catalog, repository.

    with RunningDirector(folder) as director:
        director.client("ann").get("/api/v1/status")

Its people are Console resources with certificates of their names: admin may do everything, ann sees
clients that begin with `web` and may do little, eve is no one's Console. A repository holds two
snapshots of web1 and one of db1. `like`: another director whose repository is copied, which is
quicker than making one. `as_tree`: the configuration is a folder, `director.d`.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx

from kit.appliance_keys import appliance_key_text
from kit.connections import House
from kit.made_catalog import put_catalog
from kit.prepared_commands import run_for_text
from kit.tiny_backup import PASSPHRASE, new_repository
from strongroom.base import clock
from strongroom.director.catalog.database import open_catalog
from strongroom.director.catalog.snapshots import add_snapshots
from strongroom.director.daemon import DirectorDaemon
from strongroom.director.results.snapshots import Snapshot
from strongroom.engine.repository.snapshots import Snapshot as StoredSnapshot
from strongroom.engine.stores.local import LocalStore
from strongroom.net.channels.tls_contexts import authority_context, client_context
from strongroom.net.control.messages import OWN_HEADERS
from strongroom.net.identities.identity import Identity

# For waiting on what is certain to come; a busy machine takes its time.
PATIENCE_SECONDS = 30.0
Result = TypeVar("Result")

CONFIGURATION = """
Director { Name = boss; Password = x; Messages = standard; Address = 127.0.0.1
  Working Directory = "FOLDER/state"
  Identity Directory = "FOLDER/boss"
  Authority Directory = "FOLDER/ca"
  Appliance Key File = "FOLDER/appliance.key"
  Maximum Concurrent Jobs = 10 }
Messages { Name = standard; Console = all }
Catalog { Name = main; Db Name = main; Db User = x; Db Password = x }
Storage { Name = vault; Address = 127.0.0.1; Password = x; Device = disk; Media Type = File
  Repository = "FOLDER/repository"; Passphrase File = "FOLDER/passphrase" }
Pool { Name = short; Pool Type = Backup; Minimum Retention = 0 }
Pool { Name = long; Pool Type = Backup; Minimum Retention = 10 years }
Schedule { Name = nights; Run = Full daily at 23:10; }
FileSet { Name = all; Include { File = / } }
FileSet { Name = data; Include { File = /data } }
Client { Name = web1; Address = web1; Password = x }
Client { Name = web2; Address = web2; Password = x }
Client { Name = db1; Address = db1; Password = x }
JobDefs { Name = usual; Type = Backup; Level = Incremental; Messages = standard; Storage = vault
  Pool = short; FileSet = all }
Job { Name = nightly-web1; Job Defs = usual; Client = web1; Schedule = nights }
Job { Name = nightly-web2; Job Defs = usual; Client = web2 }
Job { Name = nightly-db1; Job Defs = usual; Client = db1; FileSet = data; Pool = long }
Profile { Name = everything; Command ACL = *all*; Job ACL = *all*; Client ACL = *all*
  Storage ACL = *all*; Schedule ACL = *all*; Pool ACL = *all*; FileSet ACL = *all*
  Where ACL = *all* }
Profile { Name = figures; Command ACL = metrics }
Console { Name = admin; Password = x; Profile = everything }
Console { Name = ann; Password = x
  Command ACL = status, clients, jobs, runs, log, watch, snapshots, browse, restore, run, cancel
  Command ACL = estimate, token
  Job ACL = "nightly-web.*", Restore
  Client ACL = "web.*"
  FileSet ACL = all
  Pool ACL = short
  Storage ACL = vault
  Where ACL = /srv/restore }
"""

FILES = {
    "etc/passwd": b"root:x:0:0\n",
    "etc/ssh/sshd_config": b"Port 22\n" * 100,
    "home/ann/letter.odt": b"Dear all\n",
    "home/ann/Pictures/cat.jpg": b"\xff\xd8" * 5000,
    "home/ann/Pictures/dog.jpg": b"\xff\xd8" * 6000,
    "home/\udcfe-not-utf8": b"?",
}


class LoopThread:
    """An event loop that runs in a thread; a context manager."""

    def __enter__(self) -> Self:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="loop", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE_SECONDS)
        self.loop.close()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Do it on the loop and wait for its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE_SECONDS)


class RunningDirector:
    """See the module. `snapshots`: those of web1, the older first, then that of db1; of `tree`."""

    def __init__(
        self,
        folder: Path,
        configuration: str = CONFIGURATION,
        like: RunningDirector | None = None,
        *,
        as_tree: bool = False,
    ) -> None:
        self.folder = folder
        self.house = House(folder)
        self.house.director = self.house.identity("boss", "director", "localhost", "127.0.0.1")
        self.configuration_file = folder / "director.conf"
        self.configuration_path = self.configuration_file
        if as_tree:
            self.configuration_path = folder / "director.d"
            self.configuration_file = self.configuration_path / "director" / "all.conf"
            self.configuration_file.parent.mkdir(parents=True)
        self.configuration = configuration
        self.snapshots: list[StoredSnapshot] = []
        self.tree: Path = folder / "tree" if like is None else like.tree
        self.port = 0
        self._thread = LoopThread()
        self._stopping = asyncio.Event()
        self._reloading = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None
        (folder / "state").mkdir()
        self.configure(configuration)
        if like is None:
            self._fill_repository()
        else:
            self._copy_repository(like)
        self._fill_catalog()

    @property
    def url(self) -> str:
        """Where the API is, as its certificate names it."""
        return f"https://localhost:{self.port}"

    def configure(self, configuration: str) -> None:
        """Write the configuration; `reload` has it read."""
        self.configuration = configuration
        text = configuration.replace("FOLDER", str(self.folder))
        self.configuration_file.write_text(text)

    def identity(self, name: str, role: str = "operator") -> Identity:
        """A certificate of this name, made when it is first asked for."""
        folder = self.folder / name
        if not (folder / "certificate.pem").exists():
            self.house.identity(name, role)
        from strongroom.net.identities.identity import Identity as Kept

        return Kept.load(str(folder))

    def client(
        self, name: str = "", role: str = "operator", token: str = "", **options: Any
    ) -> httpx.Client:
        """A connection of somebody; without a name no one, with a token its bearer."""
        if name:
            context = client_context(self.identity(name, role))
        else:
            context = authority_context(self.house.director.authority_pem)
        headers = {"authorization": f"Bearer {token}"} if token else {}
        headers |= OWN_HEADERS
        return httpx.Client(
            base_url=self.url + "/api/v1",
            verify=context,
            headers=headers,
            timeout=PATIENCE_SECONDS,
            **options,
        )

    def reload(self) -> None:
        """As SIGHUP does."""
        self._thread.loop.call_soon_threadsafe(self._reloading.set)

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Do something on the director's loop."""
        return self._thread.run(work)

    def wait_for(self, settled: Callable[[], bool]) -> None:
        """Return when `settled` says yes; fails when it does not in good time."""
        end = clock.elapsed_seconds() + PATIENCE_SECONDS
        while not settled():
            assert clock.elapsed_seconds() < end, "it has not happened in good time"
            time.sleep(0.05)

    def __enter__(self) -> Self:
        self._thread.__enter__()
        try:
            self._thread.run(self._start())
        except BaseException:
            self._thread.__exit__()
            raise
        return self

    def __exit__(self, *failure: object) -> None:
        try:
            self._thread.run(self._end())
        finally:
            self._thread.__exit__(*failure)

    async def _start(self) -> None:
        self.daemon = DirectorDaemon(str(self.configuration_path))
        self.daemon.settings = replace(self.daemon.settings, addresses=(("127.0.0.1", 0),))
        ready = asyncio.Event()
        self._serving = asyncio.create_task(
            self.daemon.serve(self._stopping, self._reloading, ready)
        )
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait((waiting, self._serving), return_when=asyncio.FIRST_COMPLETED)
        if self._serving.done():
            self._serving.result()
        self.port = self.daemon.ports[0]

    def stop(self) -> None:
        """As SIGTERM does; returns when it has ended."""
        self._thread.run(self._end())

    async def _end(self) -> None:
        assert self._serving is not None
        self._stopping.set()
        await self._serving

    def _fill_repository(self) -> None:
        (self.folder / "passphrase").write_bytes(PASSPHRASE + b"\n")
        (self.folder / "passphrase").chmod(0o600)
        with new_repository(LocalStore(str(self.folder / "repository"))) as repository:
            (self.folder / "appliance.key").write_text(appliance_key_text(repository.key))
            tree = self.tree
            for name, content in FILES.items():
                path = tree / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            (tree / "home/people").symlink_to("ann")
            self._back_up("web1", "nightly-web1", "etc", "home")
            (tree / "home/ann/letter.odt").unlink()
            self._back_up("web1", "nightly-web1", "etc", "home")
            self._back_up("db1", "nightly-db1", "etc")
            self.snapshots = sorted(repository.snapshots(), key=lambda one: one.start_ns)

    def _copy_repository(self, like: RunningDirector) -> None:
        for name in ("passphrase", "appliance.key"):
            shutil.copy2(like.folder / name, self.folder / name)
        shutil.copytree(like.folder / "repository", self.folder / "repository", symlinks=True)
        self.snapshots = like.snapshots

    def _back_up(self, host: str, job: str, *names: str) -> None:
        places = ["--repo", str(self.folder / "repository"), "--no-cache"]
        secret = ["--password-file", str(self.folder / "passphrase")]
        words = ["backup", "--host", host, "--job", job, *places, *secret, *names]
        done = run_for_text(["--quiet", *words], {**os.environ, "TZ": "UTC"}, self.tree)
        assert not done.returncode, done.stderr

    def _fill_catalog(self) -> None:
        parts = {"web1": ("nightly-web1", "all", "short"), "db1": ("nightly-db1", "data", "long")}
        file = self.folder / "state" / "main.sqlite"
        put_catalog(file)
        catalog = open_catalog(f"sqlite:///{file}")
        try:
            records = []
            for one in self.snapshots:
                job, fileset, pool = parts[one.host]
                records.append(
                    Snapshot(
                        id=one.id,
                        client=one.host,
                        job=job,
                        fileset=fileset,
                        pool=pool,
                        storage="vault",
                        start_ns=one.start_ns,
                        server_ns=one.server_ns,
                        files=one.totals.files,
                        bytes=one.totals.content_bytes,
                        stored_bytes=one.totals.stored_bytes,
                    )
                )
            add_snapshots(catalog, records)
        finally:
            catalog.close()


def new_token(api: httpx.Client, **body: Any) -> str:
    """The text of a token that is made for whom the connection belongs to."""
    answer = api.post("/tokens", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["text"])
