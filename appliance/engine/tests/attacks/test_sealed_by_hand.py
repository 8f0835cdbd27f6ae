"""A compromised agent seals objects that no writer makes; no command of the appliance stops.

Every command names what it sets aside, does its work for all others, and has a code for that.
"""

import os
import socket

import msgspec
import pytest

from kit.hostile_house import FILES as HOSTILE_FILES
from kit.hostile_house import HostileHouse
from kit.prepared_commands import run_command
from kit.sealed_by_hand import lease_object, snapshot_object, store
from kit.tiny_backup import PASSPHRASE, back_up, new_repository, read_back
from strongroom.base import clock
from strongroom.base.clock import boot_id
from strongroom.base.errors import CheckFailedError, SetAsideError
from strongroom.base.progress import NullProgress
from strongroom.engine.check.check import CheckOptions, DataSubset, check
from strongroom.engine.check.vouch import required_judge, vouch
from strongroom.engine.prune.sweep import live_leases
from strongroom.engine.repair.repair import RepairOptions, repair
from strongroom.engine.repository.leases import Holder, has_ended, list_leases
from strongroom.engine.stores.local import LocalStore

FILES = {b"one": b"first" * 1000, b"two": os.urandom(5000)}
SET_ASIDE = SetAsideError.exit_code
FAILED = CheckFailedError.exit_code
PAGE = (b"data", b"one", b"\x5a" * 24, 1, 10)


def nested(key):
    """347 bytes: an unknown field that is 500,000 levels deep."""
    fields = msgspec.msgpack.encode({"host": key.name, "generation": key.generation})
    deep = b"\xa1x" + b"\x91" * 500_000 + b"\xc0"
    return snapshot_object(key, b"\x83" + fields[1:] + deep)


HOSTILE = {
    "nested": nested,
    "nested not as deep": lambda key: snapshot_object(
        key,
        b"\x83"
        + msgspec.msgpack.encode({"host": key.name, "generation": key.generation})[1:]
        + b"\xa1x"
        + b"\x91" * 900
        + b"\xc0",
    ),
    "short block id": lambda key: snapshot_object(key, {}, [(b"data", b"one", b"short", 1, 10)]),
    "long block id": lambda key: snapshot_object(key, {}, [(b"data", b"one", b"x" * 240, 1, 10)]),
    "negative rows": lambda key: snapshot_object(key, {}, [(*PAGE[:3], -1, 10)]),
    "many pages": lambda key: snapshot_object(key, {}, [PAGE] * 100_000),
    "nested pages": lambda key: snapshot_object(
        key, {}, raw_pages=b"\x91" + b"\x91" * 500_000 + b"\xc0"
    ),
    "generation": lambda key: snapshot_object(key, {"generation": 1 << 40}),
    "times": lambda key: snapshot_object(key, {"start_ns": (1 << 64) - 1, "end_ns": -(1 << 63)}),
    "totals": lambda key: snapshot_object(key, {"totals": {"files": (1 << 64) - 1}}),
    "missing block": lambda key: snapshot_object(key, {}, [PAGE]),
}


OF_THE_ENVELOPE = ("generation", "times", "totals")


class House:
    """A repository of two clients, behind a daemon or in a folder, and commands on it."""

    def __init__(self, appliance, attacker, victim, place, folder):
        self.appliance, self.attacker, self.victim = appliance, attacker, victim
        self.place = place
        self.folder = folder
        self.kept = back_up(victim, FILES)

    def run(self, *words):
        kept = {name: text for name, text in os.environ.items() if "STRONGROOM" not in name}
        ended = run_command(
            words,
            {
                **kept,
                "HOME": str(self.folder / "home"),
                "LC_ALL": "C.UTF-8",
                "STRONGROOM_REPOSITORY": self.place,
                "STRONGROOM_PASSWORD": PASSPHRASE.decode(),
            },
        )
        said = (words, ended.stderr.decode())
        assert ended.returncode not in (70, 71, 1), said
        assert ended.returncode >= 0, said
        return ended

    def every_command(self, expected):
        """Run all of them; `expected`: their codes, and the names that they say."""
        restored = self.folder / "restored"
        target = self.folder / "other"
        new_repository(LocalStore(str(target)), PASSPHRASE).close()
        for words in (
            ("snapshots",),
            ("stats",),
            ("stats", "--each"),
            ("find", "one"),
            ("share",),
            ("check", "--read-data", "all"),
            ("prune",),
            ("forget", "--keep-last", "1", "--group-by", "host", "--allow-remove-all", "-n"),
            ("copy", "--from-repo", self.place, "--repo", str(target)),
            ("restore", "latest", "--host", "web2", "--target", str(restored)),
            ("ls", self.kept.id),
            ("backup", str(target), "--host", "web3"),
            ("repair", "--dry-run"),
        ):
            ended = self.run(*words)
            code, names = expected[words[0]]
            said = ended.stderr.decode()
            assert code is None or ended.returncode == code, (words, said)
            said += ended.stdout.decode()
            assert {name for name in names if name not in said} == set(), words
        assert len(list(LocalStore(str(target)).list("snapshots"))) >= 1
        assert self.run("dump", self.kept.id, "/data/two").stdout == FILES[b"two"]


@pytest.fixture(params=["daemon", "folder"])
def house(request, folder):
    if request.param == "daemon":
        daemon, appliance = (request.getfixturevalue(name) for name in ("daemon", "appliance"))
        open_as = request.getfixturevalue("open_as")
        attacker, victim = open_as(daemon.agent("web1")), open_as(daemon.agent("web2"))
        return House(appliance, attacker, victim, f"unix:{daemon.socket_path}", folder)
    place = str(folder / "repository")
    made = new_repository(LocalStore(place))
    return House(made, made.for_client("web1"), made.for_client("web2"), place, folder)


