"""Measures a condition: a first backup into an empty repository, and one that finds nothing new.

Everything lies in one folder of the caller's. Times are those of the jobs themselves, without the
start of a program and the making of a repository; memory is that of all their processes.
"""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any, Final, Literal

from strongroom import clock
from strongroom.errors import UsageError
from strongroom.knobs.table import BACKUP_KNOBS
from strongroom.measure.testbed.command import CommandError, CommandTimeoutError, measure
from strongroom.measure.testbed.daemons import DaemonError, plain_environment
from strongroom.measure.testbed.link import slow_link
from strongroom.measure.testbed.local import local_backup, make_local
from strongroom.measure.testbed.vault import Vault
from strongroom.measure.tree import drop_caches
from strongroom.measure.tuning.search import DEFAULTS, Measurement, OutOfTimeError

if TYPE_CHECKING:
    from pathlib import Path

    from strongroom.knobs.knob import Value
    from strongroom.measure.tuning.search import KnobChanges

Backup = Literal["first", "unchanged", "both"]
BACKUPS: Final = ("first", "unchanged", "both")


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
    raise UsageError("a backup told nothing, so nothing can be measured")
