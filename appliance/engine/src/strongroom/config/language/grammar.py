"""The grammar of a statement's value, in pyparsing, over the lexer's tokens.

The lexer gives every token of a value a kind, one letter each, so a value is a word over a small
alphabet (`"a", "b" junk` is `q,qw`) and pyparsing parses that word. What comes out are spans of
token numbers: which tokens make one string, which strings make a list, where ignored text begins.
A configuration has many values and few such words, so each word is parsed once and remembered;
that is what makes a general parser fast enough for ten thousand clients.

Kinds: q quoted string, w word of letters, n number, x any other word, and = , { as themselves.
A form says what kind of value a directive takes; it is the first letter of the word parsed.

Blanks between words of letters do not count in this language: `My Pool` is the one string MyPool,
and `My Pool 2` is MyPool2, because the first word that is not all letters ends the string.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache

from pyparsing import (
    Char,
    Group,
    Literal,
    Opt,
    ParseException,
    ParserElement,
    ParseResults,
    Regex,
)

TEXT = "t"  # one string; a bare number is not one
ITEM = "o"  # one word as it stands, or quoted: nothing is joined
INTEGER = "i"  # a number or a string that holds one
NUMBER = "n"  # a bare number only
MEASURE = "m"  # words and numbers, joined: sizes, speeds, durations
LIST = "l"  # strings with commas between
BARE = "a"  # one string that must not be quoted
NAMES = "p"  # strings with blanks or commas between
TYPES = "c"  # message types
FACILITY = "y"  # message types, or `facility = types`
DESTINATIONS = "d"  # `address, address = types`
FILE = "f"  # `path = types`

# Form as the table of types names it.
FORMS = {
    "text": TEXT,
    "item": ITEM,
    "integer": INTEGER,
    "number": NUMBER,
    "measure": MEASURE,
    "list": LIST,
    "bare": BARE,
    "names": NAMES,
}
EXPECTED = {
    TEXT: "a name or a string (a bare number must be quoted)",
    ITEM: "a word or a quoted string",
    INTEGER: "a number",
    NUMBER: "a number without quotes",
    MEASURE: "a number with an optional unit, without quotes",
    LIST: "a list of names or strings with commas between",
    BARE: "a word without quotes",
    NAMES: "a list of names",
    TYPES: "message types with commas between",
    FACILITY: "message types, or `facility = types`",
    DESTINATIONS: "`address, address = types`",
    FILE: "`path = types`",
}

_REMEMBERED_TOKENS = 64  # longer values are rarely alike
# Forms in which a comma promises another part.
_COMMA_FORMS = frozenset((LIST, TYPES, FACILITY, DESTINATIONS, FILE))
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Shape:
    """Where the parts of a value are, in token numbers: groups of spans, and where junk begins."""

    groups: tuple[tuple[Span, ...], ...]
    junk: int | None


@dataclass(frozen=True, slots=True)
class Misfit:
    """That the tokens do not fit the form: the number of the first that does not."""

    token: int


def _span(element: ParserElement) -> ParserElement:
    # Token 0 is at position 1 of the word: the form's letter comes first.
    def locate(word: str, location: int, parts: ParseResults) -> list[Span]:
        return [(location - 1, location - 1 + len("".join(parts)))]

    return element.copy().set_parse_action(locate)


def _strings(string: str, whole: str) -> ParserElement:
    """Many strings as one terminal: `whole` fits them all, `string` one of them.

    Lists may be long, and a regular expression is fast.
    """

    def locate(word: str, location: int, parts: ParseResults) -> ParseResults:
        base = location - 1
        spans = [match.span() for match in re.finditer(string, parts[0])]
        return ParseResults([ParseResults([(base + a, base + b) for a, b in spans])])

    return Regex(whole).set_parse_action(locate)


@cache
def _statement() -> ParserElement:
    quoted = Regex("q+")
    identifier = Regex("w+[xn]?")
    string = quoted | identifier | Char("x")
    text = _span(string)
    item = _span(quoted | Char("wnx"))
    integer = _span(quoted | Char("n") | identifier | Char("x"))
    measure = _span(Regex("[wnx]+"))
    string_pattern = "q+|w+[xn]?|x"
    texts = _strings(string_pattern, f"(?:{string_pattern})(?:,(?:{string_pattern}))*")
    junk = _span(Regex(".+"))
    types = texts
    forms = (
        Literal(TEXT).suppress() + Group(text),
        Literal(ITEM).suppress() + Group(item),
        Literal(INTEGER).suppress() + Group(integer),
        Literal(NUMBER).suppress() + Group(_span(Char("n"))),
        Literal(MEASURE).suppress() + Group(measure),
        Literal(LIST).suppress() + texts,
        Literal(BARE).suppress() + Group(_span(identifier | Char("xn"))),
        Literal(NAMES).suppress() + _strings("[qwnx]", "[qwnx,]*[qwnx][qwnx,]*"),
        Literal(TYPES).suppress() + types,
        Literal(FACILITY).suppress() + Opt(Group(text) + Char("=").suppress()) + types,
        Literal(DESTINATIONS).suppress() + texts + Char("=").suppress() + types,
        Literal(FILE).suppress() + Group(text) + Char("=").suppress() + types,
    )
    form = forms[0]
    for other in forms[1:]:
        form = form | other
    return form + Opt(junk)("junk")


def shape_of(form: str, kinds: str) -> Shape | Misfit:
    """Parse the word `kinds` as a value of `form`."""
    if len(kinds) > _REMEMBERED_TOKENS:
        return _parsed(form, kinds)
    return _remembered(form, kinds)


@lru_cache(maxsize=8192)
def _remembered(form: str, kinds: str) -> Shape | Misfit:
    return _parsed(form, kinds)


def _parsed(form: str, kinds: str) -> Shape | Misfit:
    try:
        result = _statement().parse_string(form + kinds, parse_all=True)
    except ParseException as problem:
        return Misfit(max(0, problem.loc - 1))
    junk: Span | None = result.get("junk")  # type: ignore[no-untyped-call]
    if junk and form in _COMMA_FORMS and kinds[junk[0]] == ",":
        return Misfit(junk[0] + 1)
    groups = tuple(tuple(group) for group in result if isinstance(group, ParseResults))
    return Shape(groups, junk[0] if junk else None)
