"""Fields of a form, and what a key does to one: it is taken, or the page says why it is not."""

from __future__ import annotations

import curses
import curses.ascii
from dataclasses import dataclass, replace
from typing import Final

_BACKSPACE: Final = (8, 127, curses.KEY_BACKSPACE)
_MOST_CHARACTERS: Final = 4096
_NOT_UTF_8: Final = (
    "That key was ignored: this terminal does not send UTF-8. Use letters and digits without "
    "accents, or set the terminal to UTF-8."
)
_NOT_TAKEN: Final = "That key was ignored: it is not a letter, digit or sign."
_TOO_LONG: Final = f"That key was ignored: a field has {_MOST_CHARACTERS} characters at most."

# A code of curses or of ASCII; any other character as itself; "" is a key that cannot be read.
Key = int | str


@dataclass(frozen=True, slots=True)
class Field:
    """A line of a form. choices: it is one of these. is_secret: what is typed is not shown."""

    name: str
    label: str
    value: str = ""
    choices: tuple[str, ...] = ()
    is_secret: bool = False
    hint: str = ""


def value_of(field: Field) -> str:
    """What a field says; a blank at an end of a passphrase belongs to it."""
    return field.value if field.is_secret else field.value.strip()


def edited(field: Field, pressed: Key) -> tuple[Field, str]:
    """A field after a key, and why the key was not taken."""
    if field.choices:
        if pressed in (ord(" "), curses.KEY_RIGHT, curses.KEY_LEFT):
            step = -1 if pressed == curses.KEY_LEFT else 1
            at = (field.choices.index(field.value) + step) % len(field.choices)
            return replace(field, value=field.choices[at]), ""
        return field, ""
    if pressed in _BACKSPACE:
        return replace(field, value=field.value[:-1]), ""
    if pressed == curses.ascii.NAK:  # Control-U
        return replace(field, value=""), ""
    if pressed == "":
        return field, _NOT_UTF_8
    typed = chr(pressed) if isinstance(pressed, int) and 0 <= pressed < 128 else pressed
    if isinstance(typed, int):  # an arrow, or a key that was not waited for
        return field, ""
    if not typed.isprintable():
        return field, _NOT_TAKEN
    if len(field.value) >= _MOST_CHARACTERS:
        return field, _TOO_LONG
    return replace(field, value=field.value + typed), ""
