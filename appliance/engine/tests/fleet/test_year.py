"""Months unattended: every incident is reported once, and once that it is over; nothing else is.

A house of real daemons lives through them in minutes (kit.house_year). At the end nothing has grown
without bound, and the last backup is restored byte by byte.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from cryptography.x509 import load_pem_x509_certificate

from kit.house_of_daemons import HouseOfDaemons
from kit.house_year import HouseYear
from kit.shifted_clock import DAY_SECONDS, can_shift_clocks
from kit.tree_compare import compare_trees
from strongroom.net.identities.identity import Identity
from strongroom.net.identities.peer import renewal_due_at

pytestmark = pytest.mark.skipif(
    not can_shift_clocks(), reason="no compiler for the clock that is moved"
)

# Event, state, and the job, storage or topic that it is about.
Told = tuple[str, str, str]
AGENTS = ("web1", "web2")
MONDAY = 0
SUNDAY = 6
LONGEST_WAIT_NIGHTS = 28
# What may vary from week to week: files of caches, packs of more or less content.
SLACK = 1.3
SLACK_COUNT = 12


@pytest.fixture
def disk(folder: Path) -> Iterator[Path]:
    """The repository's folder, on its own file system that can be full."""
    place = folder / "repository"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", str(place)]
    if os.geteuid() or subprocess.run(words, check=False, capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture
def year(folder: Path, disk: Path, first_house: HouseOfDaemons) -> Iterator[HouseYear]:
    with HouseYear(folder, AGENTS, first_house) as made:
        yield made


def opened_and_resolved(*incidents: tuple[str, str]) -> list[Told]:
    return [(event, state, of) for event, of in incidents for state in ("open", "resolved")]


def fill_the_disk(year: HouseYear, disk: Path, nights: int) -> list[Told]:
    """The disk fills up, backups fail, somebody makes room."""
    ballast = disk / "ballast"
    with ballast.open("wb") as file:
        free = os.statvfs(disk)
        os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_frsize)
    for _ in range(nights):
        year.night()
    ballast.unlink()
    year.night()
    return opened_and_resolved(
        ("disk-full", "vault"),
        *(("job-failed", f"nightly-{name}") for name in AGENTS),
    )


def until_it_can_be_away(year: HouseYear, name: str, nights: int) -> None:
    """Nights until an agent can be away for some before a Sunday, and keeps its certificate.

    People would be notified that one ends; and the jobs of a Sunday would find the agent away.
    """
    house = year.house
    for _ in range(LONGEST_WAIT_NIGHTS):
        identity = Identity.load(str(house.folder / name / "identity"))
        due = renewal_due_at(load_pem_x509_certificate(identity.certificate_pem)).timestamp()
        if year.today.weekday() + nights <= SUNDAY and due > house.now + (nights + 1) * DAY_SECONDS:
            return
        year.night()
    raise AssertionError(house.agents[name].log[-3000:])


def let_an_agent_die(year: HouseYear, nights: int) -> list[Told]:
    """An agent's machine breaks, and is back after some nights."""
    until_it_can_be_away(year, "web2", nights)
    year.house.agents["web2"].kill()
    year.dead.add("web2")
    for _ in range(nights):
        year.night()
    year.house.agents["web2"].start()
    year.dead.clear()
    year.night()
    return opened_and_resolved(("job-missing", "nightly-web2"))


def misspell(year: HouseYear) -> list[Told]:
    """Somebody misspells a directive, reloads and goes home; it is fixed on the next day."""
    house = year.house
    right = house.pool
    house.pool = right.replace("Keep Daily", "Keep Dialy")
    house.configure()
    house.director.signal(signal.SIGHUP)
    house.director.await_said("the configuration in force stays")
    year.night()
    house.pool = right
    house.configure()
    house.director.signal(signal.SIGHUP)
    year.night()
    return opened_and_resolved(("configuration-refused", "configuration"))


def assert_bounded(before: Mapping[str, int], after: Mapping[str, int], nights: int) -> None:
    grown = {
        name: (before.get(name, 0), count)
        for name, count in after.items()
        if count > before.get(name, 0) * SLACK + slack_of(name, nights)
    }
    assert grown == {}


def slack_of(name: str, nights: int) -> int:
    """What may come on top, whatever there was: logs and the audit grow with what is done."""
    if name == "table audit":
        return SLACK_COUNT + nights
    kind, _, _ = name.partition(" ")
    return {"bytes": 3 << 20, "log": 150_000 + 4_000 * nights}.get(kind, SLACK_COUNT)


def assert_restores(year: HouseYear) -> None:
    house = year.house
    for name in AGENTS:
        run = house.run(f"nightly-{name}")
        assert run["state"] == "done", house.log(run["id"])
        target = house.folder / f"restored-{name}"
        restored = house.restore(run["snapshot"], target, name)
        assert restored["state"] == "done", house.log(restored["id"])
        found = house.restored(target, name)
        assert compare_trees(bytes(house.source(name)), bytes(found)) == []


class Life:
    """A year, and what was to be reported so far."""

    def __init__(self, year: HouseYear, disk: Path) -> None:
        self.year, self.disk = year, disk
        self.expected: list[Told] = []

    def nights(self, count: int) -> None:
        """Nights without an incident."""
        for _ in range(count):
            self.year.night()
        self.compare()

    def expect(self, told: list[Told]) -> None:
        """What an incident has people told, and that they were."""
        self.expected += told
        self.compare()

    def compare(self) -> None:
        """All that was to be reported was reported, and nothing else."""
        assert sorted(self.year.await_told(len(self.expected))) == sorted(self.expected)
        assert len(self.year.mailed()) <= len(self.expected)


@pytest.fixture
def life(year: HouseYear, disk: Path) -> Life:
    return Life(year, disk)


def test_days_with_every_incident_told_once(life: Life) -> None:
    year = life.year
    life.expect(fill_the_disk(year, life.disk, 1))
    life.expect(let_an_agent_die(year, 4))
    before = year.sizes()
    life.expect(misspell(year))
    life.nights(1)
    assert_bounded(before, year.sizes(), 3)
    assert_restores(year)


@pytest.mark.slow
def test_a_year_unattended(life: Life) -> None:
    year, house = life.year, life.year.house
    before: dict[str, int] = {}
    token = house.folder / "token"
    for night in range(365):
        if night % 7 == 0:
            # People look now and then, which renews their certificates.
            for person in house.people:
                house.console("status", person=person)
        # Two weeks before the end of a token people would be notified.
        if night % 40 == 0:
            words = ("token", "create", "admin", "--lifetime", "90d", "-o")
            token.unlink(missing_ok=True)
            house.console(*words, str(token))
        if night in (60, 250):
            year.until_weekday(MONDAY)  # the jobs of a Sunday would fail, too
            life.expect(fill_the_disk(year, life.disk, 2))
        elif night in (80, 280):
            life.expect(let_an_agent_die(year, 5))
        elif night == 150:
            life.expect(misspell(year))
        elif night == 100:
            before = dict(year.sizes())
        elif night % 40 == 0:
            assert house.director.stop() == 0
            house.start_director()
        life.nights(1)
    assert_bounded(before, year.sizes(), 365 - 100)
    assert_restores(year)
