"""What options give: the type of each option is declared with it, so what is read is right.

A type raises UsageError for a text that it does not take; the parser says of which option.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import UsageError
from strongroom.base.printable import printable

if TYPE_CHECKING:
    from strongroom.engine.knobs.knob import Knob
    from strongroom.engine.knobs.settings import KnobSettings
    from strongroom.engine.scan.patterns import Patterns

_Value = TypeVar("_Value")

# An option that may be repeated gives the list of its values; with `words` those of all of them.
REPEATED: Final[dict[str, Any]] = {"action": "append", "default": []}
JOINED: Final[dict[str, Any]] = {"action": "extend", "default": []}
_PATTERN: Final[dict[str, Any]] = {**REPEATED, "metavar": "PATTERN", "type": os.fsencode}
_PATTERN_FILE: Final[dict[str, Any]] = {**REPEATED, "metavar": "FILE", "type": os.fsencode}

# What a signed number of 64 bits holds, as file systems and stored records have sizes.
GREATEST_SIZE_BYTES: Final = (1 << 63) - 1
_SIZE: Final = re.compile(r"(\d{1,20})\s*(?:([kmgtp])i?b?|b)?", re.IGNORECASE)
_SIZE_UNITS: Final = " kmgtp"
_UNIX_SECONDS: Final = re.compile(r"@-?\d{1,11}")
_SHARE: Final = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)(%?)")


def number(least: int = 0, most: int | None = None) -> Callable[[str], int]:
    """A whole number from `least` on, up to `most` if that is given."""
    wanted = f"write a whole number from {least}" + (" on" if most is None else f" to {most}")

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least or (most is not None and value > most):
            raise UsageError(f"{text!r}: {wanted}")
        return value

    return read


def decimal(least: float, most: float) -> Callable[[str], float]:
    """A number between `least` and `most`, both included."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise UsageError(f"{text!r}: write a number from {least:g} to {most:g}")
        return value

    return read


def share(text: str) -> float:
    """A share as 0 to 1, from `80%` or `0.8`."""
    found = _SHARE.fullmatch(text.strip())
    value = float(found[1]) / (100 if found[2] else 1) if found else -1.0
    if not 0 <= value <= 1:
        raise UsageError(f"{text!r}: write a share such as 80% or 0.8")
    return value


def size(text: str) -> int:
    """Bytes of `500M` and the like; `10M` and `10MiB` both count in 1024, as all units here do."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{text!r} is not a size; write for example 4096, 100k, 10M, 2GiB")
    size_bytes = int(found[1]) << 10 * _SIZE_UNITS.index((found[2] or " ").lower())
    if size_bytes > GREATEST_SIZE_BYTES:
        raise UsageError(f"{text!r} is too large; write at most 8191P")
    return size_bytes


def memory(text: str) -> int:
    """A size that is enough for a job over a large repository."""
    from strongroom.engine.prune.prune_options import LEAST_MEMORY_BYTES

    found = size(text)
    if found < LEAST_MEMORY_BYTES:
        raise UsageError(f"{text!r}: write 64M or more")
    return found


def rate(text: str) -> int:
    """Bytes per second, 0 for no limit."""
    if text.strip().lower() in ("none", "0"):
        return 0
    from strongroom.config.values.measures import size_bytes, speed_bytes_per_second

    # As our own output writes them; the language of the configuration has no such units.
    plain = re.sub("([kmgtpe])ib", r"\1", text, flags=re.IGNORECASE)
    found = speed_bytes_per_second(plain) or size_bytes(plain)
    if not found:
        raise UsageError(f"{text!r} is not a rate; write 20mb/s, 500k (KiB a second) or none")
    return found


def exact_seconds(text: str) -> int:
    """Seconds of a duration whose length does not depend on the calendar: `36h`, `30d`, or `0`."""
    from strongroom.engine.prune.retention import parse_duration

    duration = parse_duration("0s" if text == "0" else text)
    if duration.months:
        raise UsageError(f"{text!r}: write hours, days or weeks, not months")
    return duration.seconds


def moment(text: str) -> int:
    """A time in ns since 1970: a date and time, `@seconds`, or how long ago (`36h`, `7d`).

    Local time where no offset is stated; a date alone means its start.
    """
    from datetime import datetime

    from strongroom.engine.prune.retention import parse_duration

    stripped = text.strip()
    if _UNIX_SECONDS.fullmatch(stripped):
        return int(stripped[1:]) * SECOND_NS
    try:
        found = datetime.fromisoformat(stripped)
        return int(found.replace(microsecond=0).timestamp()) * SECOND_NS + found.microsecond * 1000
    except (ValueError, OverflowError):
        pass
    try:
        return parse_duration(stripped).before(clock.now_ns())
    except UsageError as error:
        raise UsageError(
            f"{text!r} is not a time; write for example 2026-11-21, '2026-11-21 13:10', "
            "2026-11-21T13:10Z, @1700000000, or how long ago: 36h, 7d, 6m (months)"
        ) from error


def may_be_empty(read: Callable[[str], _Value]) -> Callable[[str], _Value]:
    """The type `read` of an option to which an empty text is a value; others refuse it."""

    def read_also_empty(text: str) -> _Value:
        return read(text)

    read_also_empty.takes_empty = True  # type: ignore[attr-defined]
    return read_also_empty


def stored_text(text: str) -> str:
    """A name or note that is stored as text: bytes that are not UTF-8 are refused at once.

    Otherwise a backup would fail at its snapshot, when everything is stored.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        shown = printable(os.fsencode(text))
        raise UsageError(f"'{shown}' is not UTF-8, in which names, tags and notes are") from None
    return text


