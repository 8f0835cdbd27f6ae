"""Pages on a terminal of 80 by 24 or more: menus, forms, texts. Nothing but ASCII draws them.

A page returns what was chosen, None for Escape. After `idle_seconds` without a key it raises Idle.
What was typed before a page was shown is discarded: it was meant for another one.
"""

from __future__ import annotations

import curses
import re
from collections.abc import Callable, Sequence
from typing import Final

from strongroom.base import clock
from strongroom.base.printable import printable
from strongroom_appliance.console.fields import Field, Key, edited, value_of

LEAST_ROWS: Final = 20
LEAST_COLUMNS: Final = 70
_ESCAPE: Final = 27
_ENTER: Final = (10, 13, curses.KEY_ENTER)
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
_TEXT_COLUMNS: Final = 76
# The screen of the machine, whose fonts have no half blocks.
_LINUX: Final = b"linux"
# As a full block is drawn: fonts of consoles and serial terminals lack it.
_BLOCK: Final = "\u2588"


class Idle(Exception):  # noqa: N818 - no error: no one is there
    """No one has touched a key for long."""


class Screen:
    """The terminal of the menu. idle_seconds: 0 waits forever."""

    def __init__(self, window: curses.window, idle_seconds: float = 0) -> None:
        self._window = window
        self.idle_seconds = idle_seconds
        window.keypad(True)
        window.timeout(_POLL_MILLISECONDS)

    def menu(
        self, title: str, items: Sequence[tuple[str, str]], head: Sequence[str] = ()
    ) -> str | None:
        """Let somebody choose; the key of the item.

        items: (key, text); a key is one character, "" for arrows only. A text of several lines is
        chosen as a whole.
        """
        at = 0
        keys = [key for key, _ in items]
        curses.flushinp()
        while True:
            lines = [*head, *([""] if head else [])]
            places = []
            for key, text in items:
                first, *rest = text.split("\n")
                places.append(range(len(lines), len(lines) + 1 + len(rest)))
                lines += [f" {key or ' '}  {first}", *(f"    {line}" for line in rest)]
            self._page(title, lines, "Arrows or the key choose, Enter does it, Escape goes back",
                       marked=places[at], top=max(0, places[at].stop - self._room))  # fmt: skip
            pressed = self.key()
            if pressed == curses.KEY_UP:
                at = (at - 1) % len(items)
            elif pressed in (curses.KEY_DOWN, 9):
                at = (at + 1) % len(items)
            elif pressed in _ENTER:
                return keys[at] or str(at)
            elif pressed == _ESCAPE:
                return None
            elif isinstance(pressed, int) and 0 < pressed < 128 and chr(pressed) in keys:
                return chr(pressed)

    def form(
        self,
        title: str,
        fields: Sequence[Field],
        faults: Sequence[str] = (),
        head: Sequence[str] = (),
    ) -> dict[str, str] | None:
        """Let somebody fill in; name -> value. faults: what was wrong the last time."""
        filled = list(fields)
        at = 0
        curses.flushinp()
        while True:
            self._draw_form(title, filled, at, faults, head)
            pressed = self.key()
            if pressed == _ESCAPE:
                return None
            if pressed in (curses.KEY_UP, curses.KEY_BTAB):
                at = (at - 1) % (len(filled) + 1)
            elif pressed in (curses.KEY_DOWN, 9):
                at = (at + 1) % (len(filled) + 1)
            elif pressed in _ENTER:
                if at == len(filled):
                    return {one.name: value_of(one) for one in filled}
                at += 1
            elif at < len(filled):
                filled[at], fault = edited(filled[at], pressed)
                if fault:
                    faults = [fault]

    def text(self, title: str, lines: Sequence[str]) -> None:
        """Show a text; Enter or Escape ends it."""
        top = 0
        curses.flushinp()
        lines = _fitted(lines, self._window.getmaxyx()[1] - 3)
        while True:
            self._page(title, lines, "Arrows scroll, Enter goes back", top=top)
            pressed = self.key()
            last = max(0, len(lines) - self._room)
            if pressed in (*_ENTER, _ESCAPE, ord("q")):
                return
            steps: dict[Key, int] = {
                curses.KEY_DOWN: 1,
                curses.KEY_UP: -1,
                curses.KEY_NPAGE: self._room,
                curses.KEY_PPAGE: -self._room,
                ord(" "): self._room,
            }
            top = min(max(0, top + steps.get(pressed, 0)), last)

    def secret(self, title: str, lines: Sequence[str], secret: str) -> None:
        """Show a text, and below it a secret as a QR code that this terminal can show."""
        from strongroom_appliance.paper import qr_lines

        code = qr_lines(secret)
        if len(code) > self._room and curses.termname() != _LINUX:
            code = qr_lines(secret, halves=True)
        if len(code) > self._room:
            note = (
                f"The QR code has {len(code)} rows, and here is room for {self._room}: "
                "`sudo strongroom-appliance console` over ssh, in a larger window, shows all of it."
            )
            lines = [*lines, *_wrapped(note, _TEXT_COLUMNS), ""]
        self.text(title, [*lines, *code])

    def ask(self, title: str, lines: Sequence[str], field: Field) -> str | None:
        """Ask for one text below an explanation."""
        value = field
        fault = ""
        curses.flushinp()
        while True:
            shown = "*" * len(value.value) if field.is_secret else value.value
            label = f"{field.label}: {shown}"
            room = self._window.getmaxyx()[1] - 3
            below = ["", *_wrapped(fault, room)] if fault else []
            page = [*lines, "", label[-room:] + "_", *below]
            self._page(title, page, "Enter: continue, Escape: back")
            pressed = self.key()
            if pressed == _ESCAPE:
                return None
            if pressed in _ENTER:
                return value_of(value)
            value, fault = edited(value, pressed)

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

    def key(self, patience_seconds: float = 0) -> Key:
        """The next key; -1 after `patience_seconds`, where these are given. Raises Idle."""
        begun = clock.elapsed_seconds()
        while True:
            pressed = self._window.getch()
            if pressed == curses.KEY_RESIZE:
                self._window.clear()
                return -1
            if pressed == _ESCAPE:
                return self._rest_of_key()
            if 0x80 <= pressed <= 0xFF:
                return self._character(pressed)
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

    def _character(self, first: int) -> str:
        """A character of several bytes in UTF-8; "" if it is none."""
        data = bytes([first])
        length = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
        self._window.timeout(_KEY_MILLISECONDS)
        try:
            while len(data) < length:
                pressed = self._window.getch()
                if not 0x80 <= pressed < 0xC0:
                    if pressed != -1:
                        curses.ungetch(pressed)
                    break
                data += bytes([pressed])
            return data.decode("utf-8")
        except UnicodeDecodeError:
            return ""
        finally:
            self._window.timeout(_POLL_MILLISECONDS)

    @property
    def _room(self) -> int:
        """Lines between head and foot."""
        return max(1, self._window.getmaxyx()[0] - 4)

    def _page(
        self,
        title: str,
        lines: Sequence[str],
        footer: str,
        *,
        marked: range = range(0),
        top: int = 0,
    ) -> None:
        window = self._window
        rows, columns = window.getmaxyx()
        window.erase()
        self._put(0, f" {title}".ljust(columns - 1), curses.A_REVERSE)
        for row, line in enumerate(lines[top : top + self._room]):
            style = curses.A_REVERSE if top + row in marked else curses.A_NORMAL
            self._put(row + 2, f" {line}", style)
        more = "  (more below)" if top + self._room < len(lines) else ""
        self._put(rows - 1, f" {footer}{more}", curses.A_BOLD)
        window.move(rows - 1, 0)
        if curses.termname() == _LINUX:
            # The kernel writes its errors over it.
            window.redrawwin()
        window.refresh()

    def _put(self, row: int, text: str, style: int) -> None:
        rows, columns = self._window.getmaxyx()
        if row >= rows:
            return
        self._window.addnstr(row, 0, text.replace(_BLOCK, " "), columns - 1, style)
        for piece in re.finditer(f"{_BLOCK}+", text[: columns - 1]):
            self._window.chgat(row, piece.start(), len(piece[0]), style | curses.A_REVERSE)

    def _draw_form(
        self,
        title: str,
        filled: Sequence[Field],
        at: int,
        faults: Sequence[str],
        head: Sequence[str],
    ) -> None:
        width = self._window.getmaxyx()[1] - _LABEL_COLUMNS - 6
        lines = [*head, *([""] if head else [])]
        first = len(lines)
        for number, one in enumerate(filled):
            value = "*" * len(one.value) if one.is_secret else printable(one.value)
            if one.choices:
                value = f"< {one.value} >"
            elif number == at:
                value += "_"
            lines.append(f"{one.label:<{_LABEL_COLUMNS}}{value[-width:]}")
        lines += ["", "[ Apply ]"]
        marked = first + (at if at < len(filled) else len(filled) + 1)
        hint = filled[at].hint if at < len(filled) else "Enter applies"
        if at < len(filled) and filled[at].choices:
            hint = f"Space chooses. {hint}"
        lines += [
            "",
            *_wrapped(hint, width + 20),
            "",
            *(piece for fault in faults for piece in _wrapped(fault, width + 20)),
        ]
        footer = "Tab and arrows move, Enter: continue, Escape: back"
        top = max(0, marked - self._room + 1)
        self._page(title, lines, footer, marked=range(marked, marked + 1), top=top)


def _fitted(lines: Sequence[str], width: int) -> list[str]:
    """The same, but none is cut at the edge; a QR code stays as it is."""
    return [
        piece
        for line in lines
        for piece in ([line] if len(line) <= width or _BLOCK in line else _wrapped(line, width))
    ]


def _wrapped(text: str, width: int) -> list[str]:
    import textwrap

    return textwrap.wrap(printable(text), max(20, width), break_on_hyphens=False) or [""]
