"""The disk of the storage daemon fills up: the run says so, and continues once there is space."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.house_of_daemons import HouseOfDaemons, wait_for
from kit.tree_compare import compare_trees

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts file systems")

SMALL = "size=12m"
LARGE = "size=100m"


def mount(*words: str) -> bool:
    return subprocess.run(["mount", *words], check=False, capture_output=True).returncode == 0


@pytest.fixture
def small_repository(folder: Path) -> Iterator[Path]:
    """A house's repository on its own file system."""
    place = folder / "repository"
    place.mkdir()
    if not mount("-t", "tmpfs", "-o", SMALL, "tmpfs", str(place)):
        pytest.skip("mounting is not allowed here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(house: HouseOfDaemons, count: int) -> None:
    chance = random.Random(3)
    house.write_files("web1", {f"{n}": chance.randbytes(1_000_000) for n in range(count)})


def test_a_run_says_that_the_disk_is_full_and_the_next_continues(small_repository, new_house):
    house = new_house()
    fill(house, 4)
    kept = house.run("nightly-web1")
    assert kept["state"] == "done"
    fill(house, 20)
    failed = house.run("nightly-web1")
    assert failed["state"] == "failed", house.log(failed["id"])
    assert "No space left on device" in failed["error"]
    assert "No space left on device" in house.log(failed["id"])
    assert list(small_repository.rglob("tmp.*")) == []
    # What was there can be read, though nothing more can be written.
    restored = house.restore(kept["snapshot"], house.folder / "restored", "web1")
    assert restored["state"] == "done", house.log(restored["id"])
    stored = house.pack_bytes()
    assert mount("-o", f"remount,{LARGE}", str(small_repository))
    done = house.run("nightly-web1")
    assert done["state"] == "done", house.log(done["id"])
    # Random bytes: what was stored before the disk was full is not sent again.
    assert done["summary"]["new_bytes"] <= 20_000_000 - stored + 1_000_000
    house.maintain("check", "--read-data")
    again = house.restore(done["snapshot"], house.folder / "again", "web1")
    assert again["state"] == "done", house.log(again["id"])
    found = house.restored(house.folder / "again", "web1")
    assert compare_trees(bytes(house.source("web1")), bytes(found)) == []


@pytest.fixture
def small_work(folder: Path) -> Iterator[Path]:
    """The folder of a house's director on its own file system."""
    place = folder / "work"
    place.mkdir()
    if not mount("-t", "tmpfs", "-o", SMALL, "tmpfs", str(place)):
        pytest.skip("mounting is not allowed here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_director_whose_disk_is_full_loses_no_end_of_a_run(small_work, new_house):
    house = new_house(client_further="Maximum Bandwidth Per Job = 1 MB/s")
    fill(house, 3)
    run_id = house.begin_run("nightly-web1")
    house.await_stored(run_id)
    filler = small_work / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 16, 4096, 512):
            while True:
                try:
                    if file.write(bytes(size)) < size:
                        break
                except OSError:
                    break
    # It ends while the catalog can take nothing.
    wait_for(lambda: len(house.agents["web1"].processes()) == 1)
    house.director.await_said("full")
    filler.unlink()
    run = house.ended(run_id)
    assert run["state"] == "done", house.log(run_id)
    assert house.run("nightly-web1")["state"] == "done"
    # What an operator sees of it are lines, not the insides of the program.
    assert "Traceback" not in house.director.log