def test_no_snapshot_stops_a_command(house):
    with house.attacker.lease("web1", 1, "backup"):
        names = {
            hostile: store(house.attacker, "snapshots", make(house.attacker.writer))
            for hostile, make in HOSTILE.items()
        }
    unlisted = {names[one] for one in ("nested", "nested not as deep", *OF_THE_ENVELOPE)}
    house.every_command(
        {
            "snapshots": (SET_ASIDE, unlisted),
            "stats": (SET_ASIDE, unlisted),
            "find": (SET_ASIDE, set(names.values())),
            # Where no client offers a chunk, it reads no snapshot.
            "share": (0, set()),
            "check": (FAILED, set(names.values())),
            "prune": (SET_ASIDE, set(names.values())),
            "forget": (SET_ASIDE, unlisted),
            "copy": (SET_ASIDE, set(names.values())),
            "restore": (None, set()),
            "ls": (0, set()),
            "backup": (0, set()),
            "repair": (0, set()),
        },
    )
    assert house.run("forget", *names.values()).returncode == 0
    left = {info.name for info in house.appliance.store.list("snapshots")}
    assert house.kept.id in left
    assert not left & set(names.values())
    assert house.run("snapshots").returncode == 0
    assert house.run("check").returncode == 0
    assert read_back(house.appliance, house.kept.id) == FILES


def test_vouch_finds_them_false_and_continues(daemon, appliance, open_as):
    attacker, victim = open_as(daemon.agent("web1")), open_as(daemon.agent("web2"))
    with attacker.lease("web1", 1, "backup"):
        names = {store(attacker, "snapshots", make(attacker.writer)) for make in HOSTILE.values()}
    kept = back_up(victim, FILES)
    report = vouch(appliance, required_judge(appliance.store), NullProgress())
    assert {name for kind, name, _ in report.false_objects if kind == "snapshots"} == names
    assert kept.id not in appliance.store.unverified("snapshots")
    assert report.snapshots == 1


def test_a_lease_with_an_impossible_process_stops_no_command(house):
    holder = Holder(
        "web1", 1, "backup", 1, (), f"{boot_id()} {os.stat('/proc/self/ns/pid').st_ino}"
    )
    for process_id in (1 << 31, (1 << 64) - 1, -5):
        text = msgspec.msgpack.encode({**msgspec.structs.asdict(holder), "process_id": process_id})
        store(house.attacker, "leases", lease_object(house.attacker.writer, text))
    for words, code in ((("prune",), 0), (("check",), FAILED), (("repair",), 0), (("prune",), 0)):
        assert house.run(*words).returncode == code


def test_what_a_clients_lease_says_of_processes_is_not_looked_up(daemon, appliance, open_as):
    attacker = open_as(daemon.agent("web1"))
    ours = f"{boot_id()} {os.stat('/proc/self/ns/pid').st_ino}"
    holder = Holder("web1", (1 << 31) - 1, "backup", 1, (), ours)
    name = store(attacker, "leases", lease_object(attacker.writer, msgspec.msgpack.encode(holder)))
    with appliance.for_all_clients().lease("here", os.getpid(), "prune") as lease:
        (listed,) = [one for one in list_leases(appliance.store, appliance.key) if one.name == name]
        recent = listed._replace(holder=Holder("web1", (1 << 31) - 1, "b", lease.store_time_ns, ()))
        assert not has_ended(recent, lease.store_time_ns)
        said = msgspec.structs.replace(recent.holder, processes=ours)
        recent = recent._replace(holder=said)
        assert not has_ended(recent, lease.store_time_ns)
        assert has_ended(recent, lease.store_time_ns, own=recent.owner)


def test_in_a_plain_folder_processes_of_this_machines_own_client_are_looked_up_only(folder):
    made = new_repository(LocalStore(str(folder / "repository"))).for_all_clients()
    ours = f"{boot_id()} {os.stat('/proc/self/ns/pid').st_ino}"
    names = {}
    for client in ("web1", socket.gethostname()):
        key = made.for_client(client).writer
        dead = Holder(client, (1 << 31) - 1, "backup", clock.now_ns(), (), ours)
        names[client] = store(made, "leases", lease_object(key, msgspec.msgpack.encode(dead)))
    with made.lease("here", os.getpid(), "prune") as lease:
        assert [one.name for one in live_leases(made, lease)] == [names["web1"]]
    assert [info.name for info in made.store.list("leases")] == [names["web1"]]


@pytest.mark.parametrize("kind", ["packs", "index", "snapshots"])
def test_what_is_of_an_unknown_version_stops_nothing_and_ends_after_a_month(kind, monkeypatch):
    house = HostileHouse()
    data = bytearray(house.own_object(kind))
    data[4] = 9
    name = house.add(kind, bytes(data))
    quiet = NullProgress()
    findings = check(house.whole, CheckOptions(DataSubset(), processes=1), quiet).findings
    assert [(one.kind, one.name) for one in findings] == [(kind, name)]
    fixed = repair(house.whole, RepairOptions(processes=1, dry_run=True), quiet)
    assert fixed.losses == ()
    report = vouch(house.whole, house.store, quiet)
    assert report.set_aside.names(kind) == [name]
    assert report.false_objects == []
    assert house.store.unverified(kind) == {name}
    # A later version had its time.
    now_ns = clock.now_ns
    monkeypatch.setattr(clock, "now_ns", lambda: now_ns() + 31 * 86400 * 10**9)
    later = vouch(house.whole, house.store, quiet)
    assert len(later.set_aside) == 0
    assert [(one, its) for one, its, _ in later.false_objects] == [(kind, name)]
    assert read_back(house.whole, house.kept.id) == HOSTILE_FILES
