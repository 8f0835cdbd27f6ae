"""Measures a condition: a first backup into an empty repository, and one that finds nothing new.

Everything lies in one folder of the caller's. Times are those of the jobs themselves, without the
start of a program and the making of a repository; memory is that of all their processes.
"""

from __future__ import annotations

import json
import os
import random  # noqa: TID251 - the type alone
import shutil
import stat
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from strongroom.base import clock
from strongroom.base.errors import UsageError, os_errors
from strongroom.base.printable import printable
from strongroom.cli.measure.testbed.command import CommandError, CommandTimeoutError, measure
from strongroom.cli.measure.testbed.daemons import DaemonError, plain_environment
from strongroom.cli.measure.testbed.link import slow_link
from strongroom.cli.measure.testbed.local import local_backup, make_local
from strongroom.cli.measure.testbed.vault import Vault
from strongroom.cli.measure.tree import drop_caches
from strongroom.cli.measure.tuning.search import DEFAULTS, KnobChanges, Measurement, OutOfTimeError
from strongroom.engine.knobs.knob import Value
from strongroom.engine.knobs.table import BACKUP_KNOBS

# What of a folder is backed up again and again: all of it, or a part that means it.
#
# A part is made of whole folders wherever that is possible, spread over the tree: each folder gives
# its entries equal shares of what may be taken, and what small ones leave the large ones get.
MOST_BYTES: Final = 1 << 30
MOST_FILES: Final = 50_000
# So many runs fit into the time of a search, if each is a first backup that nothing shrinks; the
# candidates of all knobs take about as many.
_RUNS: Final = 100
# What a backup usually manages in a second; a far file system answers in milliseconds.
_BYTES_A_SECOND: Final = 200e6
_FILES_A_SECOND: Final = 10_000
_FAR_FILES_A_SECOND: Final = 500
# With less there is little but the start of a program to measure.
_LEAST_BYTES: Final = 1 << 19
_LEAST_FILES: Final = 100


class Sample(NamedTuple):
    """Paths to back up, and what they hold; `is_all`: the whole folder."""

    paths: tuple[bytes, ...]
    files: int
    size_bytes: int
    is_all: bool


class _Entries(NamedTuple):
    """Regular files with their sizes, and folders, of one folder on its file system."""

    files: list[tuple[bytes, int]]
    folders: list[bytes]


def sample_bounds(seconds: float, link_bytes_a_second: float, *, is_far: bool) -> tuple[int, int]:
    """The most bytes and files of a sample, for a search of so many seconds.

    `link_bytes_a_second`: 0 where no link bounds it. `is_far`: on a network file system.
    """
    run_seconds = seconds / _RUNS
    rate = min(link_bytes_a_second or _BYTES_A_SECOND, _BYTES_A_SECOND)
    files = _FAR_FILES_A_SECOND if is_far else _FILES_A_SECOND
    return (
        min(MOST_BYTES, max(_LEAST_BYTES, int(run_seconds * rate))),
        min(MOST_FILES, max(_LEAST_FILES, int(run_seconds * files))),
    )


def choose_sample(
    folder: str,
    chance: random.Random,
    most_bytes: int = MOST_BYTES,
    most_files: int = MOST_FILES,
) -> Sample:
    """A sample of a folder, on its own file system. Raises UsageError when there is nothing."""
    top = os.fsencode(os.path.abspath(folder))
    with os_errors(f"--dir {printable(folder)}"):
        device = os.stat(top).st_dev
        os.scandir(top).close()
    found = _part(top, device, chance, most_bytes, most_files)
    if not found.files:
        raise UsageError(
            f"--dir {printable(folder)} holds no file that is small enough to be backed up often: "
            "name another folder, or give more --minutes"
        )
    return found


