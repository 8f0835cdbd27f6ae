"""A whole house on loopback: authority, storage daemon, director, agents, each a real process.

    with HouseOfDaemons(folder, agents=("web1", "web2")) as house:
        house.write_files("web1", {"letter": b"Dear all"})
        run = house.run("nightly-web1")
        assert run["state"] == "done"

All is made as an operator makes it: the authority and the daemons' certificates by `strongroom ca`,
the repository through the storage daemon's socket, agents enrolled by one-time tokens. Agents reach
the storage daemon through `storage_link` and the director through `director_link`, which tests
drop, stall and cut. `storage`, `director` and `agents` can be killed and started again. With
`clocks` each daemon and what it starts has its own wall clock that tests move, and so have
commands; with `leaps` all of them have one, by which time goes by (kit.shifted_clock). `messages`
is what the last command wrote to standard error.

`agent_further`: directives of the first agent. `like`: another house whose authority, certificates
and (empty) repository are copied, which is quicker than making them. `catalog`: what the Catalog
resource says, of PostgreSQL for instance. `periods`: see kit.prepared_commands.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import httpx

from kit.daemon_process import PATIENCE_SECONDS, DaemonProcess, wait_for
from kit.faulty_link import FaultyLink
from kit.house_configurations import AGENT_TEXT, DIRECTOR_TEXT, OF_CLIENT_TEXT, STORAGE_TEXT
from kit.ports import free_port
from kit.prepared_commands import PERIODS, run_for_text
from kit.shifted_clock import LeapingClock, ShiftedClock
from strongroom.net.channels.tls_contexts import client_context
from strongroom.net.control.messages import OWN_HEADERS
from strongroom.net.identities.identity import Identity

DIRECTOR = "boss"
STORAGE = "vault"
PASSPHRASE = "a passphrase no one may read 5d1f"
SQLITE = "Db Name = main; Db User = x; Db Password = x"
# X509_V_FLAG_NO_CHECK_TIME of OpenSSL.
_NO_CHECK_TIME = 0x200000
FINAL = ("done", "incomplete", "failed", "cancelled")


class HouseOfDaemons:
    """See the module. `people` have certificates as operators: admin may all, ann web1 only."""

    people = ("admin", "ann")

    def __init__(
        self,
        folder: Path,
        agents: Sequence[str] = ("web1",),
        *,
        like: HouseOfDaemons | None = None,
        clocks: bool = False,
        leaps: bool = False,
        catalog: str = SQLITE,
        storage_further: str = "",
        director_further: str = "",
        job_further: str = "",
        client_further: str = "",
        agent_further: str = "",
        messages: str = "",
        pool: str = "Keep Within = 30 days",
        schedules: str = "",
        device: str = "",
        periods: Sequence[str] = (),
    ) -> None:
        """`device`: the Archive Device, if that is not the folder `repository`."""
        self.folder = folder
        self.names = tuple(agents)
        self.catalog = catalog
        self.storage_further = storage_further
        self.director_further = director_further
        self.job_further = job_further
        self.client_further = client_further
        self.agent_further = agent_further
        self.messages_further = messages
        self.pool = pool
        self.schedules = schedules
        self.messages = ""
        self._periods = periods
        self._leaps = LeapingClock(folder, "house") if leaps else None
        self._like = like
        self._api: dict[str, httpx.Client] = {}
        self.storage_port, self.director_port = free_port(), free_port()
        self.storage_link = FaultyLink(self.storage_port)
        self.director_link = FaultyLink(self.director_port)
        self.restore_key = folder / "restore.key"
        self.repository = folder / "repository"
        self.device = device or str(self.repository)
        self.storage = self._daemon("storage", "storage", clocks)
        self.director = self._daemon("director", "director", clocks)
        self.agents = {name: self._daemon("agent", f"agent-{name}", clocks) for name in agents}
        self.clock = ShiftedClock(folder, "commands") if clocks else self._leaps

    # Beginning and end.

    def __enter__(self) -> Self:
        try:
            self._begin()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *failure: object) -> None:
        try:
            self._end()
        finally:
            for daemon in self.daemons:
                print(f"--- {daemon.configuration.stem}\n{daemon.log[-20_000:]}")

    @property
    def daemons(self) -> list[DaemonProcess]:
        """All of them."""
        return [self.storage, self.director, *self.agents.values()]

    def start_storage(self) -> None:
        """Start it and wait until it listens."""
        self.storage.start()
        self._await_port(self.storage, self.storage_port)
        wait_for(lambda: _connects(self.folder / "storage.sock"), lambda: self.storage.log)

    def start_director(self) -> None:
        """Start it and wait until it answers."""
        self.director.start()
        self._await_port(self.director, self.director_port)

    def start_agent(self, name: str) -> None:
        """Start it and wait until the director knows it."""
        self.agents[name].start()
        self.await_connected(name)

    def await_connected(self, name: str) -> None:
        """Return when an agent is connected."""
        wait_for(
            lambda: bool(self.get(f"/clients/{name}")["connected"]),
            lambda: self.agents[name].log + self.director.log,
        )

    def configure(self) -> None:
        """Write all configurations as the fields are now; daemons read them when told to."""
        words = {"folder": self.folder, "director": DIRECTOR, "storage": STORAGE}
        self.storage.configuration.write_text(
            STORAGE_TEXT.format(
                **words,
                port=self.storage_port,
                director_port=self.director_port,
                device=self.device,
                further=self.storage_further,
            )
        )
        parts = [
            DIRECTOR_TEXT.format(
                **words,
                port=self.director_port,
                link=self.storage_link.port,
                catalog=self.catalog,
                further=self.director_further,
                job_further=self.job_further,
                messages=self.messages_further,
                pool=self.pool,
            )
        ]
        for name, agent in self.agents.items():
            parts.append(
                OF_CLIENT_TEXT.format(
                    name=name, source=self.source(name), further=self.client_further
                )
            )
            agent.configuration.write_text(
                AGENT_TEXT.format(
                    name=name,
                    folder=self.folder / name,
                    director=DIRECTOR,
                    port=self.director_link.port,
                    further=self.agent_further if name == self.names[0] else "",
                )
            )
        self.director.configuration.write_text("".join(parts) + self.schedules)

    # What operators do.

    def get(self, path: str, person: str = "admin", **query: Any) -> Any:
        """Ask the director's API; the answer must be a good one."""
        return self._good(self.api(person).get(path, params=query))

    def post(self, path: str, body: Mapping[str, Any] | None = None, person: str = "admin") -> Any:
        """Have the director do something; it must agree."""
        return self._good(self.api(person).post(path, json=dict(body or {})))

    def api(self, person: str = "admin") -> httpx.Client:
        """The director's API as a person with a certificate sees it."""
        if person not in self._api:
            context = client_context(Identity.load(str(self.folder / person)))
            if self._leaps is not None:
                # Its certificates are made and judged by its own clock.
                context.verify_flags |= _NO_CHECK_TIME
            self._api[person] = httpx.Client(
                base_url=f"https://127.0.0.1:{self.director_port}/api/v1",
                verify=context,
                headers=OWN_HEADERS,
                timeout=PATIENCE_SECONDS,
            )
        return self._api[person]

    def begin_run(self, job: str, **fields: Any) -> str:
        """Queue a run; its id."""
        return str(self.post("/runs", {"job": job, **fields})["id"])

    def run(self, job: str, **fields: Any) -> dict[str, Any]:
        """Run a job to its end; the run."""
        return self.ended(self.begin_run(job, **fields))

    def restore(
        self, snapshot: str, target: Path, client: str, person: str = "admin"
    ) -> dict[str, Any]:
        """Restore all of a snapshot to an agent; the run when it has ended."""
        body = {"snapshot": snapshot, "target": str(target), "client": client}
        return self.ended(self.post("/restores", body, person)["id"])

    def ended(self, run_id: str, patience_seconds: float = PATIENCE_SECONDS) -> dict[str, Any]:
        """A run, once it has ended and what follows its end is done."""
        found: dict[str, Any] = {}

        def look() -> bool:
            found.update(self.get(f"/runs/{run_id}"))
            return bool(found["concluded"])

        wait_for(look, lambda: f"{found}\n{self.log(run_id)}", patience_seconds)
        return found

    def await_stored(self, run_id: str, count: int = 1) -> dict[str, Any]:
        """A run that is under way, once it reports that it has stored so many bytes."""
        found: dict[str, Any] = {}

        def look() -> bool:
            found.update(self.get(f"/runs/{run_id}"))
            assert found["state"] not in FINAL, (found, self.log(run_id))
            return bool(found["stored_bytes"] >= count)

        wait_for(look, lambda: f"{found}\n{self.log(run_id)}")
        return found

    def log(self, run_id: str) -> str:
        """The log of a run, a line each."""
        lines = self.get(f"/runs/{run_id}/log", limit=1000)["items"]
        return "".join(f"{line['level']}: {line['text']}\n" for line in lines)

    def command(self, *words: str, exit_code: int = 0) -> str:
        """Give a command of ours; what it prints."""
        clock = self.clock.environment if self.clock else {}
        answer = run_for_text(words, {**self.environment, **clock})
        assert answer.returncode == exit_code, (words, answer.returncode, answer.stderr)
        self.messages = answer.stderr
        return answer.stdout + (answer.stderr if exit_code else "")

    def leap(self, seconds: float) -> None:
        """Let time go by, for all daemons and commands."""
        assert self._leaps is not None
        # Connections that were idle for so long are closed by the director at any moment.
        for client in self._api.values():
            client.close()
        self._api.clear()
        self._leaps.leap(seconds)

    @property
    def now(self) -> float:
        """Seconds since 1970-01-01 UTC, by the clock of a house with `leaps`."""
        assert self._leaps is not None
        return self._leaps.now

    def set_clocks(self, ahead_seconds: float) -> None:
        """Move the clocks of all daemons, and of commands from now on."""
        for daemon in self.daemons:
            assert daemon.clock is not None
            daemon.clock.set(ahead_seconds)
        assert self.clock is not None
        self.clock.set(ahead_seconds)

    def console(self, *words: str, person: str = "admin", exit_code: int = 0) -> str:
        """Give a command of a console."""
        place = ("--director", f"https://127.0.0.1:{self.director_port}")
        identity = ("--identity", str(self.folder / person))
        return self.command(*words, *place, *identity, exit_code=exit_code)

    def maintain(self, *words: str, exit_code: int = 0) -> str:
        """Give a command of maintenance at the storage daemon's socket."""
        place = ("--repo", f"unix:{self.folder}/storage.sock")
        return self.command(
            *words, *place, "--key-file", str(self.restore_key), exit_code=exit_code
        )

    def authority(self, *words: str) -> str:
        """Give a `ca` command."""
        return self.command("ca", *words, "--ca", str(self.folder / "ca"))

    # Files.

    def source(self, name: str) -> Path:
        """What the client's job backs up."""
        return self.folder / name / "source"

    def write_files(self, name: str, files: Mapping[str, bytes]) -> None:
        """Write files into a client's source."""
        for path, content in files.items():
            place = self.source(name) / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)

    def restored(self, target: Path, name: str) -> Path:
        """Where the source of a client is below the target of a restore."""
        return target / str(self.source(name)).lstrip("/")

    def pack_bytes(self) -> int:
        """How much the repository's packs take, without those that are being written."""
        return sum(path.stat().st_size for path in (self.repository / "packs").rglob("?" * 64))

    @property
    def environment(self) -> dict[str, str]:
        """A user's environment without any setting of ours."""
        kept = {name: text for name, text in os.environ.items() if "STRONGROOM" not in name}
        kept.pop("XDG_CACHE_HOME", None)
        return {**kept, "HOME": str(self.folder / "home"), "LC_ALL": "C.UTF-8", "TZ": "UTC"}

    # Making it.

    def _daemon(self, kind: str, name: str, has_clock: bool) -> DaemonProcess:
        environment = {**self.environment, PERIODS: " ".join(self._periods)}
        configuration, log = self.folder / f"{name}.conf", self.folder / f"{name}.log"
        daemon = DaemonProcess(kind, configuration, log, environment)
        if has_clock:
            daemon.clock = ShiftedClock(self.folder, name)
        elif self._leaps is not None:
            daemon.clock = self._leaps
        return daemon

    def _begin(self) -> None:
        (self.folder / "work").mkdir(exist_ok=True)
        for name in self.names:
            for part in ("working", "scripts", "source"):
                (self.folder / name / part).mkdir(parents=True)
        self.configure()
        if self._like is not None:
            self._copy(self._like)
            self.start_storage()
            self.start_director()
        else:
            self._make()
        for name in self.names:
            if not (self.folder / name / "identity").exists():
                self.enrol(name)
            self.start_agent(name)

    def _copy(self, like: HouseOfDaemons) -> None:
        for name in ("passphrase", "appliance.key", "restore.key"):
            shutil.copy2(like.folder / name, self.folder / name)
        folders = ["ca", "vault", "boss", *self.people]
        folders += [f"{name}/identity" for name in self.names if name in like.names]
        for name in folders:
            shutil.copytree(like.folder / name, self.folder / name)
        # The authority writes its lists to these folders.
        issued = self.folder / "ca" / "issued.jsonl"
        issued.write_text(issued.read_text().replace(str(like.folder), str(self.folder)))
        # It may be a mount point, so it is filled rather than made.
        shutil.copytree(like.folder / "pristine", self.repository, dirs_exist_ok=True)

    def _make(self) -> None:
        self.authority("init", "--name", "house")
        self._issue(STORAGE, "storage", "vault")
        self._issue(DIRECTOR, "director", "boss")
        for name in self.people:
            self._issue(name, "operator", name)
        secret = self.folder / "passphrase"
        secret.write_text(PASSPHRASE + "\n")
        secret.chmod(0o600)
        self.start_storage()
        place = ("--repo", f"unix:{self.folder}/storage.sock", "--password-file", str(secret))
        self.command("init", *place)
        self.command("key", "export-restore", str(self.restore_key), *place)
        self.maintain("key", "export-appliance", str(self.folder / "appliance.key"))
        # What copies of this house begin with.
        if self.repository.exists():
            shutil.copytree(self.repository, self.folder / "pristine")
        self.start_director()

    def _issue(self, name: str, role: str, folder: str) -> None:
        place = str(self.folder / folder)
        self.authority("issue", name, "--role", role, "--host", "127.0.0.1", "--folder", place)

    def enrol(self, name: str) -> None:
        """Give an agent its certificate by a one-time token."""
        token = self.folder / f"{name}.token"
        said = self.authority("token", name, "--out", str(token), "--json")
        fingerprint = json.loads(said.splitlines()[-1])["fingerprint"]
        self.command(
            *("agent", "enrol", "--director", f"https://127.0.0.1:{self.director_port}"),
            *("--token-file", str(token), "--fingerprint", fingerprint, "--name", name),
            *("--into", str(self.folder / name / "identity")),
        )

    def _end(self) -> None:
        for client in self._api.values():
            client.close()
        for link in (self.storage_link, self.director_link):
            link.__exit__(None, None, None)
        running = [daemon for daemon in self.daemons if daemon.is_running]
        for daemon in running:
            daemon.signal(signal.SIGTERM)
        # All at once, as when a machine is shut down, and each on its own accord.
        codes = {daemon.configuration.stem: daemon.await_end() for daemon in running}
        assert not any(codes.values()), codes

    def _await_port(self, daemon: DaemonProcess, port: int) -> None:
        def listens() -> bool:
            assert daemon.is_running, daemon.log
            with socket.socket() as probe:
                return not probe.connect_ex(("127.0.0.1", port))

        wait_for(listens, lambda: daemon.log)

    def _good(self, answer: httpx.Response) -> Any:
        assert answer.status_code < 300, (answer.status_code, answer.text)
        return answer.json()


def _connects(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return not probe.connect_ex(str(path))