def words(text: str) -> tuple[str, ...]:
    """Words that commas separate; none of an empty text alone, for `may_be_empty`."""
    stored_text(text)
    found = tuple(word for word in (part.strip() for part in text.split(",")) if word)
    if text and not found:
        raise UsageError(f"{text!r}: write one word or more, with commas between them")
    return found


def words_of(known: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """The same, all of them among `known`."""

    def read(text: str) -> tuple[str, ...]:
        found = words(text)
        for word in found:
            if word not in known:
                raise UsageError(f"{word!r}: use {', '.join(known)}")
        return found

    return read


def folder(text: str) -> str:
    """A folder that exists; "" for none."""
    if text and not os.path.isdir(text):
        raise UsageError(f"{text} is not a folder")
    return text


def add_patterns(
    group: argparse._ActionsContainer, name: str, text: str | None = None, *, files: bool = False
) -> None:
    """Add `--NAME`, of which `text` is the help, and `--iNAME`, and with `files` lists of both."""
    short, i_name = f"-{name[0]}", f"--i{name}"
    same = "the same without regard to case" if text or files else None
    group.add_argument(short, f"--{name}", **_PATTERN, help=text)
    group.add_argument(i_name, **_PATTERN, help=same)
    if files:
        list_help = "patterns from FILE, one a line"
        group.add_argument(f"--{name}-file", **_PATTERN_FILE, help=list_help)
        group.add_argument(f"{i_name}-file", **_PATTERN_FILE)


def patterns_of(arguments: argparse.Namespace, name: str) -> Patterns | None:
    """What the options of `add_patterns` give, None where there is none. Raises UsageError."""
    given: list[tuple[bytes, bool]] = []
    for option, ignores_case in ((name, False), (f"i{name}", True)):
        texts = list(getattr(arguments, option))
        for file in getattr(arguments, f"{option}_file", ()):
            from strongroom.engine.scan.patterns import read_pattern_file

            texts += read_pattern_file(file)
        given += [(text, ignores_case) for text in texts]
    if not given:
        return None
    from strongroom.engine.scan.patterns import Patterns, and_resolved

    return Patterns(and_resolved(given))


def add_knob_options(group: argparse._ArgumentGroup) -> None:
    """Add an option for every knob of a backup; None where not given."""
    from strongroom.engine.knobs.table import BACKUP_KNOBS

    for knob in BACKUP_KNOBS:
        option = knob.option
        assert option is not None
        if knob.kind == "switch":
            group.add_argument(option.flag, dest=knob.name, action="store_const",
                               const=not knob.default, help=option.help)  # fmt: skip
        else:
            group.add_argument(option.flag, dest=knob.name, metavar=option.metavar,
                               type=_knob_number(knob) if knob.kind == "number" else str,
                               help=option.help)  # fmt: skip


def knob_settings(arguments: argparse.Namespace) -> KnobSettings:
    """The values of the knobs on the command line, unchecked."""
    from strongroom.engine.knobs.settings import KnobSettings
    from strongroom.engine.knobs.table import BACKUP_KNOBS

    return KnobSettings(**{knob.name: getattr(arguments, knob.name) for knob in BACKUP_KNOBS})


def _knob_number(knob: Knob) -> Callable[[str], int]:
    def number(text: str) -> int:
        try:
            return int(text)
        except ValueError:
            raise UsageError(f"{text!r}: write {knob.expected}") from None

    return number
