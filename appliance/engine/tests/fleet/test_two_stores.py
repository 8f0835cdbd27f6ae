"""A house with a second storage daemon to which its pool is copied: lost, killed, full, stolen."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.daemon_process import DaemonProcess, wait_for
from kit.house_configurations import STORAGE_TEXT
from kit.house_of_daemons import HouseOfDaemons
from kit.json_output import objects_of
from kit.ports import free_port
from kit.tree_compare import compare_trees
from strongroom.base.errors import StrongroomError
from strongroom.net.identities.identity import Identity
from strongroom.net.storage.place import open_network, parse_place

SECOND = "offsite"
COPY_JOB = "copy-short"
FINAL = ("done", "incomplete", "failed", "cancelled")
PERIODS = (
    "director.director.FIRST_COPY_SECONDS=1",
    "director.director.COPY_LOOK_SECONDS=2",
    "director.runs.aftermath._FIRST_PAUSE_SECONDS=2",
)
STORAGE = """
Storage {{ Name = offsite; Address = 127.0.0.1; Port = {port}; Password = x; Device = disk
  Media Type = File; Repository = "unix:{folder}/second/storage.sock"
  Passphrase File = "{folder}/passphrase" }}
"""


class TwoStores(HouseOfDaemons):
    """Its agent is new, so it gets the put keys of both repositories when it is enrolled."""

    def __init__(self, folder: Path, like: HouseOfDaemons) -> None:
        self.second_port = free_port()
        super().__init__(
            folder,
            ("web9",),
            like=like,
            pool=f"Keep Within = 30 days; Copy To = {SECOND}",
            director_further=f'Appliance Key File = "{folder}/second.key"',
            schedules=STORAGE.format(port=self.second_port, folder=folder),
            periods=PERIODS,
        )
        self.second_folder = folder / "second"
        self.second = DaemonProcess(
            "storage", folder / "second.conf", folder / "second.log", self.environment
        )

    @property
    def daemons(self) -> list[DaemonProcess]:
        return [*super().daemons, self.second]

    def start_storage(self) -> None:
        super().start_storage()
        if not self.second_folder.exists():
            self._make_second()

    def start_second(self) -> None:
        self.second.start()
        self._await_port(self.second, self.second_port)

    def copy_runs(self) -> list[dict[str, Any]]:
        return list(self.get("/runs", job=COPY_JOB)["items"])

    def copied(self) -> dict[str, Any]:
        """The last copy run, once the second store has everything."""

        def is_copied() -> bool:
            status = self.get("/status")
            (copies,) = status["copies"] or [{"waiting": 1}]
            runs = self.copy_runs()
            ended = bool(runs) and all(one["state"] in FINAL for one in runs)
            return ended and copies["waiting"] == 0

        wait_for(is_copied, lambda: self.director.log + self.second.log, 300)
        return self.copy_runs()[0]

    def on_second(self, *words: str) -> str:
        place = ("--repo", f"unix:{self.second_folder}/storage.sock")
        return self.command(*words, *place, "--password-file", str(self.folder / "passphrase"))

    def _make_second(self) -> None:
        (self.second_folder / "repository").mkdir(parents=True, exist_ok=True)
        self._issue(SECOND, "storage", "second/vault")
        text = STORAGE_TEXT.format(
            storage=SECOND,
            folder=self.second_folder,
            port=self.second_port,
            director_port=self.director_port,
            device=self.second_folder / "repository",
            further="",
        )
        named = 'Restore Clients = "*all*"'
        self.second.configuration.write_text(text.replace('Clients = "*all*"', named))
        self.start_second()
        self.on_second("init")
        self.on_second("key", "export-appliance", str(self.folder / "second.key"))


@pytest.fixture
def house(first_house: HouseOfDaemons, folder: Path) -> Iterator[TwoStores]:
    made = TwoStores(folder, first_house)
    with made:
        yield made


def fill(house: TwoStores, count: int) -> None:
    chance = random.Random(5)
    house.write_files("web9", {f"{n}": chance.randbytes(1_000_000) for n in range(count)})


def test_a_first_store_that_is_lost_is_restored_from_the_second(house):
    fill(house, 3)
    made = house.run("nightly-web9")
    assert made["state"] == "done"
    assert house.copied()["state"] == "done"
    house.on_second("check", "--read-data")
    # Anyone who steals the agent's key neither reads nor removes, nor adds, at the second store.
    identity = Identity.load(str(house.folder / "web9" / "identity"))
    place = parse_place(f"strongroom://127.0.0.1:{house.second_port}")
    for ask in (
        lambda store: list(store.list("snapshots")),
        lambda store: store.delete("snapshots", made["snapshot"]),
        lambda store: store.put("packs", "ab" * 32, b"x"),
    ):
        store = open_network(place, lambda: identity, server_name=SECOND)
        with pytest.raises(StrongroomError):
            ask(store)
        store.close()
    house.storage.kill()
    shutil.rmtree(house.repository)
    restored = house.restore(made["snapshot"], house.folder / "restored", "web9")
    assert restored["state"] == "done", house.log(restored["id"])
    assert restored["storage"] == SECOND
    found = house.restored(house.folder / "restored", "web9")
    assert compare_trees(bytes(house.source("web9")), bytes(found)) == []


def test_a_copy_whose_director_is_killed_is_completed_by_the_next(house):
    fill(house, 40)
    assert house.run("nightly-web9")["state"] == "done"

    def has_begun() -> bool:
        packs = [*(house.second_folder / "repository" / "packs").rglob("*")]
        return any(one.is_file() for one in packs)

    wait_for(has_begun, lambda: house.director.log, 120)
    house.director.kill()
    house.second.kill()
    house.start_second()
    house.start_director()
    last = house.copied()
    assert last["state"] == "done", house.log(last["id"])
    house.on_second("check", "--read-data")
    (snapshot,) = objects_of(house.on_second("snapshots", "--json"))
    assert snapshot["files"] == 40


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts file systems")
def test_a_second_store_that_is_full_gets_the_rest_once_there_is_space(house, folder):
    house.second.stop()
    place = house.second_folder / "repository"
    small = folder / "small"
    os.rename(place, small)
    place.mkdir()

    def mount(*words: str) -> bool:
        command = ["mount", *words, str(place)]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0

    if not mount("-t", "tmpfs", "-o", "size=12m", "tmpfs"):
        pytest.skip("mounting is not allowed here")
    try:
        shutil.copytree(small, place, dirs_exist_ok=True)
        house.start_second()
        fill(house, 24)
        made = house.run("nightly-web9")
        assert made["state"] == "done"

        def has_failed() -> bool:
            return any(one["state"] == "failed" for one in house.copy_runs())

        wait_for(has_failed, lambda: house.director.log, 120)
        failed = next(one for one in house.copy_runs() if one["state"] == "failed")
        assert "No space left on device" in failed["error"]
        # The first store and its backups do not mind.
        assert house.run("nightly-web9")["state"] == "done"
        assert mount("-o", "remount,size=100m")
        last = house.copied()
        assert last["state"] == "done", house.log(last["id"])
        house.on_second("check", "--read-data")
        house.second.stop()
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
