"""A year of a director in this process, with faults that come and go, and what people were
notified.

    year = YearOfFaults(director, told, seed)
    await year.open()
    await year.live(FAULTS)

Time is virtual; the catalog, the repository, its snapshots, the mail server and the webhook are
real. Each fault has a part of the year of its own, in the order and at the nights that the seed
says. Every night the newest good snapshots of each client must be in the repository.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from kit.agents_in_process import SimulatedAgent
from kit.damaged_file import damage_pages
from kit.director_in_process import OPERATOR, client, job
from kit.tiny_backup import CHEAP, TinyBackup
from strongroom.director.catalog.rivals import SeenAgent
from strongroom.director.configuration import load_configuration
from strongroom.director.own_jobs.catalog_copies import recover_catalog
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import Snapshot
from strongroom.engine.stores.local import LocalStore

HOUR: Final = 3600.0
DAY: Final = 86400.0
NIGHTS: Final = 365
KEPT: Final = 3
CLIENTS: Final = ("web1", "web2")
PASSPHRASE: Final = b"open sesame"
FILES: Final = 30
CONTENTS: Final = 8


class Fault(NamedTuple):
    """What happens, and the event that must be reported within a day."""

    happens: Callable[[YearOfFaults], Awaitable[None]]
    event: str


class YearOfFaults:
    """See the module."""

    def __init__(self, director: Any, told: Any, seed: int) -> None:
        self.director, self.told = director, told
        self.chance = random.Random(seed)
        self.agents: dict[str, SimulatedAgent] = {}
        self.hanging: set[str] = set()
        self.hung: set[str] = set()
        self.empty: set[str] = set()
        self.failing: set[str] = set()
        self.good: dict[str, list[str]] = {name: [] for name in CLIENTS}
        self._stored: dict[tuple[str, int], Snapshot] = {}
        self.seen: list[tuple[float, str, str]] = []
        self._noted = 0
        self._began = self._noon = director.time.elapsed
        self._folder = director.folder / "main"

    async def open(self) -> None:
        """Configure and open the director; all agents connect."""
        (self.director.folder / "passphrase").write_bytes(PASSPHRASE + b"\n")
        (self.director.folder / "passphrase").chmod(0o600)
        Repository.create(LocalStore(str(self._folder)), PASSPHRASE, cost=CHEAP).close()
        jobs = client("web2") + "".join(
            job(f"nightly-{name}", name, more="Schedule = nights") for name in CLIENTS
        )
        place = (
            f'Repository = "{self._folder}"; PassphraseFile = "{self._folder.parent}/passphrase"'
        )
        self.told.configure(jobs, storage=place, pool=f"KeepLast = {KEPT}")
        await self.reopen()

    async def reopen(self) -> None:
        """Open the director, and have the agents connect that are there."""
        await self.director.open()
        names = list(self.agents or CLIENTS)
        self.agents = {name: await self.director.agent(name) for name in names}

    # Time.

    @property
    def night_number(self) -> int:
        """How many nights went by."""
        return int((self.director.time.elapsed - self._began) / DAY)

    async def until(self, hours: float) -> None:
        """Let time go by until so long after the last noon."""
        moment = self._noon + hours * HOUR
        await self.director.go(max(0.0, moment - self.director.time.elapsed))

    async def night(self, *, is_quiet: bool = False) -> None:
        """From noon to noon: backups at nine, a look after them and one in the morning."""
        await self.until(9.01)
        await self.work()
        if not is_quiet:
            await self.look()
        await self.until(19.5)
        await self.work()
        await self.look()
        await self.until(24)
        while self._noon + DAY <= self.director.time.elapsed:
            self._noon += DAY
        self.judge()

    async def look(self, seconds: float = 0.0) -> None:
        """Time goes by, the director looks, and what it tells is noted."""
        await self.director.go(seconds)
        notices = self.director.service.notices
        await notices.measure()
        await notices.look()
        # Notices are gathered for some seconds.
        self.director.time.pass_by(11)
        await notices.deliver()
        self.note()

    def note(self) -> None:
        """Note what the webhook was notified since the last time."""
        asked = self.told.web.asked[self._noted :]
        self._noted += len(asked)
        now = self.director.time.elapsed
        self.seen += [
            (now, one["event"], one["state"]) for each in asked for one in each.json["notices"]
        ]

    # Agents.

    async def work(self) -> None:
        """Agents do what they were told, and what they do meanwhile."""
        for _ in range(4):
            if not any(agent.orders for agent in self.agents.values()):
                return
            for name, agent in list(self.agents.items()):
                if self.director.link.agents.get(name) is agent:
                    await self._work_of(name, agent)
            await self.director.go(1)

    async def _work_of(self, name: str, agent: SimulatedAgent) -> None:
        for run_id, order in list(agent.orders.items()):
            record = await self.director.run(run_id)
            if record.state not in ("running", "waiting", "queued"):
                agent.orders.pop(run_id)
                continue
            if name in self.hanging:
                if run_id not in self.hung:
                    await agent.start(run_id)
                    self.hung.add(run_id)
                continue
            if run_id not in self.hung:
                await agent.start(run_id)
            self.director.time.pass_by(60)
            if run_id in agent.cancelled:
                await self.director.end(agent, run_id, "cancelled")
            elif name in self.failing or not self._folder.exists():
                await self.director.end(agent, run_id, "failed", error_id="store", error="no disk")
            else:
                await self._back_up(name, agent, run_id, order)
            agent.orders.pop(run_id, None)

    async def _back_up(self, name: str, agent: SimulatedAgent, run_id: str, order: Any) -> None:
        made, size = await asyncio.to_thread(self._store, name, order.tags, order.job)
        is_empty = name in self.empty
        summary = {
            "files": 0 if is_empty else FILES,
            "size_bytes": 0 if is_empty else size,
            "stored_bytes": 10,
            "problems": 0,
            "empty_paths": ["/home"] if is_empty else [],
            "mounts": {"/home": "/" if is_empty else "/home"},
        }
        await self.director.end(agent, run_id, snapshot=made, summary=summary)
        if not is_empty and (await self.director.run(run_id)).state == "done":
            self.good[name].append(made)

    def _store(self, name: str, tags: tuple[str, ...], job_name: str) -> tuple[str, int]:
        # One of a few contents: an index that grows each night would take most of the time.
        content = -1 if name in self.empty else self.chance.randrange(CONTENTS)
        repository = Repository.open(LocalStore(str(self._folder)), PASSPHRASE).for_client(name)
        now_ns = self.director.time.now_ns
        try:
            known = self._stored.get((name, content))
            if known is None:
                count = 0 if content < 0 else FILES
                files = {b"file%d" % number: b"%d" % number * 40 for number in range(count)}
                if files:
                    files[b"file0"] = b"content %d" % content * 40
                backup = TinyBackup(repository)
                backup.store(files)
                known = backup.commit(tags=tags, job=job_name, start_ns=now_ns)
                self._stored[name, content] = made = known
            else:
                made = _commit_again(repository, known, tags, now_ns)
        finally:
            repository.close()
        os.utime(self._folder / "snapshots" / made.id, ns=(now_ns, now_ns))
        return made.id, made.totals.content_bytes

    # Judgement.

    def judge(self) -> None:
        """No good snapshot was lost."""
        if not self._folder.exists():
            return
        there = set(os.listdir(self._folder / "snapshots"))
        for name, made in self.good.items():
            lost = set(made[-KEPT:]) - there
            assert not lost, f"night {self.night_number}: {name} lost {lost}"

    async def live(self, faults: Sequence[Fault], nights: int = NIGHTS) -> None:
        """All faults, each in a part of the year of its own."""
        chosen = list(faults)
        self.chance.shuffle(chosen)
        for number, fault in enumerate(chosen):
            ends = (number + 1) * nights // len(chosen)
            for _ in range(self.chance.randrange(3, 8)):
                await self.night(is_quiet=True)
            begin, before = self.director.time.elapsed, len(self.seen)
            await fault.happens(self)
            told = [(time, event) for time, event, state in self.seen[before:] if state == "open"]
            shown = f"seed's fault {number}: {fault}, {told}"
            first = min((time for time, event in told if event == fault.event), default=None)
            assert first is not None, shown
            assert first - begin <= DAY + 2 * HOUR, shown
            await self.night()
            while self.night_number < ends:
                await self.night(is_quiet=True)
        for _ in range(3):
            await self.night()

    async def assert_whole(self) -> None:
        """At the end nothing is wrong, and every client has a backup of the last night."""
        problems = (await self.director.service.queries.status()).problems
        assert problems == (), problems
        for name in CLIENTS:
            newest = (await self.director.runs(client=name, states=("done",), limit=1))[0]
            age = (self.director.time.now_ns - newest.ended_ns) / 1e9
            assert age < DAY, (name, newest)
            assert newest.snapshot == self.good[name][-1]


def _commit_again(
    repository: Repository, known: Snapshot, tags: tuple[str, ...], now_ns: int
) -> Snapshot:
    """A backup that finds what an earlier one has stored."""
    lease = repository.lease(known.host, os.getpid(), "backup")
    try:
        again = msgspec.structs.replace(known, tags=tags, start_ns=now_ns, end_ns=now_ns, id="")
        return repository.commit(again, lease)
    finally:
        lease.end()


# What happens.


async def nights(year: YearOfFaults, count: int) -> None:
    for _ in range(count):
        await year.night()


async def clock_ahead(year: YearOfFaults) -> None:
    """A bad RTC: months ahead for some seconds, in which backups run."""
    await year.until(9 - 5 / HOUR)
    year.director.time.jump(97 * DAY)
    await year.director.go(10)
    await year.work()
    await year.look(5)
    year.director.time.jump(-97 * DAY)
    await year.look(60)
    await year.night()


async def clock_behind(year: YearOfFaults) -> None:
    """A battery that is empty: years back for an hour."""
    year.director.time.jump(-2000 * DAY)
    for _ in range(6):
        await year.look(600)
    year.director.time.jump(2000 * DAY)
    await year.look(60)
    await year.night()


async def machine_sleeps(year: YearOfFaults) -> None:
    """It sleeps through the nights of a week; the jobs are late, and nothing is held or lost."""
    for _ in range(7):
        year.director.time.pass_by(19 * HOUR)
        await year.night()
        assert not year.director.service.scheduler.guard.obstacle


async def mail_server_away(year: YearOfFaults) -> None:
    """A week, in which a job fails; the mail comes when the server is back."""
    year.told.mail.stop()
    year.failing.add("web1")
    before = len(year.told.mail.mails)
    await nights(year, 7)
    year.told.mail.start()
    await nights(year, 1)
    assert len(year.told.mail.mails) > before
    year.failing.clear()
    await nights(year, 1)


async def disk_unplugged(year: YearOfFaults) -> None:
    folder = year._folder  # noqa: SLF001 - a part of the year
    folder.rename(folder.with_name("unplugged"))
    await nights(year, year.chance.randrange(1, 4))
    folder.with_name("unplugged").rename(folder)
    await nights(year, 1)


async def mount_is_empty(year: YearOfFaults) -> None:
    year.empty.add("web2")
    await nights(year, year.chance.randrange(KEPT + 1, 9))
    year.empty.clear()
    await nights(year, 1)


async def client_away(year: YearOfFaults) -> None:
    agent = year.agents.pop("web2")
    await agent.disconnect()
    await nights(year, 30)
    runs = len(await year.director.runs(client="web2", states=("done",), limit=1000))
    year.agents["web2"] = await year.director.agent("web2")
    await year.work()
    after = len(await year.director.runs(client="web2", states=("done",), limit=1000))
    assert after == runs + 1
    await nights(year, 1)


async def run_hangs(year: YearOfFaults) -> None:
    year.hanging.add("web1")
    await nights(year, 1)
    year.hanging.clear()
    await year.work()
    await nights(year, 1)


async def catalog_damaged(year: YearOfFaults) -> None:
    director = year.director
    for table in ("runs", "incidents"):
        damage_pages(director.folder / "work" / "catalog.sqlite", table)
    for _ in range(3):
        await year.told.look_if_it_can()
    year.note()
    await director.close()
    path = str(director.folder / "etc")
    made = await asyncio.to_thread(recover_catalog, path, load_configuration(path))
    assert made.source != "sound"
    await year.reopen()
    await nights(year, 1)


async def machine_copied(year: YearOfFaults) -> None:
    """A copy connects in the name of web1; its backups wait until it has another identity."""
    rivals = year.director.service.agents.rivals
    seen = [
        SeenAgent(instance=name, boot_id=name, machine=name, address=f"192.0.2.{number}")
        for number, name in enumerate("ab")
    ]
    await rivals.found("web1", *seen, issued=1)
    good = list(year.good["web1"])
    await nights(year, 2)
    assert year.good["web1"] == good
    await rivals.settle("web1", "the copy has another identity")
    await year.director.go(1)
    await year.work()
    await nights(year, 1)
    assert len(year.good["web1"]) > len(good)


async def configuration_misspelt(year: YearOfFaults) -> None:
    file = year.director.folder / "etc/director.d/all/all.conf"
    right = file.read_text()
    file.write_text(right + "Job { Name = nihgtly; Job Defs = none }\n")
    await year.director.service.commands.reload(OPERATOR)
    await nights(year, 1)
    file.write_text(right)
    await year.director.service.commands.reload(OPERATOR)
    await nights(year, 1)


FAULTS: Final = (
    Fault(clock_ahead, "clock-jump"),
    Fault(clock_behind, "clock-jump"),
    Fault(machine_sleeps, "job-late"),
    Fault(mail_server_away, "notices-undelivered"),
    Fault(disk_unplugged, "storage-unreachable"),
    Fault(mount_is_empty, "backup-short"),
    Fault(client_away, "job-missing"),
    Fault(run_hangs, "job-slow"),
    Fault(machine_copied, "two-agents"),
    Fault(catalog_damaged, "catalog-damaged"),
    Fault(configuration_misspelt, "configuration-refused"),
)
