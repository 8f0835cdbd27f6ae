"""Where files may be restored to: entries of Where ACLs, judged by the director and the agent.

The director judges the requested path, the agent the resolved one: a symbolic link on the client
cannot bypass the entries. As elsewhere the first entry that matches decides, for or, with `!`
before it, against; `*all*` matches everything. An entry matches the folder that it names and all
below it. A regular expression matches whole paths, and with `!` all below them too.
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
    """Lists of entries (without any: no rules); every list must allow a folder.

    folders: of this machine; files may go there and below, () for everywhere.
    """

    layers: tuple[tuple[str, ...], ...]
    folders: tuple[str, ...] = ()

    def permits(self, folder: bytes) -> bool:
        """Whether files may go to this folder, an absolute, resolved path."""
        path = folder.decode("utf-8", "surrogateescape")
        if self.folders and not any(_lies_in(path, each) for each in self.folders):
            return False
        return all(where_verdict(layer, path) for layer in self.layers)

    def denied_below(self, folder: bytes) -> str:
        """A folder below this one that is denied by name, "" without any."""
        path = folder.decode("utf-8", "surrogateescape")
        found = (denied_below(layer, path) for layer in self.layers)
        return next(filter(None, found), "")

    def __str__(self) -> str:
        """In the notation of the configuration."""
        shown = [f"`Where ACL = {', '.join(layer)}` of whoever asks" for layer in self.layers]
        if self.folders:
            shown.append(f"`Allowed Restore Dir = {', '.join(self.folders)}` of this agent")
        return " and ".join(shown)


def where_verdict(entries: Iterable[str], path: str) -> bool | None:
    """Whether a list allows a folder; None when no entry matches."""
    for entry in entries:
        pattern = entry.removeprefix("!")
        denies = entry.startswith("!")
        if pattern.lower() == ALL or _covers(pattern, path, with_below=denies):
            return not denies
    return None


def denied_below(entries: Sequence[str], path: str) -> str:
    """A folder below `path`, or an expression that may match one, that a list denies; else "".

    A restore creates whole trees, so what is denied below its target must be known beforehand.
    """
    above = path.rstrip("/") + "/"
    for entry in entries:
        pattern = entry.removeprefix("!")
        if pattern == entry:
            if pattern.lower() == ALL or _lies_in(path, pattern):
                # It decides about all below, so later entries do not count.
                return ""
        elif compiled_entry(pattern, minds_case=True) is not None:
            if _may_match_below(pattern, above):
                return pattern
        elif pattern.startswith(above) and where_verdict(entries, pattern.rstrip("/")) is False:
            return pattern.rstrip("/")
    return ""


@lru_cache(maxsize=4096)
def compiled_entry(pattern: str, *, minds_case: bool) -> re.Pattern[str] | None:
    """An entry of an ACL as a regular expression; None if it is not one."""
    # The configuration allows letters, digits and !()[]|+?*.:_-'/ in an entry; within these Python
    # reads a regular expression as POSIX does.
    if not set(pattern) & set("()[]|+?*."):
        return None
    try:
        return re.compile(pattern, 0 if minds_case else re.IGNORECASE)
    except re.error:
        return None


def _covers(pattern: str, path: str, *, with_below: bool) -> bool:
    if _lies_in(path, pattern):
        return True
    compiled = compiled_entry(pattern, minds_case=True)
    if compiled is None:
        return False
    folders = [path]
    while with_below and (path := path.rpartition("/")[0]):
        folders.append(path)
    return any(compiled.fullmatch(folder) for folder in folders)


def _lies_in(path: str, folder: str) -> bool:
    bare = folder.rstrip("/")
    return path == bare or path.startswith(bare + "/")


def _may_match_below(pattern: str, above: str) -> bool:
    """Whether a regular expression might match what begins with `above`; True if unsure."""
    if not set(pattern) & set("()[]|+?*\\"):
        # No operators but dots, as in names: it matches folders as deep as itself.
        depth = above.count("/")
        parts = pattern.split("/")
        head = re.compile("/".join(parts[:depth]))
        return len(parts) > depth and head.fullmatch(above[:-1]) is not None
    if "|" in pattern:
        return True
    plain = re.split(r"[()\[\].+?*\\]", pattern, maxsplit=1)[0]
    if pattern[len(plain) : len(plain) + 1] in tuple("+?*"):
        # It applies to the character before it.
        plain = plain[:-1]
    beginning = plain[: plain.rfind("/") + 1]
    return beginning.startswith(above) or above.startswith(beginning)
