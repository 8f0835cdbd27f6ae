"""Pages on a terminal of 80 by 24 or more: menus, forms, texts. Nothing but ASCII draws them.

A page returns what was chosen, None for Escape. After `idle_seconds` without a key it raises Idle.
"""

from __future__ import annotations

import curses
import curses.ascii
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from strongroom import clock
from strongroom.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LEAST_ROWS: Final = 20
LEAST_COLUMNS: Final = 70
_ESCAPE: Final = 27
_ENTER: Final = (10, 13, curses.KEY_ENTER)
_BACKSPACE: Final = (8, 127, curses.KEY_BACKSPACE)
_POLL_MILLISECONDS: Final = 500
_KEY_MILLISECONDS: Final = 50
_ARROWS: Final = {
    ord("A"): curses.KEY_UP,
    ord("B"): curses.KEY_DOWN,
    ord("C"): curses.KEY_RIGHT,
    ord("D"): curses.KEY_LEFT,
    ord("Z"): curses.KEY_BTAB,
}
_LABEL_COLUMNS: Final = 24
_MOST_CHARACTERS: Final = 4096


class Idle(Exception):  # noqa: N818 - no error: nobody is there
    """Nobody has touched a key for long."""


@dataclass(frozen=True, slots=True)
class Field:
    """A line of a form. choices: it is one of these. is_secret: what is typed is not shown."""

    name: str
    label: str
    value: str = ""
    choices: tuple[str, ...] = ()
    is_secret: bool = False
    hint: str = ""


