"""On a full disk a check reads, and a prune makes room."""

from __future__ import annotations

import errno
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kit.command import PASSPHRASE, Command
from kit.storage_daemon import Daemon


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Command]:
    """A repository that `init` made on a small file system of its own."""
    site = Command(tmp_path)
    site.repository.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(site.repository)]
    if os.geteuid() != 0 or subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("this sandbox does not let us mount")
    try:
        yield site
    finally:
        subprocess.run(["umount", "--lazy", site.repository], check=True)


def run(site: Command, *words: str, exit_code: int = 0) -> str:
    return site.run(*words, exit_code=exit_code, STRONGROOM_PASSWORD=PASSPHRASE).stdout


def fill(folder: Path) -> None:
    def write_all() -> None:
        with (folder / "full").open("wb", buffering=0) as file:
            while file.write(bytes(1 << 12)):
                pass

    with pytest.raises(OSError) as raised:
        write_all()
    assert raised.value.errno == errno.ENOSPC


@pytest.mark.parametrize("lost", [False, True])
def test_check_reads_and_prune_makes_room(site: Command, tree: Path, lost: bool) -> None:
    run(site, "init")
    reserve = site.repository / "reserve"
    assert reserve.stat().st_blocks * 512 == 4 << 20
    for _ in range(2):
        (tree / "file").write_bytes(os.urandom(6 << 20))
        run(site, "backup", str(tree), "--level", "full")
    if lost:
        # An older repository has none; there a prune makes it while there is room.
        reserve.unlink()
        run(site, "prune")
        assert reserve.exists()
    run(site, "forget", "--keep-last", "1")
    fill(site.repository)
    run(site, "check", "--read-data")
    run(site, "backup", str(tree), exit_code=30)
    assert reserve.exists()
    used = sum(path.stat().st_size for path in (site.repository / "packs").rglob("*"))
    run(site, "prune")
    assert sum(path.stat().st_size for path in (site.repository / "packs").rglob("*")) < used - (
        6 << 20
    )
    (site.repository / "full").unlink()
    run(site, "check", "--read-data")
    run(site, "prune")
    assert reserve.exists()


def test_a_storage_daemon_has_room_for_maintenance(site: Command, tree: Path) -> None:
    site.make_repository()
    daemon = Daemon(site.folder)
    place = ("--repo", f"unix:{daemon.socket_path}")
    try:
        for _ in range(2):
            (tree / "file").write_bytes(os.urandom(6 << 20))
            site("backup", str(tree), "--level", "full", *place)
        # The connection of the last command has ended, so there is a reserve.
        wait_until((site.repository / "reserve").exists)
        site("forget", "--keep-last", "1", *place)
        fill(site.repository)
        site("prune", *place)
        packs = [path for path in (site.repository / "packs").rglob("*") if path.is_file()]
        assert sum(path.stat().st_size for path in packs) < 8 << 20
        (site.repository / "full").unlink()
        site("check", "--read-data", *place)
    finally:
        daemon.stop()


def wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)
