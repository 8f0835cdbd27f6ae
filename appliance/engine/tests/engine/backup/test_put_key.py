"""Backups with a put key, which compare with the listing kept in a sealed local cache."""

from __future__ import annotations

import os
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kit.user import User
from strongroom.engine.backup.parent_cache import ParentCache
from strongroom.engine.repository.listing.page_builder import MIN_PAGE_ROWS

FILES = 40


@pytest.fixture
def agent(user: User) -> User:
    """Somebody who has only the put key of the user's repository."""
    key = user.folder / "put.key"
    assert user.run("key", "export-put", key).code == 0
    return User(user.folder, credentials=("--key-file", str(key)))


@pytest.fixture
def tree(source: Path) -> Path:
    for number in range(FILES):
        path = source / f"{number % 5}" / f"secret-name-{number}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(os.urandom(3000))
    time.sleep(0.1)
    return source


def cached(agent: User) -> list[Path]:
    return sorted((agent.folder / "home/.cache/strongroom/parents").iterdir())


def files_read(agent: User, *words: str | Path) -> int:
    return int(agent.backup(*words).summary["files_read"])


def test_an_unchanged_tree_is_not_read_again(agent: User, user: User, tree: Path) -> None:
    first = agent.backup(tree).summary
    assert (first["files_read"], len(cached(agent))) == (FILES, 1)
    second = agent.backup(tree).summary
    assert (second["files_read"], second["parent"]) == (0, first["snapshot"])
    (tree / "1/secret-name-1").write_bytes(b"changed")
    assert files_read(agent, tree) == 1
    user.assert_restores(tree)
    assert [snapshot["level"] for snapshot in user.snapshots()] == ["full", *["incremental"] * 2]


def test_a_large_listing_is_kept(agent: User, user: User, source: Path) -> None:
    """Shards encode large pages, so the coordinator keeps what it has not encoded itself."""
    for number in range(MIN_PAGE_ROWS + 500):
        (source / f"{number:06}").touch()
    (source / "content").write_bytes(b"some")
    time.sleep(0.1)
    first = agent.backup(source).summary
    second = agent.backup(source).summary
    assert (second["files_read"], second["parent"]) == (0, first["snapshot"])
    user.assert_restores(source)
    assert user.run("check").code == 0


def test_the_cache_tells_nothing_and_is_for_its_owner_only(agent: User, tree: Path) -> None:
    agent.backup(tree)
    folder = agent.folder / "home/.cache/strongroom"
    files = [path for path in folder.rglob("*") if path.is_file()]
    # The key of the folder, the listing, and which snapshot is the newest.
    assert len(files) == 3
    for path in files:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert b"secret-name" not in path.read_bytes()
    assert stat.S_IMODE((folder / "parents").stat().st_mode) == 0o700


def test_a_lost_cache_costs_a_full_read_with_the_same_result(
    agent: User, user: User, tree: Path
) -> None:
    agent.backup(tree)
    for path in cached(agent):
        path.unlink()
    outcome = agent.backup(tree)
    assert (outcome.summary["files_read"], outcome.summary["new_bytes"]) == (FILES, 0)
    assert outcome.warnings == []
    assert files_read(agent, tree) == 0
    user.assert_restores(tree)


@pytest.mark.parametrize("place", [5, 60, -300, -30, -2])
def test_a_damaged_cache_costs_a_full_read_with_the_same_result(
    agent: User, user: User, tree: Path, place: int
) -> None:
    agent.backup(tree)
    (path,) = cached(agent)
    data = bytearray(path.read_bytes())
    data[place] ^= 0x55
    path.write_bytes(data)
    outcome = agent.backup(tree)
    assert outcome.summary["files_read"] == FILES
    assert len(outcome.warnings) == 1, outcome.warnings
    assert files_read(agent, tree) == 0
    user.assert_restores(tree)


