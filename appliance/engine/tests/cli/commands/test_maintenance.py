"""The commands forget, prune, check and repair, as a user runs them."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kit.command import Command
from strongroom.base.errors import CheckFailedError, SetAsideError, UsageError

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def strongroom(folder: Path) -> Run:
    """Run `strongroom WORDS...` on a repository with one snapshot of a tree of 50 files."""
    command = Command(folder)
    command.make_repository()

    def run(*words: str, expected: int = 0) -> "subprocess.CompletedProcess[str]":
        return command.run(*words, exit_code=expected, key_file=command.restore_key)

    for number in range(50):
        path = folder / "tree" / str(number % 5) / f"file{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(3000))
    run("backup", str(folder / "tree"))
    return run


def lines(done: "subprocess.CompletedProcess[str]") -> list[dict]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_forget_and_prune_give_space_back_and_say_so(strongroom, folder):
    strongroom("backup", str(folder / "tree" / "1"))
    foreseen = lines(strongroom("forget", "--keep-last", "1", "--group-by", "", "-n", "--json"))
    assert [one["forgotten"] for one in foreseen[:-1]] == [False, True]
    assert foreseen[0]["reasons"] == ["last 1 of 1"]
    assert foreseen[-1] == {"type": "forget_summary", "dry_run": True, "forgotten": 1, "kept": 1}
    done = lines(strongroom("forget", "--keep-last", "1", "--group-by", "", "--prune", "--json"))
    report = done[-1]
    assert report["type"] == "prune"
    assert report["freed_bytes"] > 40 * 3000
    assert lines(strongroom("prune", "--json"))[0]["removed_packs"] == 0
    assert "no damage found" in strongroom("check", "--read-data").stdout


def test_check_finds_damage_and_repair_names_the_files(strongroom, folder):
    packs = [path for path in (folder / "repository" / "packs").rglob("*") if path.is_file()]
    largest = max(packs, key=lambda path: path.stat().st_size)
    data = bytearray(largest.read_bytes())
    data[len(data) // 2] ^= 1
    largest.write_bytes(data)
    done = strongroom("check", "--read-data", "--json", expected=CheckFailedError.exit_code)
    finding, summary = lines(done)
    assert finding["kind"] == "packs"
    assert finding["name"] == largest.name
    assert all(path.startswith(str(folder)) for path in finding["paths"])
    assert not summary["clean"]
    repaired = lines(strongroom("repair", "--json"))
    (loss,) = [one for one in repaired if one["type"] == "repair_loss"]
    assert sorted(loss["paths"]) == sorted(finding["paths"])
    assert len(loss["paths"]) == finding["path_count"] == repaired[-1]["lost_files"]
    assert "no damage found" in strongroom("check", "--read-data").stdout
    again = lines(strongroom("backup", "--json", str(folder / "tree")))[-1]
    assert again["files_read"] == finding["path_count"]
    assert "nothing to repair" in strongroom("repair").stdout


@pytest.mark.parametrize("kind", ["keys", "snapshots", "index", "leases", "tombstones", "tickets"])
def test_what_a_file_server_leaves_in_a_folder_hinders_nothing(strongroom, folder, kind):
    left = next(folder.glob(f"**/{kind}")) / ".nfs0001"
    left.write_bytes(b"removed while open")
    for words in (("check",), ("backup", str(folder / "tree")), ("snapshots",), ("prune",)):
        strongroom(*words)
    assert "nothing to repair" in strongroom("repair", "--dry-run").stdout
    assert left.exists()


def test_check_names_a_pack_that_is_gone(strongroom, folder):
    packs = [path for path in (folder / "repository" / "packs").rglob("*") if path.is_file()]
    packs[0].unlink()
    done = strongroom("check", "--json", expected=CheckFailedError.exit_code)
    finding = lines(done)[0]
    assert (finding["name"], finding["problem"]) == (packs[0].name, "it is missing")


@pytest.mark.parametrize(
    "words",
    [
        ("forget",),
        ("forget", "--keep-last", "x"),
        ("forget", "--keep-last", "1", "0123"),
        ("forget", "--keep-last", "1", "--group-by", "colour"),
        ("forget", "--keep-within", "soon"),
        ("prune", "--max-unused", "200%"),
        ("prune", "--grace", "1m"),
        ("prune", "--memory", "1M"),
        ("check", "--memory", "1M"),
        ("check", "--read-data=0%"),
        ("check", "--read-data=4/3"),
        ("repair", "everything"),
    ],
    ids=" ".join,
)
def test_what_makes_no_sense_is_refused(site, words):
    command = site.command
    command.run(*words, exit_code=UsageError.exit_code, key_file=command.restore_key)


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.chmod(0o600)
    path.write_bytes(data)


def test_a_snapshot_damaged_since_it_was_noted_does_not_make_forget_remove_a_good_one(
    strongroom, folder
):
    (good,) = (folder / "repository" / "snapshots").iterdir()
    strongroom("backup", str(folder / "tree"))
    strongroom("snapshots")
    (bad,) = set((folder / "repository" / "snapshots").iterdir()) - {good}
    damage(bad)
    strongroom("forget", "--keep-last", "1", expected=SetAsideError.exit_code)
    assert good.exists()


def test_a_backup_that_may_be_skipped_is_made_where_the_one_before_is_damaged(strongroom, folder):
    command = Command(folder)
    words = ("backup", "--skip-if-unchanged", str(folder / "tree"))
    for _ in range(2):
        command.run(*words, key_file=command.put_key)
    command.run("snapshots", key_file=command.put_key)
    there = list((folder / "repository" / "snapshots").iterdir())
    for one in there:
        damage(one)
    command.run(*words, key_file=command.put_key)
    assert len(list((folder / "repository" / "snapshots").iterdir())) == len(there) + 1


@pytest.mark.parametrize("has_listings", [True, False])
def test_a_backup_goes_well_where_the_one_before_was_damaged_since_it_was_noted(
    strongroom, folder, has_listings
):
    snapshots = folder / "repository" / "snapshots"
    (bad,) = snapshots.iterdir()
    strongroom("snapshots")
    damage(bad)
    if not has_listings:
        for one in (folder / "home").rglob("parents/*"):
            one.unlink()
    strongroom("backup", str(folder / "tree"))
    assert len(list(snapshots.iterdir())) == 2
