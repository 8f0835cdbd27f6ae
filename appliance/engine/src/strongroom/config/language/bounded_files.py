"""Opening configuration files and includes within the limits of one load.

What an `@` means: `@path` is one file, which must be there. A path with `*` or `?` is as many files
as match, none included, and they are read in reverse order of their names, as Bareos does: its
default catalog is the first one read. For `@|command` see commands.
"""

from __future__ import annotations

import fnmatch
import os
import re
from dataclasses import dataclass

from strongroom.config.language.commands import patterns_of_command
from strongroom.config.language.diagnostics import ERROR, Diagnostics
from strongroom.config.language.sources import LoadLimits, SourceText, decode, read_bounded
from strongroom.engine.sources.shell import run_command

# Where to report: the source, the offset in it, and how many characters are meant.
Place = tuple[SourceText, int, int]


class Reader:
    """Reads files, counts them and their bytes, and keeps the chain of open includes.

    `root` is put before absolute paths of includes, for a tree that was copied from elsewhere.
    """

    def __init__(
        self,
        diagnostics: Diagnostics,
        limits: LoadLimits,
        *,
        allow_commands: bool = False,
        root: str = "",
    ) -> None:
        self.diagnostics = diagnostics
        self.limits = limits
        self.allow_commands = allow_commands
        self.root = root
        self.files_read: list[str] = []
        self._bytes_read = 0
        self._pattern_budget = EntryBudget(limits.pattern_entries)
        self._open: list[str] = []

    def read(self, path: str, place: Place | None = None) -> SourceText | None:
        """The file `path`, or None with an error reported (at `place`, else at its own start)."""
        place = place or (SourceText(path, ""), 0, 1)
        if len(self.files_read) >= self.limits.files:
            self._refuse("limit", f"more than {self.limits.files} files are read", place)
            return None
        try:
            data = read_bounded(path, self.limits.file_bytes)
        except (OSError, ValueError) as error:
            self._refuse("unreadable", f"cannot read {path}: {_reason(error)}", place)
            return None
        if data is None:
            limit = self.limits.file_bytes
            self._refuse("limit", f"{path} is larger than {limit} bytes", place)
            return None
        return self._accept(path, data, place)

    def _accept(self, path: str, data: bytes, place: Place) -> SourceText | None:
        self._bytes_read += len(data)
        self.files_read.append(path)
        if self._bytes_read > self.limits.total_bytes:
            limit = self.limits.total_bytes
            self._refuse("limit", f"more than {limit} bytes are read in all", place)
            return None
        text = decode(data)
        if text is None:
            self._refuse("encoding", f"{path} is UTF-16; save it as UTF-8", place)
            return None
        return SourceText(path, text)

    def included(self, text: str, source: SourceText, offset: int) -> list[SourceText]:
        """The sources that the include `text`, found at `offset` of `source`, means."""
        place = (source, offset, len(text))
        target = target_of(text)
        if len(self._open) >= self.limits.include_depth:
            depth = self.limits.include_depth
            self._refuse("include-depth", f"includes are nested more than {depth} deep", place)
        elif target.command:
            return self._command(target.command, place)
        elif target.path:
            return self._paths([target.path], place)
        else:
            self._refuse("include", "an @ needs the path of a file", place)
        return []

    def _command(self, command: str, place: Place) -> list[SourceText]:
        if self.allow_commands:
            try:
                data = run_command(command, self.limits.file_bytes)
            except (OSError, ValueError) as error:
                self._refuse("command", f"the command failed: {_reason(error)}", place)
                return []
            made = self._accept(f"|{command}", data, place)
            return [made] if made else []
        patterns = patterns_of_command(command)
        if patterns is None:
            self._refuse(
                "command",
                "commands are not run (--allow-commands would), and this one does more than list "
                "or print files",
                place,
            )
            return []
        return self._paths(patterns, place)

    def _paths(self, paths: list[str], place: Place) -> list[SourceText]:
        found: list[SourceText] = []
        for written in paths:
            try:
                chosen = self._chosen(written, place[0])
            except EntryBudgetError:
                limit = self.limits.pattern_entries
                self._refuse("limit", f"patterns look at more than {limit} entries", place)
                return found
            for name in chosen:
                if "\0" not in name and os.path.realpath(name) in self._open:
                    self._refuse("include-loop", f"{name} includes itself", place)
                    continue
                made = self.read(name, place)
                if made is not None:
                    found.append(made)
        return found

    def _chosen(self, written: str, source: SourceText) -> list[str]:
        """The files that a path or pattern names.

        Absolute, beside the file that includes it, or, as Bareos has it, from the folder the
        program was started in.
        """
        if os.path.isabs(written):
            folders = [self.root or "/"]
            written = written.lstrip("/")
        else:
            folders = [os.path.dirname(source.path), ""]
        if is_pattern(written):
            for folder in folders:
                found = files_matching(written, folder, self._pattern_budget)
                if found:
                    return found
            return []
        paths = [os.path.join(folder, written) for folder in folders]
        there = (path for path in paths if "\0" not in path and os.path.exists(path))
        return [next(there, paths[0])]

    def _refuse(self, code: str, message: str, place: Place) -> None:
        source, offset, length = place
        self.diagnostics.add(ERROR, code, message, source, offset, length)

    def enter(self, source: SourceText) -> None:
        """Push `source` on the chain of open includes."""
        self._open.append(os.path.realpath(source.path) if "\0" not in source.path else source.path)

    def leave(self) -> None:
        """Pop the source entered last."""
        self._open.pop()


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()


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
