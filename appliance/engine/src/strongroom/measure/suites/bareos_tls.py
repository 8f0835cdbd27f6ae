"""`bareos-tls`: no TLS, TLS with each cipher, TLS in the kernel; with and without compression.

The text: the measurements of Bareos' pull request 1597. Each backup goes to a storage daemon of its
own on the loopback interface.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Final, NamedTuple

from strongroom.errors import UsageError
from strongroom.measure.suites.data import BAREOS_MACHINE, MAKERS
from strongroom.measure.suites.repositories import BACKUP, size_of, taken_of
from strongroom.measure.suites.result import Row, Way, in_turns
from strongroom.measure.testbed.command import CommandError, measure
from strongroom.measure.testbed.daemons import DaemonError
from strongroom.measure.testbed.vault import Vault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from strongroom.measure.suites.result import Taken

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
            return taken_of(found, place / "log", size_of(vault.repository))
    except (CommandError, DaemonError, OSError) as error:
        raise UsageError(f"nothing can be measured: {error}") from error
    finally:
        shutil.rmtree(place, ignore_errors=True)
