"""YAML as nodes that know their lines; what an answer file does not need is refused.

A value keeps the text it has in the file, so that no name turns into a number or a truth value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import yaml

from strongroom.base.printable import printable

_MOST_DEPTH: Final = 20
MOST_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong. line: from 1, 0 for the file as a whole; place: such as time.zone.

    what: what is wrong; remedy: what to do about it.
    """

    line: int
    place: str
    what: str
    remedy: str

    def text(self, path: str) -> str:
        """One line for people."""
        where = f"{printable(path)}:{self.line}" if self.line else printable(path)
        place = f"{printable(self.place)}: " if self.place else ""
        return f"{where}: {place}{self.what}; {self.remedy}"


@dataclass(frozen=True, slots=True)
class Text:
    """A value. is_quoted: it was written in quotes, or as a block."""

    line: int
    text: str
    is_quoted: bool


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list."""

    line: int
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Mapping:
    """Names and values. lines: of the names."""

    line: int
    values: dict[str, Node]
    lines: dict[str, int]


Node = Text | Sequence | Mapping


class _Refused(Exception):  # noqa: N818 - it carries a fault
    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.what)
        self.fault = fault


def parse(data: bytes) -> tuple[Node | None, list[Fault]]:
    """The nodes of a file, or why there are none."""
    if len(data) > MOST_BYTES:
        return None, [Fault(0, "", "the file is larger than 1 MiB", "an answer file is small")]
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        return None, [Fault(line, "", "this is not UTF-8", "save the file as UTF-8")]
    faults: list[Fault] = []
    try:
        _refuse_what_is_not_needed(text)
        found = yaml.compose(text, Loader=yaml.BaseLoader)
        if found is None:
            return None, [Fault(0, "", "the file is empty", "begin with `version: 1`")]
        return _node(found, "", faults, 0), faults
    except _Refused as refused:
        return None, [refused.fault]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = printable(error.problem or str(error))
        remedy = "check the indentation and quotes; indent with blanks only"
        return None, [Fault(mark.line + 1 if mark else 0, "", f"not YAML: {what}", remedy)]
    except yaml.YAMLError as error:
        what = printable(str(error).replace("\n", " "), 200)
        return None, [Fault(0, "", f"not YAML: {what}", "remove what does not print")]


def _refuse_what_is_not_needed(text: str) -> None:
    depth = documents = 0
    for event in yaml.parse(text, Loader=yaml.BaseLoader):
        line = event.start_mark.line + 1
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                remedy = "keep one, without a line `---` between"
                raise _Refused(Fault(line, "", "a second document begins here", remedy))
        elif getattr(event, "anchor", None) is not None:
            what = "anchors (&) and aliases (*) are not understood"
            raise _Refused(Fault(line, "", what, "write the value out, or put it in quotes"))
        elif getattr(event, "tag", None) is not None:
            what = f"the tag {printable(str(event.tag), 40)} is not understood"
            raise _Refused(Fault(line, "", what, "remove it, or put the value in quotes"))
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _MOST_DEPTH:
                raise _Refused(Fault(line, "", "this is nested too deeply", "check the brackets"))
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _node(node: yaml.Node, place: str, faults: list[Fault], depth: int) -> Node:
    line = node.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode):
        items = (
            _node(one, f"{place}[{number}]", faults, depth + 1)
            for number, one in enumerate(node.value)
        )
        return Sequence(line, tuple(items))
    if isinstance(node, yaml.MappingNode):
        values: dict[str, Node] = {}
        lines: dict[str, int] = {}
        for key, name, value in _pairs(node, place, faults):
            if name in values:
                what = f"`{printable(name)}` appears twice"
                remedy = f"remove it, or the one in line {lines[name]}"
                faults.append(Fault(key.start_mark.line + 1, place, what, remedy))
                continue
            below = f"{place}.{name}" if place else name
            values[name] = _node(value, below, faults, depth + 1)
            lines[name] = key.start_mark.line + 1
        return Mapping(line, values, lines)
    return Text(line, node.value, node.style is not None)


def _pairs(
    node: yaml.MappingNode, place: str, faults: list[Fault]
) -> Iterator[tuple[yaml.Node, str, yaml.Node]]:
    for key, value in node.value:
        if isinstance(key, yaml.ScalarNode):
            yield key, key.value, value
        else:
            remedy = "write a name, a colon and a value"
            faults.append(Fault(key.start_mark.line + 1, place, "this is not a name", remedy))