class Screen:
    """See the module. idle_seconds: 0 waits for ever."""

    def __init__(self, window: curses.window, idle_seconds: float = 0) -> None:
        self._window = window
        self.idle_seconds = idle_seconds
        window.keypad(True)
        window.timeout(_POLL_MILLISECONDS)

    def menu(
        self, title: str, items: Sequence[tuple[str, str]], head: Sequence[str] = ()
    ) -> str | None:
        """Let somebody choose; the key of the item. items: (key, text); a key is one character."""
        at = 0
        keys = [key for key, _ in items]
        while True:
            lines = [*head, *([""] if head else [])]
            first = len(lines)
            lines += [f" {key}  {text}" for key, text in items]
            self._page(title, lines, "Arrows or the key choose, Enter does it, Escape goes back",
                       marked=first + at, top=max(0, first + at - self._room + 1))  # fmt: skip
            pressed = self.key()
            if pressed == curses.KEY_UP:
                at = (at - 1) % len(items)
            elif pressed in (curses.KEY_DOWN, 9):
                at = (at + 1) % len(items)
            elif pressed in _ENTER:
                return keys[at]
            elif pressed == _ESCAPE:
                return None
            elif 0 < pressed < 128 and chr(pressed) in keys:
                return chr(pressed)

    def form(
        self, title: str, fields: Sequence[Field], faults: Sequence[str] = ()
    ) -> dict[str, str] | None:
        """Let somebody fill in; name -> value. faults: what was wrong the last time."""
        filled = list(fields)
        at = 0
        while True:
            self._draw_form(title, filled, at, faults)
            pressed = self.key()
            if pressed == _ESCAPE:
                return None
            if pressed in (curses.KEY_UP, curses.KEY_BTAB):
                at = (at - 1) % (len(filled) + 1)
            elif pressed in (curses.KEY_DOWN, 9):
                at = (at + 1) % (len(filled) + 1)
            elif pressed in _ENTER:
                if at == len(filled):
                    return {one.name: one.value.strip() for one in filled}
                at += 1
            elif at < len(filled):
                filled[at] = _edited(filled[at], pressed)

    def text(self, title: str, lines: Sequence[str]) -> None:
        """Show a text; Enter or Escape ends it."""
        top = 0
        while True:
            self._page(title, lines, "Arrows scroll, Enter goes back", top=top)
            pressed = self.key()
            last = max(0, len(lines) - self._room)
            if pressed in (*_ENTER, _ESCAPE, ord("q")):
                return
            steps = {
                curses.KEY_DOWN: 1,
                curses.KEY_UP: -1,
                curses.KEY_NPAGE: self._room,
                curses.KEY_PPAGE: -self._room,
                ord(" "): self._room,
            }
            top = min(max(0, top + steps.get(pressed, 0)), last)

    def ask(self, title: str, lines: Sequence[str], field: Field) -> str | None:
        """Ask for one text below an explanation."""
        value = field
        while True:
            shown = "*" * len(value.value) if field.is_secret else value.value
            label = f"{field.label}: {shown}"
            room = self._window.getmaxyx()[1] - 3
            self._page(title, [*lines, "", label[-room:] + "_"], "Enter goes on, Escape goes back")
            pressed = self.key()
            if pressed == _ESCAPE:
                return None
            if pressed in _ENTER:
                return value.value.strip()
            value = _edited(value, pressed)

    def confirm(self, title: str, lines: Sequence[str]) -> bool:
        """Yes or no; no is chosen first."""
        return self.menu(title, [("n", "No, go back"), ("y", "Yes")], lines) == "y"

    def log(self, title: str) -> Callable[[str], None]:
        """A page that grows: each call adds a line at once."""
        lines: list[str] = []

        def say(text: str) -> None:
            lines.append(printable(text))
            self._page(title, lines, "Please wait", top=max(0, len(lines) - self._room))

        say("")
        return say

    def refresh_page(self, title: str, lines: Sequence[str], footer: str) -> None:
        """Draw a page that waits for no key."""
        self._page(title, lines, footer)

    def key(self, patience_seconds: float = 0) -> int:
        """The next key; -1 after `patience_seconds`, where these are given. Raises Idle."""
        begun = clock.elapsed_seconds()
        while True:
            pressed = self._window.getch()
            if pressed == curses.KEY_RESIZE:
                self._window.clear()
                return -1
            if pressed == _ESCAPE:
                return self._rest_of_key()
            if pressed != -1:
                return pressed
            waited = clock.elapsed_seconds() - begun
            if patience_seconds and waited >= patience_seconds:
                return -1
            if self.idle_seconds and waited >= self.idle_seconds:
                raise Idle

    def _rest_of_key(self) -> int:
        """Escape, or an arrow in either of the ways that terminals send it, whatever TERM says."""
        self._window.timeout(_KEY_MILLISECONDS)
        try:
            if self._window.getch() not in (ord("["), ord("O")):
                return _ESCAPE
            return _ARROWS.get(self._window.getch(), -1)
        finally:
            self._window.timeout(_POLL_MILLISECONDS)

    @property
    def _room(self) -> int:
        """Lines between head and foot."""
        return max(1, self._window.getmaxyx()[0] - 4)

    def _page(
        self, title: str, lines: Sequence[str], footer: str, *, marked: int = -1, top: int = 0
    ) -> None:
        window = self._window
        rows, columns = window.getmaxyx()
        window.erase()
        self._put(0, f" {title}".ljust(columns - 1), curses.A_REVERSE)
        for row, line in enumerate(lines[top : top + self._room]):
            style = curses.A_REVERSE if top + row == marked else curses.A_NORMAL
            self._put(row + 2, f" {line}", style)
        more = "  (more below)" if top + self._room < len(lines) else ""
        self._put(rows - 1, f" {footer}{more}", curses.A_BOLD)
        window.move(rows - 1, 0)
        window.refresh()

    def _put(self, row: int, text: str, style: int) -> None:
        rows, columns = self._window.getmaxyx()
        if row < rows:
            self._window.addnstr(row, 0, text, columns - 1, style)

    def _draw_form(
        self, title: str, filled: Sequence[Field], at: int, faults: Sequence[str]
    ) -> None:
        width = self._window.getmaxyx()[1] - _LABEL_COLUMNS - 6
        lines = []
        for number, one in enumerate(filled):
            value = "*" * len(one.value) if one.is_secret else printable(one.value)
            if one.choices:
                value = f"< {one.value} >"
            elif number == at:
                value += "_"
            lines.append(f"{one.label:<{_LABEL_COLUMNS}}{value[-width:]}")
        lines += ["", "[ Apply ]"]
        marked = at if at < len(filled) else len(filled) + 1
        hint = filled[at].hint if at < len(filled) else "Enter applies"
        if at < len(filled) and filled[at].choices:
            hint = f"Space chooses. {hint}"
        lines += [
            "",
            hint,
            "",
            *(piece for fault in faults for piece in _wrapped(fault, width + 20)),
        ]
        footer = "Tab and arrows move, Enter goes on, Escape goes back"
        self._page(title, lines, footer, marked=marked, top=max(0, marked - self._room + 1))


def _edited(field: Field, pressed: int) -> Field:
    """A field after a key."""
    if field.choices:
        if pressed in (ord(" "), curses.KEY_RIGHT, curses.KEY_LEFT):
            step = -1 if pressed == curses.KEY_LEFT else 1
            at = (field.choices.index(field.value) + step) % len(field.choices)
            return replace(field, value=field.choices[at])
        return field
    if pressed in _BACKSPACE:
        return replace(field, value=field.value[:-1])
    if pressed == curses.ascii.NAK:  # Control-U
        return replace(field, value="")
    if 32 <= pressed < 127 and len(field.value) < _MOST_CHARACTERS:
        return replace(field, value=field.value + chr(pressed))
    return field


def _wrapped(text: str, width: int) -> list[str]:
    import textwrap

    return textwrap.wrap(printable(text), max(20, width)) or [""]
