"""Every run of a search in a file, so that an interrupted search continues where it stopped.

The first line says what is measured, each further one is a run. A search asks for the same runs in
the same order when it gets the same answers, so going on is answering from the file first.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from strongroom.base import clock
from strongroom.base.errors import UsageError, os_errors
from strongroom.base.printable import printable
from strongroom.cli.measure.tuning.search import KnobChanges, Measurement, OutOfTimeError
from strongroom.net.identities.private_files import PUBLIC_MODE, write_file

if TYPE_CHECKING:
    from pathlib import Path

JOURNAL_VERSION: Final = 1
_LEAST_SECONDS: Final = 60.0


class Subject(msgspec.Struct, frozen=True):
    """What is measured; runs of another subject say nothing about it.

    `paths`: what is backed up of the folder. `searched` and `changed`: names of knobs. `link`:
    milliseconds and bytes a second, None without.
    """

    host: str
    folder: str
    paths: tuple[bytes, ...]
    files: int
    size_bytes: int
    is_sample: bool
    backup: Literal["first", "unchanged", "both"]
    is_cold: bool
    searched: tuple[str, ...]
    changed: tuple[str, ...]
    larger: float
    link: tuple[float, float] | None = None
    version: int = JOURNAL_VERSION


class _Line(msgspec.Struct, frozen=True):
    condition: KnobChanges
    run: Measurement


class Journal:
    """`measure` with a memory and a bound in time; what is answered from memory takes none.

    `measure` gets the most seconds that it may take, and raises OutOfTimeError beyond them.
    `began`: when the time began to count, of `clock.elapsed_seconds`.
    """

    def __init__(
        self,
        path: Path,
        measure: Callable[[KnobChanges, float], Measurement],
        known: dict[KnobChanges, list[Measurement]],
        began: float,
    ) -> None:
        self._path = path
        self._measure = measure
        self._known = known
        self._began = began
        self._allowed_seconds = 0.0
        self._taken: list[float] = []

    def allow(self, seconds: float) -> None:
        """Measure until so many seconds after the beginning."""
        self._allowed_seconds = seconds

    def __call__(self, condition: KnobChanges) -> Measurement:
        """A run of a condition. Raises OutOfTimeError when another takes too long."""
        remembered = self._known.get(condition)
        if remembered:
            return remembered.pop(0)
        begin = clock.elapsed_seconds()
        expected = statistics.median(self._taken) if self._taken else 0.0
        left = self._allowed_seconds - (begin - self._began)
        if self._taken and expected > left:
            raise OutOfTimeError
        # The first is measured in any case: without it there is nothing to tell.
        most = max(left, 2 * expected) if self._taken else first_run_seconds(self._allowed_seconds)
        run = self._measure(condition, most)
        self._taken.append(clock.elapsed_seconds() - begin)
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(_Line(condition, run)) + b"\n")
        return run


def first_run_seconds(search_seconds: float) -> float:
    """The most that a run may take when nothing was measured before."""
    return max(search_seconds, _LEAST_SECONDS)


def begin_journal(path: Path, subject: Subject) -> None:
    """Write the first line, over what was there. Raises UsageError."""
    with os_errors(f"{printable(str(path))} cannot be written", then="; name another with --state"):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(os.fsencode(path), msgspec.json.encode(subject) + b"\n", PUBLIC_MODE)


def read_journal(path: Path) -> tuple[Subject, dict[KnobChanges, list[Measurement]]]:
    """What an earlier search measured. Raises UsageError."""
    name = printable(str(path))
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError as error:
        raise UsageError(
            f"there is nothing to resume: {name} is not there; leave out --resume"
        ) from error
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from error
    try:
        subject = msgspec.json.decode(lines[0], type=Subject)
        if subject.version != JOURNAL_VERSION:
            raise UsageError(f"{name} was written by another version: leave out --resume")
        found: dict[KnobChanges, list[Measurement]] = {}
        for line in lines[1:]:
            one = msgspec.json.decode(line, type=_Line)
            found.setdefault(one.condition, []).append(one.run)
    except (msgspec.DecodeError, IndexError) as error:
        raise UsageError(
            f"{name} is not what an earlier `strongroom tune` left: remove it, or leave out "
            "--resume"
        ) from error
    return subject, found
