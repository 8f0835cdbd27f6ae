"""The `Run` directives of a Job: other jobs that are started along with each run of it.

    Run = "other level=%l storage=main"

The first word names the job, the others say what its run overrides; `%l` stands for the level of
the run that starts it.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import Final

from strongroom.errors import UsageError

LEVEL_OF_RUN: Final = "%l"
_TEXTS: Final = ("level", "client", "fileset", "storage", "pool")
_KNOWN: Final = (*_TEXTS, "priority")


@dataclass(frozen=True, slots=True)
class Companion:
    """A job to be started, and what its run overrides; "" and 0: as that job says."""

    job: str
    level: str = ""
    client: str = ""
    fileset: str = ""
    storage: str = ""
    pool: str = ""
    priority: int = 0

    def at_level(self, level: str) -> Companion:
        """The same with `%l` replaced."""
        texts = {
            name: text.replace(LEVEL_OF_RUN, level)
            for name in ("job", *_TEXTS)
            if LEVEL_OF_RUN in (text := getattr(self, name))
        }
        return replace(self, **texts) if texts else self


def parse_companion(text: str) -> Companion:
    """What the value of a `Run` directive says. Raises UsageError."""
    try:
        name, *words = shlex.split(text) or ("",)
    except ValueError as error:
        raise UsageError(f"{text!r} cannot be split into words: {error}") from error
    if not name:
        raise UsageError("the first word names a job; there is none")
    texts: dict[str, str] = {}
    priority = 0
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in _KNOWN:
            raise UsageError(f"{word!r} is none of {', '.join(_KNOWN)} with a value")
        if key != "priority":
            texts[key] = value
        elif value.isascii() and value.isdecimal():
            priority = int(value[:9])
        else:
            raise UsageError(f"a priority is a number, not {value!r}")
    return Companion(name, priority=priority, **texts)
