"""The result of parsing a text: blocks of directives with their places.

A tree says what is written, not what it means: references are names, nothing is inherited, no
default is filled in; that is `resolve`. In layout mode (for the printer) a tree also holds
comments, includes as such, and statements that mean nothing, so that a file can be written back;
`blank_before` says that an empty line was before an item.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from strongroom.config.language.sources import SourceText
from strongroom.config.table.schema import DirectiveSpec, ResourceSpec


# Compared by identity: to compare what two say is `meaning` of the printer.
@dataclass(slots=True, eq=False, repr=False)
class Directive:
    """`Name = value`, or a name with a block: `value` is then a Block.

    `raw` is the value as plain data as it was written; `value` the typed one.
    """

    spec: DirectiveSpec
    raw: Any
    value: Any
    source: SourceText
    offset: int
    blank_before: bool = False

    @property
    def line(self) -> int:
        """The line its name is on."""
        return self.source.line(self.offset)

    @property
    def json_name(self) -> str:
        """The name in `parse --json`: the three plain lists of an Include are in lower case."""
        if self.spec.type in ("FNAME", "PLUGINNAME", "EXCLUDEDIR"):
            return self.spec.name.lower()
        return self.spec.name

    def as_json(self) -> Any:
        """The value as plain data; a block is a list of pairs."""
        if isinstance(self.value, Block):
            return [[inner.json_name, inner.as_json()] for inner in self.value.directives]
        return self.raw


@dataclass(slots=True, eq=False, repr=False)
class Comment:
    """A comment; `trailing` when it is behind a statement on its line."""

    text: str
    offset: int
    trailing: bool
    blank_before: bool = False


@dataclass(slots=True, eq=False, repr=False)
class Verbatim:
    """An include, or a statement the table does not know: kept as it is written."""

    text: str
    offset: int
    blank_before: bool = False


@dataclass(slots=True, eq=False, repr=False)
class Block:
    """A resource, or a block within one. `items` holds Directives, in layout mode more.

    by_key: the last directive of each key. refused: keys whose value was wrong.
    """

    spec: ResourceSpec
    source: SourceText
    offset: int
    layout: bool = False
    blank_before: bool = False
    items: list[Any] = field(default_factory=list)
    by_key: dict[str, Directive] = field(default_factory=dict)
    refused: tuple[str, ...] = ()

    def add(self, directive: Directive) -> None:
        """Append a directive."""
        self.items.append(directive)
        self.by_key[directive.spec.key] = directive

    @property
    def directives(self) -> list[Directive]:
        """The directives in the order they stand."""
        if self.layout:
            return [item for item in self.items if isinstance(item, Directive)]
        return self.items

    @property
    def name(self) -> str:
        """The value of the block's Name, or ""."""
        directive = self.by_key.get("name")
        return "" if directive is None else str(directive.value)

    @property
    def line(self) -> int:
        """The line it begins on."""
        return self.source.line(self.offset)

    def last(self, key: str) -> Directive | None:
        """The last directive with this key: where a single value is given twice the last counts."""
        return self.by_key.get(key)

    def refuse(self, key: str) -> None:
        """Record that a directive was written with an invalid value."""
        if key not in self.refused:
            self.refused += (key,)

    def was_written(self, key: str) -> bool:
        """Whether a directive is there, be its value wrong."""
        return key in self.by_key or key in self.refused

    def walk(self) -> Iterator[Directive]:
        """Its directives and those of the blocks in them."""
        for directive in self.directives:
            yield directive
            if isinstance(directive.value, Block):
                yield from directive.value.walk()

    def as_json(self) -> dict[str, Any]:
        """The resource in the form of `parse --json`."""
        return {
            "type": self.spec.name,
            "name": self.name,
            "directives": [
                [one.json_name, one.as_json(), {"file": one.source.path, "line": one.line}]
                for one in self.directives
            ],
        }


@dataclass(slots=True, eq=False, repr=False)
class ComponentTree:
    """Everything that was read for one component: `blocks` are its resources in reading order.

    `items` holds, in layout mode, comments and includes between the resources as well.
    """

    component: str
    blocks: list[Block] = field(default_factory=list)
    items: list[Any] = field(default_factory=list)

    def resources_json(self) -> list[dict[str, Any]]:
        """All resources in the form of `parse --json`."""
        return [block.as_json() for block in self.blocks]
