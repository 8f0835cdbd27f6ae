"""The types of the language's values, and the words that values may be: what `types.json` says.

Comparison of words ignores case; the spelling in the table is the canonical one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final


def read_table(name: str) -> Any:
    """A file of the table."""
    return json.loads(
        (resources.files("strongroom.config.table") / "data" / name).read_text("utf-8")
    )


@dataclass(frozen=True, slots=True)
class ValueType:
    """What values of a type are.

    shown: for people. value: boolean, number, duration, size, speed, port, target (a boolean or a
    name), object, "" for text. form: in the grammar. words: the only ones that it takes;
    words_of_bacula: that old trees use besides. unit: of its number, in the names of attributes.
    block: what its braces hold. printed: quoted, bare, as a measure, or quoted where it must be.
    is_list: one directive has several values. repeatable: each directive adds to the others.
    is_name: at most 127 characters.
    """

    shown: str = "string"
    value: str = ""
    form: str = "text"
    words: tuple[str, ...] = ()
    words_of_bacula: tuple[str, ...] = ()
    unit: str = ""
    largest: int = 2**63 - 1
    block: str = ""
    printed: str = ""
    is_list: bool = False
    repeatable: bool = False
    is_name: bool = False
    may_begin_on_next_line: bool = False


def _frozen(row: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(one) if isinstance(one, list) else one for key, one in row.items()}


_table: dict[str, Any] = read_table("types.json")
VALUE_TYPES: Final = {name: ValueType(**_frozen(row)) for name, row in _table["types"].items()}
# Option of a FileSet -> its words; those with their own rule are in fileset_options.
OPTION_KEYWORDS: Final[dict[str, tuple[str, ...]]] = _frozen(_table["options"])
# Option -> words that only Strongroom knows.
OWN_KEYWORDS: Final[dict[str, tuple[str, ...]]] = _frozen(_table["own_words_of_options"])
MESSAGE_TYPES: Final = tuple(_table["message_types"])
LEVELS: Final = VALUE_TYPES["LEVEL"].words
