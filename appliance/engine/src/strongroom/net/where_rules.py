"""Where files may be restored to: entries of Where ACLs, judged by the director and the agent.

The director judges what was asked for, the agent where that really is: a symbolic link on the
client leads nobody past the entries. As everywhere the first entry that fits decides, for or, with
`!` before it, against; `*all*` fits everything. An entry fits the folder that it names and all
below it, or what it matches whole as a regular expression.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ALL: Final = "*all*"


@dataclass(frozen=True, slots=True)
class WhereRules:
    """Lists of entries (without any: no rules); each of them must allow a folder."""

    layers: tuple[tuple[str, ...], ...]

    def permits(self, folder: bytes) -> bool:
        """Whether files may go to this folder, an absolute path as it really is."""
        path = folder.decode("utf-8", "surrogateescape")
        return all(where_verdict(layer, path) for layer in self.layers)

    def denied_below(self, folder: bytes) -> str:
        """A folder below this one that is denied by name, "" without any."""
        path = folder.decode("utf-8", "surrogateescape")
        found = (denied_below(layer, path) for layer in self.layers)
        return next(filter(None, found), "")

    def __str__(self) -> str:
        """As the configuration has them."""
        return " and ".join(f"`Where ACL = {', '.join(layer)}`" for layer in self.layers)


def where_verdict(entries: Iterable[str], path: str) -> bool | None:
    """What a list says about a folder; None when it does not mention it."""
    for entry in entries:
        pattern = entry.removeprefix("!")
        if pattern.lower() == ALL or _covers(pattern, path):
            return not entry.startswith("!")
    return None


def denied_below(entries: Sequence[str], path: str) -> str:
    """A folder below `path` that a list denies by name, "" without any.

    A restore makes whole trees, so what is denied within its target has to be known beforehand.
    """
    above = path.rstrip("/") + "/"
    for entry in entries:
        folder = entry.removeprefix("!").rstrip("/")
        if folder != entry and folder.startswith(above) and where_verdict(entries, folder) is False:
            return folder
    return ""


@lru_cache(maxsize=4096)
def compiled_entry(pattern: str, *, minds_case: bool) -> re.Pattern[str] | None:
    """An entry of an ACL as a regular expression; None for one that is none."""
    # The configuration allows letters, digits and !()[]|+?*.:_-'/ in an entry; within these Python
    # reads a regular expression as POSIX does.
    if not set(pattern) & set("()[]|+?*."):
        return None
    try:
        return re.compile(pattern, 0 if minds_case else re.IGNORECASE)
    except re.error:
        return None


def _covers(pattern: str, path: str) -> bool:
    folder = pattern.rstrip("/")
    if path == folder or path.startswith(folder + "/"):
        return True
    compiled = compiled_entry(pattern, minds_case=True)
    return compiled is not None and compiled.fullmatch(path) is not None
