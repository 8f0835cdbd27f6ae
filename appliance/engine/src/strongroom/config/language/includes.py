"""What an `@` in a configuration means: a file, several files, or a command that is not run.

`@path` is one file, which must be there. A path with `*` or `?` is as many files as match, none
included, and they are read in reverse order of their names, as Bareos does: its default catalog is
the first one read. For `@|command` see commands.
"""

from __future__ import annotations

import fnmatch
import os
import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IncludeTarget:
    """A parsed `@`: exactly one of `path`, `command` is not empty."""

    path: str = ""
    command: str = ""


@dataclass(slots=True)
class EntryBudget:
    """How many folder entries patterns may still look at; `/*/*/*/*` could mean a whole disk."""

    entries: int


class EntryBudgetError(Exception):
    """The budget is used up."""


def target_of(text: str) -> IncludeTarget:
    """Take apart an include as the lexer found it, `@` and quotes and all."""
    body = text[1:]
    is_command = body.startswith("|")
    before, quote, after = body.removeprefix("|").partition('"')
    if quote:
        after = re.sub(r"\\(.)", r"\1", after.removesuffix('"'), flags=re.DOTALL)
    return (
        IncludeTarget(command=before + after) if is_command else IncludeTarget(path=before + after)
    )


def is_pattern(path: str) -> bool:
    """Whether `path` names as many files as match."""
    return "*" in path or "?" in path


def files_matching(pattern: str, folder: str = "", budget: EntryBudget | None = None) -> list[str]:
    """The files below `folder` that match, in the order they are read: the last name first.

    `folder` is taken as it is, whatever letters are in it; "" is the working folder. A leading
    dot must be matched by a dot. Raises EntryBudgetError.
    """
    places = [folder]
    parts = [part for part in pattern.split("/") if part]
    for number, part in enumerate(parts, 1):
        if is_pattern(part):
            places = [found for place in places for found in _entries(place, part, budget)]
        else:
            places = [os.path.join(place, part) for place in places]
            if number == len(parts):
                places = [place for place in places if os.path.lexists(place)]
    return sorted((place for place in places if not os.path.isdir(place)), reverse=True)


def _entries(folder: str, part: str, budget: EntryBudget | None) -> list[str]:
    fits = re.compile(fnmatch.translate(part.replace("[", "[[]"))).match
    found = []
    try:
        with os.scandir(folder or ".") as entries:
            _spend(budget)
            for entry in entries:
                _spend(budget)
                if fits(entry.name) and (part[0] == "." or entry.name[0] != "."):
                    found.append(os.path.join(folder, entry.name))
    except (OSError, ValueError):
        # Anything but a readable folder contains no matches.
        return []
    return found


def _spend(budget: EntryBudget | None) -> None:
    if budget is not None:
        budget.entries -= 1
        if budget.entries < 0:
            raise EntryBudgetError
