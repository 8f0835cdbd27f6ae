"""`bareos-tls`: no TLS, TLS with each cipher, TLS in the kernel; with and without compression.

The text: the measurements of Bareos' pull request 1597. Each backup goes to its own storage
daemon on the loopback interface.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from strongroom.cli.measure.testbed.command import measure
from strongroom.cli.measure.testbed.vault import Vault
from strongroom_bench.datasets import file_sizes
from strongroom_bench.suites.data import BAREOS_MACHINE, MAKERS
from strongroom_bench.suites.repositories import BACKUP, taken_of
from strongroom_bench.suites.result import Row, Taken, Way, in_turns

TLS: Final = "tls, none"
CODECS: Final = ("none", "auto")
# Exists where the kernel has its module for TLS.
_KERNEL_TLS: Final = "/proc/net/tls_stat"
SEED: Final = (
    f"Bareos, pull request 1597 (Maximum Workers Per Job), and {BAREOS_MACHINE}. Backups without "
    "TLS were 8 to 67% "
    "faster, by data; ciphers and kTLS are named there and not measured. There one stream carries "
    "blocks of at most 256 KiB; here each shard has a "
    "connection, and blocks of 1 MiB that the engine has encrypted before. Over loopback client "
    "and daemon share the cores, so both ends of a cipher are counted. TLS in the kernel needs its "
    "module tls: rows of it are left out where that is not loaded. The peers measured elsewhere "
    "have no such daemon on the network, so none is measured here; Bacula with and without TLS is, "
    "in performance-network."
)
_TEXTS: Final = {
    "multimedia": {
        (BACKUP, "off, none"): "67% faster than with TLS",
        (BACKUP, "off, auto"): "67% faster (lzo)",
    },
    "sources": {
        (BACKUP, "off, none"): "8% faster than with TLS",
        (BACKUP, "off, auto"): "8% faster (lzo)",
    },
}


class _Mode(NamedTuple):
    name: str
    option: str
    cipher_suites: str = ""


MODES: Final = (
    _Mode("tls", "tls"),
    _Mode("off", "off"),
    _Mode("AES-256-GCM", "tls", "TLS_AES_256_GCM_SHA384"),
    _Mode("AES-128-GCM", "tls", "TLS_AES_128_GCM_SHA256"),
    _Mode("ChaCha20", "tls", "TLS_CHACHA20_POLY1305_SHA256"),
    _Mode("ktls", "ktls-required"),
)


def measure_tls(
    folder: Path,
    scale: float,
    rounds: int,
    tell: Callable[[str], None],
    codecs: tuple[str, ...] = CODECS,
) -> tuple[str, list[Row]]:
    """What was backed up, and the rows. `folder` is new. Raises UsageError."""
    modes = [
        mode for mode in MODES if mode.option != "ktls-required" or os.path.exists(_KERNEL_TLS)
    ]
    by_way = {f"{mode.name}, {codec}": (mode, codec) for codec in codecs for mode in modes}
    rows: list[Row] = []
    words = []
    for kind in ("multimedia", "sources"):
        tell(f"making {kind}")
        data = MAKERS[kind](folder / kind, scale)
        words.append(data.words)

        def run(way: Way, data_folder: Path = data.folder) -> Iterator[tuple[str, Taken]]:
            tell(f"{data_folder.name}, {way.name}")
            yield BACKUP, _backup(folder / "vault", data_folder, *by_way[way.name])

        ways = [
            Way(name, own_reference="" if codec == "none" else f"tls, {codec}")
            for name, (_, codec) in by_way.items()
        ]
        rows += in_turns(kind, ways, rounds, run, data.size_bytes, _TEXTS[kind])
    return "; ".join(words), rows


def _backup(place: Path, data: Path, mode: _Mode, codec: str) -> Taken:
    try:
        with Vault(place, mode.cipher_suites) as vault:
            command = vault.backup(mode.option, "--compression", codec, str(data))
            found = measure(command, vault.environment, place, place / "log")
            return taken_of(found, place / "log", sum(file_sizes(vault.repository)))
    finally:
        shutil.rmtree(place, ignore_errors=True)
