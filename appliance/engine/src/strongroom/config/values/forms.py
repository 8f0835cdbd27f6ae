"""What a converter is handed, and what it gives.

The typed values that are more than a string or a number are here as well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

from pyparsing import CaselessKeyword, Group, Literal, Opt, ParseBaseException, ParserElement, Regex

from strongroom.config.language import grammar
from strongroom.config.language.diagnostics import Diagnostics
from strongroom.config.language.grammar import Shape
from strongroom.config.language.lexer import Value
from strongroom.config.language.sources import SourceText
from strongroom.config.table.dialects import Dialect
from strongroom.config.table.schema import DirectiveSpec
from strongroom.config.table.types import MESSAGE_TYPES

_LONGEST_ADDRESSES = 100_000
_EVERY_MESSAGE_TYPE = frozenset(MESSAGE_TYPES) - {"all"}
_MESSAGE_FORMS = {
    "syslog": grammar.FACILITY,
    "file": grammar.FILE,
    "append": grammar.FILE,
    "mail": grammar.DESTINATIONS,
    "mailonerror": grammar.DESTINATIONS,
    "mailonsuccess": grammar.DESTINATIONS,
    "operator": grammar.DESTINATIONS,
    "director": grammar.DESTINATIONS,
}


@dataclass(frozen=True, slots=True)
class Password:
    """A secret, as MD5 in hex (what Bareos keeps) or in clear where the protocol needs it so."""

    md5_hex: str | None
    clear: str | None

    def __repr__(self) -> str:
        return "Password(***)"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a daemon listens; None means every address or the default port."""

    family: str  # ip, ipv4 or ipv6
    host: str | None
    port: str | None


@dataclass(frozen=True, slots=True)
class Destination:
    """One destination: `kind` is the directive (mail, append, console ...).

    `addresses` are who or where (mail addresses, a path, a director, a syslog facility); `types`
    the types as written, a `!` taking one away. `command` and `timestamp_format` are those that
    was before it in the resource: an earlier destination is not touched by a later command.
    """

    kind: str
    addresses: tuple[str, ...]
    types: tuple[str, ...]
    command: str | None = None
    timestamp_format: str | None = None

    @property
    def accepted_types(self) -> frozenset[str]:
        """The types that go there, `all` and `!` worked out."""
        accepted: set[str] = set()
        for word in self.types:
            name = word.removeprefix("!").lower()
            names = _EVERY_MESSAGE_TYPE if name == "all" else {name}
            accepted = accepted - names if word.startswith("!") else accepted | names
        return frozenset(accepted)


def is_message_type(word: str) -> bool:
    """Whether `word` is a message type, with or without a `!`."""
    return word.removeprefix("!").lower() in MESSAGE_TYPES


class UnfitValueError(Exception):
    """What is wrong with a value, at which part, and what was probably meant."""

    def __init__(
        self, message: str, part: int = 0, suggestion: str = "", code: str = "value"
    ) -> None:
        super().__init__(message)
        self.part = part
        self.suggestion = suggestion
        self.code = code


@dataclass(slots=True)
class Words:
    """A value that the grammar took apart, and where to report what is odd about it.

    `groups` holds the strings, `kinds` the kind of each one's first token. One Words serves all
    values of a component, one after the other, since making one each would take as long as many
    a conversion.
    """

    dialect: Dialect
    strict: bool
    diagnostics: Diagnostics
    groups: list[list[str]] = field(init=False)
    kinds: list[list[str]] = field(init=False)
    value: Value = field(init=False)
    shape: Shape = field(init=False)
    source: SourceText = field(init=False)
    needs_clear_password: bool = field(init=False)

    def report(
        self, severity: str, code: str, message: str, part: int = 0, suggestion: str = ""
    ) -> None:
        """Report at string number `part`, counted over all groups."""
        spans = [span for group in self.shape.groups for span in group]
        first, end = spans[min(part, len(spans) - 1)]
        offset = self.value.offsets[first]
        length = self.value.offsets[end - 1] + len(self.value.texts[end - 1]) - offset
        self.diagnostics.add(severity, code, message, self.source, offset, length, suggestion)

    def suggest(self, word: str, known: tuple[str, ...]) -> str:
        """The one of `known` that was probably meant, or ""."""
        return self.diagnostics.suggest(word, known, known)


def form_of(spec: DirectiveSpec) -> str:
    """The form of the grammar that values of `spec` take."""
    if spec.type == "MSGS":
        return _MESSAGE_FORMS.get(spec.code, grammar.TYPES)
    return grammar.FORMS[spec.kind.form]


@cache
def _addresses_grammar() -> ParserElement:
    ends = Regex(r";+").suppress()
    word = Regex(r'[^\s={};,#"]+')
    equals = Literal("=").suppress()
    opening, closing = Literal("{").suppress(), Literal("}").suppress()
    field = Group((CaselessKeyword("addr") | CaselessKeyword("port")) + equals - word)
    family = CaselessKeyword("ipv4") | CaselessKeyword("ipv6") | CaselessKeyword("ip")
    fields = Group(Opt(ends) + (field + Opt(ends))[1, ...])
    entry = Group(family - equals - opening - fields - closing)
    block = opening + Opt(ends) + (entry + Opt(ends))[1, ...] + closing
    grammar: ParserElement = block.ignore(Regex(r"#[^\r\n]*"))
    return grammar


@lru_cache(maxsize=256)
def parse_addresses(text: str) -> tuple[list[Any], tuple[Address, ...], tuple[str, int] | None]:
    """The block `{ ip = { addr = 10.0.0.1; port = 9101 } ipv6 = { addr = ::1 } }`.

    As (plain data, addresses, None), or what is wrong with it and at which place.
    """
    if len(text) > _LONGEST_ADDRESSES:
        return [], (), ("the block of addresses is too long", 0)
    try:
        entries = _addresses_grammar().parse_string(text, parse_all=True)
    except ParseBaseException as problem:
        got = re.match(r"\S{0,40}", text[problem.loc :])
        shown = f"`{got[0]}`" if got and got[0] else "its end"
        return (
            [],
            (),
            (f"expected {{ ip = {{ addr = ...; port = ... }} }}, got {shown}", problem.loc),
        )
    raw: list[Any] = []
    addresses = []
    for entry in entries:
        family, fields = entry[0].lower(), [(name.lower(), word) for name, word in entry[1]]
        values = dict(fields)
        if len(values) != len(fields):
            return [], (), ("one address has one addr and one port", 0)
        raw.append([family, [list(field) for field in fields]])
        addresses.append(Address(family, values.get("addr"), values.get("port")))
    return raw, tuple(addresses), None