def test_a_cut_off_cache_or_a_lost_key_costs_a_full_read(agent: User, tree: Path) -> None:
    agent.backup(tree)
    (path,) = cached(agent)
    path.write_bytes(path.read_bytes()[:100])
    assert files_read(agent, tree) == FILES
    (agent.folder / "home/.cache/strongroom/key").write_bytes(b"short")
    assert files_read(agent, tree) == FILES
    assert files_read(agent, tree) == 0


def test_a_stale_cache_is_not_used(agent: User, user: User, tree: Path) -> None:
    agent.backup(tree)
    user.backup(tree)  # another machine's user, say: the newest snapshot is not in the cache
    assert files_read(agent, tree) == FILES
    assert files_read(agent, tree) == 0
    for path in user.packs:
        path.unlink()
    summary = agent.backup(tree).summary
    assert (summary["files_read"], summary["new_bytes"]) == (FILES, FILES * 3000)
    user.assert_restores(tree)


def test_each_job_has_its_own_listing_and_differentials_theirs(agent: User, tree: Path) -> None:
    assert files_read(agent, tree, "--job", "a") == FILES
    assert files_read(agent, tree, "--job", "b") == FILES
    assert files_read(agent, tree, "--job", "a") == 0
    (tree / "1/secret-name-1").write_bytes(b"changed")
    time.sleep(0.1)
    assert files_read(agent, tree, "--job", "a") == 1
    assert files_read(agent, tree, "--job", "a", "--level", "differential") == 1
    assert len(cached(agent)) == 3
    assert files_read(agent, tree, "--job", "a", "--level", "full") == FILES
    assert len(cached(agent)) == 2


