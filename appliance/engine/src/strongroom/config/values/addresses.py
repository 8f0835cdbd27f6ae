"""The block of `Addresses =`: where a daemon listens, in a grammar of its own.

{ ip = { addr = 10.0.0.1; port = 9101 } ipv6 = { addr = ::1 } }
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Any

from pyparsing import (
    CaselessKeyword,
    Group,
    Literal,
    Opt,
    ParseBaseException,
    ParserElement,
    Regex,
)

from strongroom.config.values.forms import Address

_LONGEST_BLOCK = 100_000


@cache
def _grammar() -> ParserElement:
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
    """The block as (plain data, addresses, None), or what is wrong with it and at which place."""
    if len(text) > _LONGEST_BLOCK:
        return [], (), ("the block of addresses is too long", 0)
    try:
        entries = _grammar().parse_string(text, parse_all=True)
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
