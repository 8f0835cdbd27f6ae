"""A house of daemons whose time goes by: nights, Sundays, mornings, and what people are notified.

    with HouseYear(folder, agents, like) as year:
        year.night()
        assert year.events() == []

The daemons are real, and so are the mail server and the webhook that are reported. Time leaps from
one moment to the next at which something is due (kit.shifted_clock), and waits there until it is
done. The house is in Vienna, where clocks change twice a year.
"""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from zoneinfo import ZoneInfo

import httpx

from kit.daemon_process import wait_for
from kit.house_of_daemons import HouseOfDaemons
from kit.mail_server import MailServer
from kit.web_server import WebServer

ZONE = ZoneInfo("Europe/Vienna")
EVENING = time(20, 55)
NIGHT = time(21, 0, 5)
SUNDAY = time(11, 0, 5)
MORNING = time(7, 30, 5)
# The longest that notices may take to be sent: a look, gathering, a round of delivery.
NOTICE_SECONDS = 61.0
_LOOKS = 30
_LOOK_PATIENCE_SECONDS = 2.0
_GATHER_NS = 11_000_000_000
_SUNDAY = 6

MESSAGES = """SMTP Server = 127.0.0.1; SMTP Port = {mail}; SMTP Security = None
  Mail From = backup@example.org
  Notify {{ Name = mail; Type = Mail; To = ann@example.org; Digest At = 7:30 }}
  Notify {{ Name = hook; Type = Webhook; URL = "{web}/in" }}"""
SCHEDULES = """
Schedule { Name = nights; Run = Incremental daily at 21:00; }
Schedule { Name = sundays; Run = sun at 11:00; }
Job { Name = restore-test; Type = Verify; Level = Data; Job To Verify = nightly-web1; Client = web1
  FileSet = all-web1; Storage = vault; Pool = short; Messages = standard; Schedule = sundays }
Job { Name = housekeeping; Type = Admin; Client = web1; FileSet = all-web1; Storage = vault
  Pool = short; Messages = standard; Schedule = sundays; Priority = 20
  RunScript { RunsWhen = Before; RunsOnClient = no
    Console = "backup catalog"; Console = "expire runs 5"; Console = "prune" } }
"""