@pytest.fixture
def small_cache(agent: User, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A cache folder with so much room, in options of tmpfs."""
    folder = agent.folder / "home/.cache/strongroom"
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", request.param, "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting needs root")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.fixture
def folders(source: Path) -> list[Path]:
    """A hundred folders of 5,000 files, whose listing takes 220 KiB."""
    folders = [source / f"{number}" for number in range(100)]
    for folder in folders:
        folder.mkdir()
        for _ in range(50):
            (folder / os.urandom(40).hex()).touch()
    return folders


@pytest.mark.parametrize(
    ("small_cache", "room"),
    [("size=340k", 1), ("size=560k", 2), ("nr_inodes=6", 1)],
    indirect=["small_cache"],
)
def test_a_cache_without_room_for_one_more_listing_is_of_use_again(
    agent: User, user: User, source: Path, folders: list[Path], small_cache: Path, room: int
) -> None:
    for _ in range(room):
        _touch_new(folders)
        assert agent.backup(source).warnings == []
    _touch_new(folders)
    assert _files_read_without_room(agent, source) == len(folders)
    assert len(cached(agent)) == 1
    if room == 1:
        # A disk that was full for a moment would have room now.
        assert _files_read_without_room(agent, source) > 5000
        assert cached(agent) == [], "it was in the way"
    again = agent.backup(source)
    assert again.summary["files_read"] > 5000
    assert not [warning for warning in again.warnings if "kept" in warning]
    assert files_read(agent, source) == 0
    user.assert_restores(source)


@pytest.mark.parametrize("small_cache", ["size=340k"], indirect=True)
def test_the_listing_of_the_full_snapshot_stays_for_differentials(
    agent: User, source: Path, folders: list[Path], small_cache: Path
) -> None:
    time.sleep(0.1)
    assert agent.backup(source).warnings == []
    for number in range(1, 4):
        _touch_new(folders[:1])
        assert _files_read_without_room(agent, source, "--level", "differential") == number


@pytest.mark.parametrize("small_cache", ["size=340k"], indirect=True)
def test_listings_of_an_earlier_full_snapshot_do_not_stand_in_the_way(
    agent: User, source: Path, folders: list[Path], small_cache: Path
) -> None:
    assert agent.backup(source).warnings == []
    _touch_new(folders)
    assert _files_read_without_room(agent, source, "--level", "full") > 5000
    assert cached(agent) == []


def _files_read_without_room(agent: User, *words: str | Path) -> int:
    outcome = agent.backup(*words)
    assert all("No space left" in warning for warning in outcome.warnings)
    assert sum("kept" in warning for warning in outcome.warnings) == 1, outcome.warnings
    return int(outcome.summary["files_read"])


def _touch_new(folders: list[Path]) -> None:
    for folder in folders:
        (folder / os.urandom(2).hex()).touch()
    time.sleep(0.1)


def test_without_a_cache_everything_is_read(agent: User, tree: Path) -> None:
    agent.backup(tree, "--no-cache")
    assert files_read(agent, tree, "--no-cache") == FILES
    assert not (agent.folder / "home/.cache").exists()
    elsewhere = agent.folder / "elsewhere"
    assert files_read(agent, tree, "--cache-dir", elsewhere) == FILES
    assert files_read(agent, tree, "--cache-dir", elsewhere) == 0
    (agent.folder / "file").touch()
    outcome = agent.backup(tree, "--cache-dir", agent.folder / "file")
    assert outcome.summary["files_read"] == FILES
    assert any("no cache" in text for text in outcome.warnings)
    (warning,) = (text for text in outcome.warnings if "not remembered" in text)
    assert "Errno" not in warning


def test_a_dry_run_and_a_failed_backup_leave_the_cache_alone(agent: User, tree: Path) -> None:
    agent.backup(tree)
    before = [(path.name, path.read_bytes()) for path in cached(agent)]
    (tree / "new").write_bytes(b"new")
    agent.backup(tree, "--dry-run")
    agent.environment["STRONGROOM_STORE_FAULTS"] = "put_durable:snapshots:1:EIO"
    agent.backup(tree, code=30)
    assert [(path.name, path.read_bytes()) for path in cached(agent)] == before


def test_a_passphrase_needs_no_cache(user: User, tree: Path) -> None:
    user.backup(tree)
    assert files_read(user, tree) == 0
    assert not (user.folder / "home/.cache/strongroom/parents").exists()


def test_pages_that_are_unchanged_are_kept_as_they_are_sealed(
    agent: User, user: User, source: Path
) -> None:
    """They are copied: sealed anew they would differ, for the seal is randomized."""
    for number in range(30 * 500):
        path = source / f"{number // 500}" / f"{number:06}"
        path.parent.mkdir(exist_ok=True)
        path.touch()
    time.sleep(0.1)
    agent.backup(source)
    (first,) = cached(agent)
    before = first.read_bytes()
    agent.backup(source)
    full, part = cached(agent)
    assert full == first
    after = part.read_bytes()
    # Pages are most of it; the first one has rows of folders above, which change.
    pieces = [before[at : at + 64] for at in range(64, len(before) - 64, 64)]
    assert sum(piece in after for piece in pieces) > len(pieces) / 3
    (source / "7/zzz").touch()
    time.sleep(0.1)
    assert files_read(agent, source) == 1
    assert files_read(agent, source) == 0
    user.assert_restores(source)
    assert user.run("check").code == 0


def test_a_kept_page_that_was_damaged_meanwhile_is_not_copied(agent: User, tree: Path) -> None:
    snapshot = agent.backup(tree).summary["snapshot"]
    (path,) = cached(agent)
    key = (agent.folder / "home/.cache/strongroom/key").read_bytes()
    cache = ParentCache(os.fsencode(path.parent), key, "0")
    listing = cache.find(snapshot)
    assert listing is not None
    block = listing.pages[0].block_id
    damaged = bytearray(path.read_bytes())
    damaged[60] ^= 1
    with closing(listing):
        for content, is_copied in ((path.read_bytes(), True), (bytes(damaged), False)):
            path.write_bytes(content)
            keeper = cache.keeper(pytest.fail, listing)
            assert keeper.add_again(block) == is_copied
            keeper.abort()
