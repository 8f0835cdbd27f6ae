"""What a type of the table takes: the form of its values, and what a converter is handed.

The typed values that are more than a string or a number (Password, Address) are here as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from strongroom.config.language import grammar
from strongroom.config.table.keywords import KEYWORDS

if TYPE_CHECKING:
    from strongroom.config.language.diagnostics import Diagnostics
    from strongroom.config.language.grammar import Shape
    from strongroom.config.language.lexer import Value
    from strongroom.config.language.sources import SourceText
    from strongroom.config.table.dialects import Dialect
    from strongroom.config.table.schema import DirectiveSpec

_NEWLINE_TYPES = frozenset(
    (
        "TIME",
        "SIZE32",
        "SIZE64",
        "MAXBLOCKSIZE",
        "SPEED",
        "ADDRESSES",
        "ADDRESSES_ADDRESS",
        "ADDRESSES_PORT",
        "FNAME",
        "PLUGINNAME",
        "PLUGIN",
        "REGEX",
        "WILD",
        "FSTYPE",
        "DRIVETYPE",
        "META",
    )
)
# Types whose string Bareos reads as a name: at most 127 characters.
NAME_TYPES = frozenset(
    ("NAME", "STRNAME", "RES", "BOOL", "BIT", "ALIST_RES", "DEVICE", "EXCLUDEDIR", *KEYWORDS)
)
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
_FORMS = {
    "OPTION": grammar.ITEM,
    "PINT16": grammar.INTEGER,
    "PINT32": grammar.INTEGER,
    "INT32": grammar.NUMBER,
    "TIME": grammar.MEASURE,
    "SIZE32": grammar.MEASURE,
    "SIZE64": grammar.MEASURE,
    "MAXBLOCKSIZE": grammar.MEASURE,
    "SPEED": grammar.MEASURE,
    "ALIST_RES": grammar.LIST,
    "ALIST_STR": grammar.LIST,
    "NOTICE_EVENTS": grammar.LIST,
    "STR_VECTOR": grammar.LIST,
    "FOLDERS": grammar.LIST,
    "ACL": grammar.LIST,
    "AUDIT": grammar.LIST,
    "ADDRESSES_ADDRESS": grammar.BARE,
    "ADDRESSES_PORT": grammar.BARE,
    "PLUGIN_NAMES": grammar.NAMES,
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
    """Where a daemon listens; None stands for every address or the default port."""

    family: str  # ip, ipv4 or ipv6
    host: str | None
    port: str | None


class UnfitValueError(Exception):
    """What is wrong with a value, at which part, and what was probably meant."""

    def __init__(
        self, message: str, part: int = 0, suggestion: str = "", code: str = "value"
    ) -> None:
        super().__init__(message)
        self.part = part
        self.suggestion = suggestion
        self.code = code


class Words:
    """A value that the grammar took apart, and where to report what is odd about it.

    `groups` holds the strings, `kinds` the kind of each one's first token. One Words serves all
    values of a component, one after the other.
    """

    __slots__ = (
        "diagnostics",
        "dialect",
        "groups",
        "kinds",
        "needs_clear_password",
        "shape",
        "source",
        "strict",
        "value",
    )

    groups: list[list[str]]
    kinds: list[list[str]]
    value: Value
    shape: Shape
    source: SourceText
    needs_clear_password: bool

    def __init__(self, dialect: Dialect, strict: bool, diagnostics: Diagnostics) -> None:
        self.dialect = dialect
        self.strict = strict
        self.diagnostics = diagnostics

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
    return _FORMS.get(spec.type, grammar.TEXT)


def may_begin_on_next_line(spec: DirectiveSpec) -> bool:
    """Whether a new line is allowed after the `=`."""
    return spec.type in _NEWLINE_TYPES