class HouseYear:
    """See the module. `dead`: agents that no one waits for."""

    def __init__(self, folder: Path, agents: Sequence[str], like: HouseOfDaemons) -> None:
        self._stack = ExitStack()
        self.mail, self.web = MailServer(), WebServer()
        self._agents = tuple(agents)
        self._folder = folder
        self._like = like
        self.dead: set[str] = set()
        self._chance = random.Random(11)
        self._digests = 0
        self.house: HouseOfDaemons

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.mail)
            stack.enter_context(self.web)
            self.house = HouseOfDaemons(
                self._folder,
                self._agents,
                like=self._like,
                leaps=True,
                director_further="TimeZone = Europe/Vienna",
                job_further="Schedule = nights",
                pool="Keep Daily = 7; Keep Weekly = 4",
                messages=MESSAGES.format(mail=self.mail.port, web=self.web.url),
                schedules=SCHEDULES,
            )
            # It begins on a Monday, whatever day it is.
            noon = datetime.combine(self.today, time(12), ZONE)
            sunday = noon + timedelta(days=_SUNDAY - noon.weekday() or 7)
            self.house.leap(sunday.timestamp() - self.house.now)
            stack.enter_context(self.house)
            self._begin()
            self._stack = stack.pop_all()
        return self

    def _begin(self) -> None:
        """A first backup of everybody; then it is the morning of a Monday."""
        for name in self._agents:
            self.write_files(name)
            assert self.house.run(f"nightly-{name}")["state"] == "done"
        self.night()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, traceback)

    # Time.

    @property
    def today(self) -> datetime:
        """The local time of the house."""
        return datetime.fromtimestamp(self.house.now, UTC).astimezone(ZONE)

    def until(self, moment: time) -> None:
        """Leap to the next such time of day, and wait until all are connected again."""
        self.await_sent()
        now = self.today
        day = now.date() if now.time() < moment else now.date() + timedelta(days=1)
        wanted = datetime.combine(day, moment, ZONE).timestamp()
        self.house.leap(wanted - self.house.now)
        self.await_connected()

    def await_sent(self) -> None:
        """Return when nothing of what is due is still to be sent: a leap would cut it off."""
        due = (
            "SELECT count(*) FROM outbox WHERE failed_ns = 0 AND not_before_ns <= :now AND "
            "(form != 'notice' OR created_ns <= :gathered)"
        )

        def sent() -> bool:
            now_ns = int(self.house.now * 1e9)
            with closing(self._catalog()) as catalog:
                times = {"now": now_ns, "gathered": now_ns - _GATHER_NS}
                (count,) = catalog.execute(due, times).fetchone()
            return not count

        wait_for(sent, lambda: self.house.director.log[-3000:])

    def _catalog(self) -> sqlite3.Connection:
        return sqlite3.connect(self.house.folder / "work" / "main.sqlite", timeout=30)

    def await_connected(self) -> None:
        """Return when all agents are connected that live."""
        wanted = set(self._agents) - self.dead

        def connected() -> bool:
            found = self.ask("/clients")
            return wanted <= {one["name"] for one in found["items"] if one["connected"]}

        wait_for(connected, lambda: self.house.director.log[-3000:])

    def night(self) -> None:
        """From one morning to the next: the jobs of a Sunday, backups."""
        now = self.today
        if now.weekday() == _SUNDAY and now.time() < SUNDAY:
            self.until(SUNDAY)
            self.await_ended(("restore-test", "housekeeping"))
        if not EVENING <= now.time() < NIGHT:
            self.until(EVENING)
        for name in self._agents:
            self.write_files(name)
        self.until(NIGHT)
        self.await_ended([f"nightly-{name}" for name in self._agents if name not in self.dead])
        self.until(MORNING)
        self._digests += 1
        assert self._come(lambda: len(self.digests()) >= self._digests), self.mail.subjects()

    def until_weekday(self, day: int) -> None:
        """Nights until it is that day, of which Monday is 0."""
        while self.today.weekday() != day:
            self.night()

    def write_files(self, name: str) -> None:
        """What changes in a day: new files, changed ones, removed ones."""
        chance = self._chance
        names = [f"folder{number % 5}/file{number}" for number in range(60)]
        changed = chance.sample(names, 6)
        files = {one: chance.randbytes(chance.randrange(3000)) for one in changed}
        self.house.write_files(name, files)
        for one in chance.sample(names, 2):
            (self.house.source(name) / one).unlink(missing_ok=True)

    def await_ended(self, jobs: Sequence[str]) -> None:
        """Return when the runs of these jobs that are due now have ended, and all that follows."""
        begin = self.house.now - 60

        def ended() -> bool:
            for job in jobs:
                (run,) = self.ask("/runs", job=job, limit=1)["items"] or [None]
                if run is None or _seconds(run["scheduled"]) < begin or not run["concluded"]:
                    return False
            return True

        wait_for(ended, lambda: str([self.ask("/runs", job=job, limit=1) for job in jobs]))

    def ask(self, path: str, **query: Any) -> Any:
        """Ask the API, in spite of connections that a leap has cut."""
        for _ in range(5):
            with suppress(httpx.TransportError):
                return self.house.get(path, **query)
        return self.house.get(path, **query)

    # What people are notified.

    def events(self) -> list[tuple[str, str, str]]:
        """Event, state and what it is about, of each notice of the webhook, in its order."""
        return [
            (one["event"], one["state"], one["job"] or one["storage"] or one["topic"])
            for asked in self.web.asked
            for one in asked.json["notices"]
        ]

    def mailed(self) -> list[str]:
        """Subjects of mails that are no digests."""
        return [one for one in self.mail.subjects() if "] digest:" not in one]

    def digests(self) -> list[str]:
        """Subjects of digests."""
        return [one for one in self.mail.subjects() if "] digest:" in one]

    def await_told(self, count: int) -> list[tuple[str, str, str]]:
        """The events, once there are so many."""
        self._come(lambda: len(self.events()) >= count)
        return self.events()

    def _come(self, condition: Callable[[], bool]) -> bool:
        """Whether it comes true while the director looks some more times at what is wrong."""
        for _ in range(_LOOKS):
            with suppress(AssertionError):
                wait_for(condition, patience_seconds=_LOOK_PATIENCE_SECONDS)
                return True
            # It looked just before, and does so again after a minute.
            self.await_sent()
            self.house.leap(NOTICE_SECONDS)
            self.await_connected()
        return False

    # What grows.

    def sizes(self) -> Counter[str]:
        """Rows of the catalog by table, and files by what they are."""
        found: Counter[str] = Counter()
        with closing(self._catalog()) as catalog:
            tables = "SELECT name FROM sqlite_master WHERE type = 'table'"
            for (table,) in catalog.execute(tables).fetchall():
                (found[f"table {table}"],) = catalog.execute(
                    f"SELECT count(*) FROM {table}"
                ).fetchone()
        for folder in ("repository", "work", "web1/working", "vault", "boss", "ca"):
            root = self.house.folder / folder
            for path in root.rglob("*"):
                if path.is_file():
                    place = path.relative_to(root).parts[0] if len(path.parts) else ""
                    found[f"files {folder}/{place if path.parent != root else ''}"] += 1
                    found[f"bytes {folder}"] += path.stat().st_size
        for daemon in self.house.daemons:
            found[f"log {daemon.configuration.stem}"] = len(daemon.log)
        return found


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
