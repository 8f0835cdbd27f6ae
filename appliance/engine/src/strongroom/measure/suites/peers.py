"""Other backup programs, for the same data in the same run: those that are installed.

Each with its defaults, encryption on where it has one, and a cache in a folder of its own.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_PASSWORD: Final = "of a measurement"  # noqa: S105 - of a repository that is thrown away
_SHELL: Final = ("bash", "-o", "pipefail", "-c")


@dataclass(frozen=True, slots=True)
class Peer:
    """`prepare`, `back_up` and `restore` give command lines for a new folder of its own.

    A later backup may find what did not change, if `is_incremental`; the last one is restored.
    `environment`: what it needs besides the plain one.
    """

    name: str
    prepare: Callable[[Path], list[str]]
    back_up: Callable[[Path, Path], list[str]]
    restore: Callable[[Path, Path], list[str]]
    environment: Mapping[str, str] = field(default_factory=dict)
    is_incremental: bool = True


def installed_peers(
    names: tuple[str, ...] = ("tar", "restic", "rustic", "borg"),
) -> list[Peer]:
    """Those of the names that are installed, in this order."""
    found = {"tar": _tar, "restic": _restic, "rustic": _rustic, "borg": _borg}
    needed = {"tar": ("tar", "zstd", "bash"), "borg": ("borg", "bash")}
    return [found[name]() for name in names if all(map(shutil.which, needed.get(name, (name,))))]


def _tar() -> Peer:
    threads = len(os.sched_getaffinity(0))
    return Peer(
        "tar, zstd -1",
        lambda place: ["mkdir", str(place)],
        lambda place, data: [
            *_SHELL,
            f'tar -C "$1" -cf - . | zstd -1 -T{threads} -q -o "$2/archive"',
            "bash", str(data), str(place),
        ],
        lambda place, target: [
            *_SHELL, 'zstd -dc "$2/archive" | tar -C "$1" -xpf -', "bash", str(target), str(place),
        ],
        is_incremental=False,
    )  # fmt: skip


def _restic() -> Peer:
    def call(place: Path, *words: str) -> list[str]:
        cache = str(place) + ".cache"
        return ["restic", "--quiet", "--repo", str(place), "--cache-dir", cache, *words]

    return Peer(
        "restic",
        lambda place: call(place, "init"),
        lambda place, data: call(place, "backup", str(data)),
        lambda place, target: call(place, "restore", "latest", "--target", str(target)),
        {"RESTIC_PASSWORD": _PASSWORD},
    )


def _rustic() -> Peer:
    def call(place: Path, *words: str) -> list[str]:
        cache = str(place) + ".cache"
        own = ("--repository", str(place), "--cache-dir", cache, "--no-progress")
        return ["rustic", "--log-level", "error", *own, *words]

    return Peer(
        "rustic",
        lambda place: call(place, "init"),
        lambda place, data: call(place, "backup", str(data)),
        lambda place, target: call(place, "restore", "latest", str(target)),
        {"RUSTIC_PASSWORD": _PASSWORD},
    )


def _borg() -> Peer:
    return Peer(
        "borg",
        lambda place: ["borg", "init", "--encryption", "repokey-blake2", str(place)],
        lambda place, data: ["borg", "create", f"{place}::{{now:%H-%M-%S.%f}}", str(data)],
        lambda place, target: [
            *_SHELL, 'cd "$1" && borg extract "$2::$(borg list --last 1 --short "$2")"', "bash",
            str(target), str(place),
        ],
        {"BORG_PASSPHRASE": _PASSWORD, "BORG_RELOCATED_REPO_ACCESS_IS_OK": "yes"},
    )  # fmt: skip
