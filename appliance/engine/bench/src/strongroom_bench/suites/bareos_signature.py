"""`bareos-signature`: what a digest of each file costs.

The text: the measurements of Bareos' pull request 1597.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from strongroom_bench.suites.bareos import BAREOS
from strongroom_bench.suites.causes import digest_rows
from strongroom_bench.suites.data import MAKERS
from strongroom_bench.suites.repositories import BACKUP, RESTORE, measure_ways
from strongroom_bench.suites.result import Row, Way

UNSIGNED: Final = "none"
SIGNATURES: Final = ("none", "md5", "sha1", "sha256", "sha512", "xxh128", "blake3")
SEED: Final = (
    f"{BAREOS}. Of signatures it says that results are not clear: SHA512 seemed fastest, though in "
    "theory xxh128 is, and restores hardly differed. There a digest is one chain, whose updates "
    "each wait for the one before. Here each file's digest is made beside the one that finds "
    'duplicates. Groups whose names end in "alone" give what each digest takes of these bytes on '
    "its own, beside how far equal backups without one are apart: a cost that is smaller than that "
    "spread looks random. Peers have no choice of digests, so none is measured here."
)
_TEXTS: Final = {
    (BACKUP, "sha512"): "seems fastest, not significant",
    (BACKUP, "xxh128"): "fastest in theory, not in the results",
    (RESTORE, "sha512"): "hardly affected",
}


def measure_signature(
    folder: Path,
    scale: float,
    rounds: int,
    tell: Callable[[str], None],
    signatures: tuple[str, ...] = SIGNATURES,
) -> tuple[str, list[Row]]:
    """What was backed up, and the rows. `folder` is new. Raises UsageError."""
    ways = [Way(name, ("--signature", name)) for name in signatures]
    rows: list[Row] = []
    words = []
    for kind in ("multimedia", "sources"):
        tell(f"making {kind}")
        data = MAKERS[kind](folder / kind, scale)
        words.append(data.words)
        found = measure_ways(folder, kind, data, ways, rounds, tell, _TEXTS, with_peers=False)
        tell(f"{kind}, digests alone")
        rows += found + digest_rows(kind, data.size_bytes, found[0], signatures, rounds)
    return "; ".join(words), rows
