r"""Translate glob patterns over bytes into regular expressions.

A glob matches one name: `*` any run of characters, `?` one character, `[a-z]`, `[!a-z]` and
`[[:digit:]]` one of a set; `\` quotes the next character. A character is a UTF-8 sequence if the
bytes are valid UTF-8, else one byte. Translations match in linear time: a run ends at its first
match, which for globs is never wrong.

Patterns of a FileSet match whole paths and are globs as in fnmatch(3): there `*`, `?` and sets
match a slash like any other character, and a `[` without its `]` matches itself.
"""

from __future__ import annotations

import os
import re
from typing import Final

from strongroom.base.errors import UsageError

# A character of several bytes is never split; a stray byte counts as a character.
_ANY_CHARACTER: Final = rb"(?>[\xc2-\xf4][\x80-\xbf]{1,3}|[^/])"
_ANY_WITH_SLASH: Final = rb"(?>[\xc2-\xf4][\x80-\xbf]{1,3}|[\x00-\xff])"
_SPECIAL: Final = re.compile(rb"[*?\[\\]")
_CLASS_NAMES: Final = {
    b"alnum": rb"0-9A-Za-z",
    b"alpha": rb"A-Za-z",
    b"blank": rb" \t",
    b"cntrl": rb"\x00-\x1f\x7f",
    b"digit": rb"0-9",
    b"graph": rb"!-~",
    b"lower": rb"a-z",
    b"print": rb" -~",
    b"punct": rb"!-/:-@\[-`{-~",
    b"space": rb" \t-\r",
    b"upper": rb"A-Z",
    b"xdigit": rb"0-9A-Fa-f",
}


def is_literal(glob: bytes) -> bool:
    """Whether the glob matches nothing but itself."""
    return _SPECIAL.search(glob) is None


def quoted(path: bytes) -> bytes:
    """A glob that matches the path alone."""
    return _SPECIAL.sub(rb"\\\g<0>", path)


def resolved_glob(glob: bytes) -> bytes:
    """The glob with links above what it names resolved, as far as it is literal; else itself.

    A backup has paths without links on the way, and people write them as they know them.
    """
    mark, text = (glob[:1], glob[1:]) if glob.startswith(b"!") else (b"", glob)
    special = _SPECIAL.search(text)
    head = text[: special.start()] if special else text.rstrip(b"/")
    above = head.rpartition(b"/")[0]
    if not text.startswith(b"/") or not above or b"\0" in above:
        return glob
    real = os.path.realpath(above)
    if real == os.path.normpath(above):
        return glob
    return mark + quoted(real).rstrip(b"/") + text[len(above) :]


def translate_glob(glob: bytes) -> bytes:
    """A regular expression for `fullmatch` with the names that `glob` matches.

    Raises UsageError for a set that is not closed, or a range of other than ASCII characters.
    """
    return _translate(glob, _ANY_CHARACTER, b"[^/]", forgives=False)


def translate_path_glob(glob: bytes, *, crosses_slashes: bool) -> bytes:
    """The same for whole paths, as fnmatch(3); a slash is matched by itself, or by anything."""
    if crosses_slashes:
        return _translate(glob, _ANY_WITH_SLASH, rb"[\x00-\xff]", forgives=True)
    return _translate(glob, _ANY_CHARACTER, b"[^/]", forgives=True)


def _translate(glob: bytes, character: bytes, of_run: bytes, *, forgives: bool) -> bytes:
    pieces: list[bytes] = [b""]
    position = 0
    while position < len(glob):
        letter = glob[position : position + 1]
        if letter == b"*":
            while glob[position : position + 1] == b"*":
                position += 1
            pieces.append(b"")
            continue
        if letter == b"?":
            pieces[-1] += character
        elif letter == b"[":
            try:
                translated, position = _translate_set(glob, position, character)
            except UsageError:
                if not forgives:
                    raise
                translated = re.escape(letter)
                position += 1
            pieces[-1] += translated
            continue
        elif letter == b"\\" and position + 1 < len(glob):
            position += 1
            pieces[-1] += re.escape(glob[position : position + 1])
        else:
            pieces[-1] += re.escape(letter)
        position += 1
    if len(pieces) == 1:
        return pieces[0]
    first, *middle, last = pieces
    settled = b"".join([b"(?>" + of_run + b"*?" + piece + b")" for piece in middle])
    return first + settled + of_run + b"*" + last


def fold_case(text: bytes) -> bytes:
    """The case-folded text, as UTF-8 if it is valid UTF-8."""
    if text.isascii():
        return text.lower()
    return text.decode("utf-8", "surrogateescape").casefold().encode("utf-8", "surrogateescape")


def _translate_set(glob: bytes, start: int, character: bytes) -> tuple[bytes, int]:
    """The set that opens at `start`, and the position after it."""
    position = start + 1
    negated = glob[position : position + 1] in (b"!", b"^")
    position += negated
    first = position
    members: list[bytes] = []
    wide: list[bytes] = []
    while True:
        letter, following = _member(glob, position)
        if not letter:
            raise UsageError(f"pattern {_shown(glob)}: the set opened by '[' is not closed by ']'")
        if letter == b"]" and position > first:
            break
        if letter == b"[" and glob[position + 1 : position + 2] == b":":
            end = glob.find(b":]", position + 2)
            name = glob[position + 2 : end]
            if end < 0 or name not in _CLASS_NAMES:
                raise UsageError(f"pattern {_shown(glob)}: no such class of characters")
            members.append(_CLASS_NAMES[name])
            position = end + 2
            continue
        position = following
        last, after = _member(glob, position + 1)
        if glob[position : position + 1] == b"-" and last not in (b"", b"]"):
            if len(letter) > 1 or len(last) > 1 or last < letter:
                raise UsageError(
                    f"pattern {_shown(glob)}: a range of a set needs two ASCII characters in order"
                )
            members.append(re.escape(letter) + b"-" + re.escape(last))
            position = after
        elif len(letter) > 1:
            wide.append(letter)
        else:
            members.append(re.escape(letter))
    choices = [re.escape(character) for character in wide]
    if members:
        choices.append(b"[" + b"".join(members) + b"]")
    anything = b"(?:" + b"|".join(choices) + b")"
    if negated:
        return b"(?!" + anything + b")" + character, position + 1
    if character != _ANY_WITH_SLASH and re.fullmatch(anything, b"/"):
        anything = b"(?!/)" + anything
    return anything, position + 1


def _member(glob: bytes, position: int) -> tuple[bytes, int]:
    """The character at `position`, with its escape removed, and the position after it."""
    if glob[position : position + 1] == b"\\" and position + 1 < len(glob):
        position += 1
    lead = glob[position : position + 1]
    size = 1
    if lead >= b"\xc2":
        size = 2 if lead < b"\xe0" else 3 if lead < b"\xf0" else 4
        try:
            glob[position : position + size].decode()
        except UnicodeDecodeError:
            size = 1
    return glob[position : position + size], position + size


def _shown(glob: bytes) -> str:
    return repr(glob.decode("utf-8", "backslashreplace"))
