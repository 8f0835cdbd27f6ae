"""Findings with their place and a suggestion, collected over all files and reported once.

An error means that the meaning is uncertain, a warning that something is ignored, a note that the
text is read differently than it looks (blanks dropped, the rest of a line ignored). The collector
is bounded: past its limit it only counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from strongroom.config.language.sources import SourceText

ERROR, WARNING, NOTE = "error", "warning", "note"
_SHOWN_LINE_COLUMNS = 160
_MESSAGE_LENGTH = 400
_SUGGESTION_BUDGET = 30_000  # words compared, over all questions


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. `code` is stable and greppable; `suggestion` completes "did you mean"."""

    severity: str
    code: str
    message: str
    source: SourceText
    offset: int
    length: int = 1
    suggestion: str = ""

    @property
    def place(self) -> tuple[str, int, int]:
        """File, line and column."""
        return (self.source.path, *self.source.position(self.offset))

    def head(self) -> str:
        """`file:line:column: severity: message; did you mean X?` on one line."""
        return f"{self._shown_place()} {self.severity}: {self._summary()}"

    def _shown_place(self) -> str:
        path, line, column = self.place
        # Of a folder, or a file without a text, there is no line to show.
        return (
            f"{_printable(path)}:{line}:{column}:" if self.source.text else f"{_printable(path)}:"
        )

    def _summary(self) -> str:
        # The content of a file must not drive the terminal.
        hint = f"; did you mean {self.suggestion}?" if self.suggestion else ""
        return _printable(self.message + hint)

    def render(self) -> str:
        """The head, the source line, and a caret under the place."""
        return "".join(text for _, text in self.pieces())

    def pieces(self) -> list[tuple[str, str]]:
        """The same in pieces, each with its style: "", "bold", "mark", or the severity."""
        _, line, column = self.place
        parts = [
            ("bold", self._shown_place()),
            ("", " "),
            (self.severity, f"{self.severity}:"),
            ("", " "),
            ("bold", self._summary()),
        ]
        if not self.source.text:
            return parts
        text, caret_column = _window(self.source.line_text(line), column)
        width = max(1, min(self.length, len(text) - caret_column + 1))
        blank = "".join("\t" if letter == "\t" else " " for letter in text[: caret_column - 1])
        return [
            *parts,
            ("", f"\n    {_printable(text)}\n    {blank}"),
            ("mark", "^" + "~" * (width - 1)),
        ]

    def as_json(self) -> dict[str, object]:
        """The finding as plain data."""
        path, line, column = self.place
        entry: dict[str, object] = {
            "file": path,
            "line": line,
            "column": column,
            "severity": self.severity,
            "code": self.code,
            "message": self.message,
        }
        if self.suggestion:
            entry["suggestion"] = self.suggestion
        return entry


class Diagnostics:
    """Collects findings; `werror` turns warnings into errors as they come."""

    def __init__(self, *, werror: bool = False, limit: int = 100_000) -> None:
        self.werror = werror
        self.limit = limit
        self.entries: list[Diagnostic] = []
        self.dropped = 0
        self._error_count = 0
        self._suggested: dict[tuple[str, int], str] = {}
        self._suggestion_budget = _SUGGESTION_BUDGET

    def add(
        self,
        severity: str,
        code: str,
        message: str,
        source: SourceText,
        offset: int,
        length: int = 1,
        suggestion: str = "",
    ) -> None:
        """Record a finding at `offset` of `source`."""
        if severity == WARNING and self.werror:
            severity = ERROR
        if severity == ERROR:
            self._error_count += 1
        if len(self.entries) >= self.limit:
            self.dropped += 1
            return
        offset = min(offset, len(source.text))
        if len(message) > _MESSAGE_LENGTH:
            message = message[: _MESSAGE_LENGTH - 3] + "..."
        self.entries.append(Diagnostic(severity, code, message, source, offset, length, suggestion))

    def suggest(self, word: str, known: Iterable[str], family: object) -> str:
        """The entry of `known` nearest to `word`, or ""; remembered by `word` and `family`.

        This is the only step whose cost a hostile file could raise, so the words compared are
        counted and past a limit nothing is suggested.
        """
        key = (word[:64].lower(), hash(family))
        if key not in self._suggested:
            if self._suggestion_budget < 0:
                return ""
            lowered = {name.lower().replace(" ", ""): name for name in known}
            self._suggestion_budget -= len(lowered)
            near = get_close_matches(
                key[0].replace(" ", "").replace("_", ""), lowered, n=1, cutoff=0.7
            )
            self._suggested[key] = lowered[near[0]] if near else ""
        return self._suggested[key]

    @property
    def has_errors(self) -> bool:
        """Whether any error was found, reported or dropped."""
        return self._error_count > 0

    def sorted(self, severity: str | None = None) -> list[Diagnostic]:
        """The findings (of one severity) by file and place, each once."""
        chosen = {
            (entry.source.path, entry.offset, entry.severity, entry.message): entry
            for entry in self.entries
            if severity is None or entry.severity == severity
        }
        return [chosen[key] for key in sorted(chosen)]


def _window(text: str, column: int) -> tuple[str, int]:
    """The part of a long line around `column`, and the column within it."""
    if len(text) <= _SHOWN_LINE_COLUMNS:
        return text, column
    start = max(0, column - _SHOWN_LINE_COLUMNS // 2)
    return text[start : start + _SHOWN_LINE_COLUMNS], column - start


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() or letter == "\t" else "?" for letter in text)
