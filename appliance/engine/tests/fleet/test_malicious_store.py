"""A store that lies: old data, objects swapped, shortened or invented. No restore believes it."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.house_of_daemons import HouseOfDaemons


@pytest.fixture(scope="module")
def lying_house(first_house: HouseOfDaemons) -> Iterator[Any]:
    """A house with two snapshots of web1, their runs, and what was in each."""
    folder = Path(tempfile.mkdtemp(prefix="strongroom-", dir=first_house.folder.parent))
    chance = random.Random(4)
    with HouseOfDaemons(folder, like=first_house) as house:
        files: dict[str, bytes] = {}
        runs, truth = [], []
        for number in range(2):
            new = {f"{number}-{n}": chance.randbytes(200_000) for n in range(5)}
            files |= new
            house.write_files("web1", new)
            runs.append(house.run("nightly-web1"))
            truth.append({os.fsencode(name): content for name, content in files.items()})
        yield house, runs, truth
    shutil.rmtree(folder)


def objects(house: HouseOfDaemons, kind: str) -> list[Path]:
    """Stored objects of a kind, the largest first."""
    found = [path for path in (house.repository / kind).rglob("?" * 64) if path.is_file()]
    return sorted(found, key=lambda path: -path.stat().st_size)


def replace(path: Path, data: bytes) -> None:
    path.chmod(0o600)
    path.write_bytes(data)


def swap(first: Path, second: Path) -> None:
    one, other = first.read_bytes(), second.read_bytes()
    replace(first, other)
    replace(second, one)


def swap_packs(house: HouseOfDaemons, packs: list[Path], _: list[Path]) -> None:
    swap(packs[0], packs[1])


def swap_snapshots(house: HouseOfDaemons, _: list[Path], snapshots: list[Path]) -> None:
    swap(snapshots[0], snapshots[1])


def shorten_packs(house: HouseOfDaemons, packs: list[Path], _: list[Path]) -> None:
    for path in packs:
        replace(path, path.read_bytes()[:-1000])


def change_every_pack(house: HouseOfDaemons, packs: list[Path], _: list[Path]) -> None:
    for path in packs:
        data = bytearray(path.read_bytes())
        for place in range(0, len(data), 997):
            data[place] ^= 1
        replace(path, bytes(data))


def swap_parts_of_packs(house: HouseOfDaemons, packs: list[Path], _: list[Path]) -> None:
    """The content of another pack between the right head and the right footer."""
    one, other = packs[0].read_bytes(), packs[1].read_bytes()
    length = min(len(one), len(other)) * 3 // 4
    replace(packs[0], one[:64] + other[64:length] + one[length:])


@pytest.mark.parametrize(
    "lie",
    [swap_packs, swap_snapshots, shorten_packs, change_every_pack, swap_parts_of_packs],
)
def test_no_restore_writes_what_a_store_made_up(lying_house, lie):
    house, runs, truth = lying_house
    kept = house.folder / "kept"
    shutil.copytree(house.repository, kept)
    try:
        lie(house, objects(house, "packs"), objects(house, "snapshots"))
        ended = 0
        for run, files in zip(runs, truth, strict=True):
            target = house.folder / f"{lie.__name__}-{run['id']}"
            restore = house.restore(run["snapshot"], target, "web1")
            ended += restore["state"] == "done"
            if restore["state"] == "failed":
                assert restore["error_id"], restore
            # What is there is true, whatever else was said.
            found = house.restored(target, "web1")
            assert_nothing_false(found, files, whole=restore["state"] == "done")
            if restore["state"] != "done":
                said = house.log(restore["id"]) + restore["error"]
                assert "run check" in said
        assert ended < len(runs)
    finally:
        put_back(house, kept)
    again = house.restore(runs[-1]["snapshot"], house.folder / f"{lie.__name__}-true", "web1")
    assert again["state"] == "done", house.log(again["id"])


def test_a_store_that_shows_old_data_is_found_out_and_backups_go_on(lying_house):
    house, _, _ = lying_house
    chance = random.Random(99)
    kept = house.folder / "kept"
    shutil.copytree(house.repository, kept)
    house.write_files("web1", {f"late-{n}": chance.randbytes(300_000) for n in range(3)})
    late = house.run("nightly-web1")
    # All as it was before: nothing in it is false but that it is all.
    put_back(house, kept)
    restore = house.restore(late["snapshot"], house.folder / "late", "web1")
    assert restore["state"] == "failed"
    assert late["snapshot"][:8] in restore["error"], restore
    assert not (house.folder / "late").exists()
    # The agent remembers the snapshot that is gone, and relies on nothing of it.
    after = house.run("nightly-web1")
    assert after["state"] == "done", house.log(after["id"])
    assert after["summary"]["new_bytes"] >= 900_000
    again = house.restore(after["snapshot"], house.folder / "after", "web1")
    assert again["state"] == "done", house.log(again["id"])
    files = {
        os.fsencode(path.relative_to(house.source("web1"))): path.read_bytes()
        for path in house.source("web1").rglob("*")
        if path.is_file()
    }
    assert_nothing_false(house.restored(house.folder / "after", "web1"), files, whole=True)
    house.maintain("check", "--read-data")


def put_back(house: HouseOfDaemons, kept: Path) -> None:
    """The repository as it was, below the same running daemon's feet after a restart."""
    assert house.storage.stop() == 0
    shutil.rmtree(house.repository)
    kept.rename(house.repository)
    house.start_storage()


def assert_nothing_false(found: Path, files: dict[bytes, bytes], *, whole: bool) -> None:
    present = {
        os.fsencode(path.relative_to(found)): path.read_bytes()
        for path in (found.rglob("*") if found.exists() else ())
        if path.is_file()
    }
    for name, content in present.items():
        assert files.get(name) == content, name
    if whole:
        assert present.keys() == files.keys()
