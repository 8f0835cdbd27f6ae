"""Another client's backup while one agent takes all it can of the storage daemon."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Self

from strongroom.cli.measure.testbed.vault import Vault
from strongroom_bench.rows.runner import remove

ATTACKER = "mallory"
FILES = 2000
FILE_BYTES = 100_000
# The attacker simulates another machine: it must not compete for the processor otherwise.
ATTACKER_NICE = 10
SAMPLE_SECONDS = 0.5
_COMMAND_SECONDS = 900.0


def measure_attack(
    folder: Path, rounds: int, scale: float, say: Callable[[str], None]
) -> dict[str, Any]:
    """Seconds of a backup without and with an attack, and what the daemon takes meanwhile."""
    data = folder.parent / f"{folder.name}.data"
    remove(data)
    make_data(data, max(10, int(FILES * scale)))
    figures: dict[str, Any] = {"files": len(list(data.iterdir())), "file_bytes": FILE_BYTES}
    try:
        for name in ("calm", "attacked"):
            seconds, usages = [], []
            for number in range(rounds):
                with Vault(folder / f"{name}{number}") as vault:
                    vault.authority.issue_identity(str(vault.folder / ATTACKER), ATTACKER, "agent")
                    with _attacked(vault, is_on=name == "attacked"), _Watch(vault) as watch:
                        seconds.append(_backup_seconds(vault, data))
                    usages.append(watch.most)
                remove(folder / f"{name}{number}")
            figures[f"{name}_seconds"] = median(seconds)
            figures |= {f"{name}_{one}": max(u[one] for u in usages) for one in usages[0]}
            say(f"attack: {name}: {median(seconds):.1f} s, {usages[-1]}")
    finally:
        remove(data)
    return figures


def make_data(folder: Path, count: int) -> None:
    """Files of noise, of which no two have the same chunks."""
    folder.mkdir(parents=True)
    chance = random.Random(9)
    for number in range(count):
        (folder / f"file{number:05}").write_bytes(chance.randbytes(FILE_BYTES))


def _backup_seconds(vault: Vault, data: Path) -> float:
    begin = time.monotonic()
    subprocess.run(
        vault.backup("tls", "--level", "full", str(data)),
        env=vault.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        timeout=_COMMAND_SECONDS,
        check=True,
    )
    return time.monotonic() - begin


@contextmanager
def _attacked(vault: Vault, *, is_on: bool) -> Iterator[None]:
    if not is_on:
        yield
        return
    words = [sys.executable, "-m", "strongroom_bench.network.attacker", str(vault.port)]
    process = subprocess.Popen(
        ["nice", "-n", str(ATTACKER_NICE), *words, str(vault.folder / ATTACKER)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        if process.stdout.readline() != "attacking\n":
            raise SystemExit("the attacker could not begin")
        yield
    finally:
        process.kill()
        process.communicate()


class _Watch:
    """Samples the daemon; `most`: the most of each, and its log's bytes a second."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.most = {"threads": 0, "rss_bytes": 0, "descriptors": 0, "log_bytes_per_second": 0}

    def __enter__(self) -> Self:
        self._begin, self._log_before = time.monotonic(), self._log_bytes()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        seconds = time.monotonic() - self._begin
        self._note("log_bytes_per_second", int((self._log_bytes() - self._log_before) / seconds))

    def _run(self) -> None:
        # However short the backup is, there is one sample.
        self._sample()
        while not self._ended.wait(SAMPLE_SECONDS):
            self._sample()

    def _sample(self) -> None:
        usage = self._vault.daemon.usage()
        self._note("threads", usage.threads)
        self._note("rss_bytes", usage.rss_bytes)
        self._note("descriptors", len(os.listdir(f"/proc/{self._vault.daemon.pid}/fd")))

    def _note(self, name: str, value: int) -> None:
        self.most[name] = max(self.most[name], value)

    def _log_bytes(self) -> int:
        return (self._vault.folder / "storage.log").stat().st_size