def _part(
    folder: bytes, device: int, chance: random.Random, most_bytes: int, most_files: int
) -> Sample:
    whole = _whole(folder, device, most_bytes, most_files)
    if whole is not None:
        return whole
    entries = _entries(folder, device)
    # Files of a folder count as one more folder.
    shares = len(entries.folders) + 1
    paths: list[bytes] = []
    count = size = 0
    chance.shuffle(entries.files)
    for path, size_bytes in entries.files:
        if count < max(1, most_files // shares) and size + size_bytes <= most_bytes // shares:
            paths.append(path)
            count += 1
            size += size_bytes
    # Small folders first, whole: what they leave of their shares is for the large ones.
    large: list[bytes] = []
    for path in entries.folders:
        small = _whole(path, device, most_bytes // shares, most_files // shares)
        if small is None:
            large.append(path)
            continue
        paths += small.paths
        count += small.files
        size += small.size_bytes
    chance.shuffle(large)
    for number, path in enumerate(large):
        left = len(large) - number
        files_left = (most_files - count) // left
        if not files_left:
            continue
        part = _part(path, device, chance, (most_bytes - size) // left, files_left)
        paths += part.paths
        count += part.files
        size += part.size_bytes
    return Sample(tuple(paths), count, size, is_all=False)


def _whole(folder: bytes, device: int, most_bytes: int, most_files: int) -> Sample | None:
    """All of a folder if that is not too much; looks no further than needed to know."""
    count = size = 0
    pending = [folder]
    while pending:
        entries = _entries(pending.pop(), device)
        pending += entries.folders
        count += len(entries.files)
        size += sum(size_bytes for _, size_bytes in entries.files)
        if size > most_bytes or count > most_files:
            return None
    return Sample((folder,), count, size, is_all=True)


def _entries(folder: bytes, device: int) -> _Entries:
    """Sorted, so that the choice is that of `chance` alone; nothing where we may not look."""
    found = _Entries([], [])
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    if status.st_dev == device:
                        found.folders.append(entry.path)
                elif stat.S_ISREG(status.st_mode):
                    found.files.append((entry.path, status.st_size))
    except OSError:
        return _Entries([], [])
    found.files.sort()
    found.folders.sort()
    return found


Backup = Literal["first", "unchanged", "both"]


class MeasuredRuns:
    """Measures conditions in `folder`, which is new, and the caller's to remove.

    `link`: milliseconds and bytes a second of the way to a storage daemon; None: no daemon, the
    repository is a folder.
    """

    def __init__(
        self,
        folder: Path,
        paths: tuple[bytes, ...],
        backup: Backup,
        *,
        cold: bool,
        link: tuple[float, float] | None,
    ) -> None:
        self._folder = folder
        self._backup = backup
        self._cold = cold
        self._link = link
        self._ends = 0.0
        self._environment = plain_environment(folder / "home")
        self._list = folder / "paths"
        self._list.write_bytes(b"\0".join(paths) + b"\0")

    def warm_up(self, most_seconds: float) -> None:
        """Fill the caches, so that the first run is as warm as the others.

        Raises UsageError when a backup fails, OutOfTimeError after `most_seconds`.
        """
        if not self._cold:
            self.measure(DEFAULTS, most_seconds)

    def measure(self, condition: KnobChanges, most_seconds: float) -> Measurement:
        """One run. Raises UsageError when a backup fails, OutOfTimeError after `most_seconds`."""
        place = self._folder / "run"
        self._ends = clock.elapsed_seconds() + most_seconds
        try:
            if self._link is None:
                make_local(place)
                return self._run(local_backup(place, *self._words(condition)), place)
            return self._over_link(condition, place)
        except CommandTimeoutError as error:
            raise OutOfTimeError from error
        except (CommandError, DaemonError, OSError) as error:
            raise UsageError(f"nothing can be measured: {error}") from error
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _over_link(self, condition: KnobChanges, place: Path) -> Measurement:
        assert self._link is not None
        with Vault(place) as vault, slow_link(vault.port, *self._link) as port:
            command = vault.backup(_tls_mode(condition), *self._words(condition), port=port)
            return self._run(command, place)

    def _run(self, command: list[str], place: Path) -> Measurement:
        seconds = 0.0
        memory = stored = 0
        for backup in ("first", "unchanged"):
            if self._cold:
                drop_caches()
            log = place / "log"
            left = max(0.0, self._ends - clock.elapsed_seconds())
            taken = measure(command, self._environment, self._folder, log, left)
            summary = _summary(log)
            if self._backup in (backup, "both"):
                seconds += float(summary["elapsed_seconds"])
                memory = max(memory, taken.peak_pss_bytes, taken.largest_process_rss_bytes)
            stored += int(summary["stored_bytes"])
            if self._backup == "first":
                break
        return Measurement(seconds, memory, stored)

    def _words(self, condition: KnobChanges) -> list[str]:
        words = ["--files-from-raw", str(self._list), "--exclude", str(self._folder)]
        chosen = dict(condition.changes)
        for knob in BACKUP_KNOBS:
            if knob.name in chosen and knob.option is not None:
                words += _option(knob.option.flag, knob.kind == "switch", chosen[knob.name])
        return words


def _option(flag: str, is_switch: bool, value: Value) -> list[str]:
    return [flag] if is_switch else [flag, str(value)]


def _tls_mode(condition: KnobChanges) -> str:
    if not condition.value("tls_enable", True):
        return "off"
    return "tls" if condition.value("ktls", "auto") == "no" else "ktls"


def _summary(log: Path) -> dict[str, Any]:
    for line in reversed(log.read_text(errors="replace").splitlines()):
        if line.startswith("{") and '"summary"' in line:
            found: dict[str, Any] = json.loads(line)
            return found
    raise UsageError("a backup reported nothing, so nothing can be measured")
