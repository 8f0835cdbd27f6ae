"""Values of the Options block of a FileSet that are neither words of a list nor plain strings.

Each function gives what is wrong with a text, or "" where nothing is.
"""

from __future__ import annotations

import re

_DIGEST_LETTERS = frozenset("ipnugsamcd51")
_SIZE = re.compile(r"[<>]?\s*(?P<low>[^-\s<>]+)(?:\s*-\s*(?P<high>[^-\s<>]+))?\s*\Z")
_INTERVAL = re.compile(r"\{[0-9]{1,5}(?:,[0-9]{0,5})?\}|\{,[0-9]{1,5}\}")
_CLASS = re.compile(
    r"\[:(?:alnum|alpha|blank|cntrl|digit|graph|lower|print|punct|space|upper|xdigit):\]"
)


def letters_problem(name: str, text: str) -> str:
    """Verify and Accurate take letters, each a thing to compare; Accurate knows `A` (all) too."""
    known = _DIGEST_LETTERS | {"A"} if name == "Accurate" else _DIGEST_LETTERS
    odd = next((letter for letter in text if letter not in known), "")
    if not odd:
        return "" if text else f"{name} needs at least one letter"
    shown = "".join(sorted(known))
    return f"{name} does not know the letter {odd!r} of {text!r}; it takes letters of {shown}"


def strip_path_problem(text: str) -> str:
    """Strip Path takes the number of leading folders to drop."""
    return "" if text.isascii() and text.isdecimal() else f"Strip Path takes a number, not {text!r}"


def size_match_problem(text: str) -> str:
    """Size takes `N`, `<N`, `>N` or `A-B`."""
    from strongroom.config.values.measures import size_bytes

    match = _SIZE.match(text)
    bounds = [match["low"], match["high"]] if match else []
    if match and match["high"] and text.lstrip()[:1] in "<>":
        bounds = []
    if not bounds or any(bound is not None and size_bytes(bound) is None for bound in bounds):
        return f"Size takes `N`, `<N`, `>N` or `A-B` with sizes such as 10m, not {text!r}"
    return ""


def regex_problem(pattern: str) -> str:
    """What keeps `pattern` from being a POSIX extended regular expression.

    A walk over the pattern, linear in its length: handing it to a compiler would let a hostile
    configuration choose the cost.
    """
    depth = 0
    position = 0
    while position < len(pattern):
        letter = pattern[position]
        if letter == "\\":
            if position + 1 == len(pattern):
                return "the regular expression ends in a backslash"
            position += 1
        elif letter == "[":
            end, problem = _bracket_end(pattern, position)
            if problem:
                return problem
            position = end
        elif letter == "(":
            depth += 1
        elif letter == ")":
            depth -= 1
            if depth < 0:
                return "the regular expression has a `)` without its `(`"
        elif letter == "{" and position and pattern[position - 1 : position] not in ("(", "|"):
            interval = _INTERVAL.match(pattern, position)
            if interval is None:
                return "the regular expression has a `{` that is not a repeat count"
            position = interval.end() - 1
        position += 1
    return "the regular expression has a `(` without its `)`" if depth else ""


def _bracket_end(pattern: str, start: int) -> tuple[int, str]:
    """Where the bracket expression at `start` ends, or what is wrong with it."""
    position = start + 1
    if pattern[position : position + 1] == "^":
        position += 1
    first = position
    while position < len(pattern):
        letter = pattern[position]
        if letter == "]" and position > first:
            return position, ""
        if pattern.startswith("[:", position):
            name = _CLASS.match(pattern, position)
            if name is None:
                return position, "the regular expression names a character class that there is not"
            position = name.end()
            continue
        following = pattern[position + 1 : position + 3]
        if len(following) == 2 and following[0] == "-" and following[1] not in "][":
            if following[1] < letter:
                return position, f"the range {letter}-{following[1]} runs backwards"
            position += 3
            continue
        position += 1
    return position, "the regular expression has a `[` without its `]`"
