"""Mounts on the real kernel, where it lets us."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kit.command import Command

if TYPE_CHECKING:
    Mount = Callable[..., AbstractContextManager[Path]]


def is_mounted(path: Path) -> bool:
    with open("/proc/self/mountinfo", "rb") as lines:
        wanted = os.fsencode(path)
        return any(line.split()[4] == wanted for line in lines)


def wait_for(what: Callable[[], bool], seconds: float = 30) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if what():
            return True
        time.sleep(0.02)
    return False


@contextmanager
def mounted(command: Command, place: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Mount in the foreground for the length of the block; SIGTERM must end it well."""
    place.mkdir(exist_ok=True)
    process = subprocess.Popen(
        command.words("mount", str(place), "--foreground", *words, key_file=command.restore_key),
        env=command.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        if not wait_for(lambda: is_mounted(place) or process.poll() is not None):
            process.kill()
        if process.poll() is not None:
            pytest.fail(process.communicate()[1])
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        output = process.communicate(timeout=60)
        assert process.returncode == 0, output
        assert not is_mounted(place)


@pytest.fixture(scope="session", autouse=True)
def _fuse_works(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skip everything here where this kernel, or this container, lets no one mount."""
    command = Command(tmp_path_factory.mktemp("probe"))
    command.make_repository()
    place = command.folder / "place"
    place.mkdir()
    answer = subprocess.run(
        command.words("mount", str(place), key_file=command.restore_key),
        env=command.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if answer.returncode == 0:
        subprocess.run(["umount", str(place)], check=True)
        return
    if os.path.exists("/dev/fuse") and os.access("/dev/fuse", os.R_OK | os.W_OK):
        assert "Operation not permitted" in answer.stderr, answer.stderr
    pytest.skip(f"no one can mount here: {answer.stderr.strip()}")
