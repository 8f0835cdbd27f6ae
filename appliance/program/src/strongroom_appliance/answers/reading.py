"""Reading an answer file: all faults at once, each with its line and its remedy."""

from __future__ import annotations

import os
import re
from difflib import get_close_matches
from typing import Any, Final

import msgspec
from msgspec import inspect

from strongroom.base.errors import ConfigurationError, os_errors
from strongroom.base.printable import printable
from strongroom.cli.setup.answer_file import QUESTIONS, fault_of
from strongroom_appliance.answers.kinds import KINDS
from strongroom_appliance.answers.model import AnswerFile
from strongroom_appliance.answers.nodes import (
    MOST_BYTES,
    Fault,
    Mapping,
    Node,
    Sequence,
    Text,
    parse,
)
from strongroom_appliance.answers.rules import broken_rules

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}")
_TRUTH: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_NOTHING: Final = ("", "~", "null", "Null", "NULL")
_SECRET_NAMES: Final = ("passphrase", "password_hash")
_MISSING: Final = object()


def read_answer_file(path: str) -> AnswerFile:
    """The answers in a file. Raises ConfigurationError with all faults, UsageError."""
    answers, faults = examine(read_bytes(path))
    if answers is None:
        raise ConfigurationError("\n".join(fault.text(path) for fault in faults))
    return answers


def read_bytes(path: str) -> bytes:
    """What a file holds, but not more than is checked. Raises UsageError."""
    with os_errors(f"cannot read {printable(os.fsencode(path))}"), open(path, "rb") as file:
        return file.read(MOST_BYTES + 1)


def examine(data: bytes, *, whole: bool = True) -> tuple[AnswerFile | None, list[Fault]]:
    """The answers and no fault, or no answers and all faults in the order of the lines.

    whole: whether what must hold between the answers is checked as well.
    """
    node, faults = parse(data)
    if node is None:
        return None, faults
    answers, more = examine_node(node, whole=whole)
    faults = sorted([*faults, *more], key=lambda fault: fault.line)
    return (None if faults else answers), faults


def examine_node(node: Node, *, whole: bool = True) -> tuple[AnswerFile | None, list[Fault]]:
    """The same for what was parsed, or filled in on a form."""
    faults: list[Fault] = []
    reader = _Reader(faults)
    given = reader.value(node, inspect.type_info(AnswerFile), "")
    answers = None
    if not faults:
        answers = msgspec.convert(given, AnswerFile)
        if whole:
            faults += broken_rules(answers, reader.lines)
    return (None if faults else answers), faults


class _Reader:
    """Walks nodes and types together. lines: place -> line, of all that was read."""

    def __init__(self, faults: list[Fault]) -> None:
        self._faults = faults
        self.lines: dict[str, int] = {}

    def value(self, node: Node, kind: inspect.Type, place: str) -> Any:
        """What a node says, as plain data; _MISSING after a fault."""
        self.lines[place] = node.line
        extra = None
        while isinstance(kind, inspect.Metadata | inspect.UnionType):
            if isinstance(kind, inspect.Metadata):
                extra, kind = kind.extra or extra, kind.type
            else:
                kind = next(one for one in kind.types if not isinstance(one, inspect.NoneType))
        if isinstance(kind, inspect.StructType):
            return self._part(node, kind, place)
        if isinstance(kind, inspect.DictType):
            return self._setup_answers(node, place)
        if isinstance(kind, inspect.ListType):
            return self._list(node, kind, place)
        if not isinstance(node, Text):
            return self._fault(node, place, "a single value is expected here", "write one value")
        return self._text(node, kind, place, (extra or {}).get("kind"))

    def _part(self, node: Node, kind: inspect.StructType, place: str) -> Any:
        if not isinstance(node, Mapping):
            names = ", ".join(field.encode_name for field in kind.fields[:3])
            remedy = f"write names and values below it, such as {names}"
            return self._fault(node, place, "this needs its own parts", remedy)
        fields = {field.encode_name: field for field in kind.fields}
        given = {}
        for name, below in node.values.items():
            if name not in fields:
                self._unknown(node, name, place, list(fields))
                continue
            given[name] = self.value(below, fields[name].type, _below(place, name))
        for name, field in fields.items():
            if field.required and name not in node.values:
                self._fault(node, place, f"`{name}` is missing", f"add `{name}: ...`")
        return given

    def _list(self, node: Node, kind: inspect.ListType, place: str) -> Any:
        if not isinstance(node, Sequence):
            remedy = "write each item on its own line, after a dash"
            return self._fault(node, place, "a list is expected here", remedy)
        if len(node.items) < (kind.min_length or 0):
            return self._fault(node, place, "the list is empty", "name one at least")
        return [
            self.value(one, kind.item_type, f"{place}[{number}]")
            for number, one in enumerate(node.items)
        ]

    def _text(self, node: Text, kind: inspect.Type, place: str, name: str | None) -> Any:
        shown = "" if place.endswith(_SECRET_NAMES) else f": {printable(node.text, 60)}"
        if not node.is_quoted and node.text in _NOTHING:
            return self._fault(node, place, "there is no value", "give one, or remove the line")
        if isinstance(kind, inspect.LiteralType):
            if node.text not in kind.values:
                known = ", ".join(map(str, kind.values))
                return self._fault(node, place, f"no such choice{shown}", f"choose of {known}")
            return node.text
        if isinstance(kind, inspect.BoolType):
            if node.is_quoted or node.text.lower() not in _TRUTH:
                return self._fault(node, place, f"neither yes nor no{shown}", "write yes or no")
            return _TRUTH[node.text.lower()]
        if isinstance(kind, inspect.IntType):
            return self._number(node, kind, place, shown)
        assert isinstance(kind, inspect.StrType)
        if name is not None and not KINDS[name].fits(node.text):
            return self._fault(
                node, place, f"this cannot be{shown}", f"give {KINDS[name].expected}"
            )
        if kind.max_length is not None and len(node.text) > kind.max_length:
            remedy = f"at most {kind.max_length} characters"
            return self._fault(node, place, "this is too long", remedy)
        if kind.min_length and len(node.text) < kind.min_length:
            return self._fault(node, place, "this is empty", "give a value")
        return node.text

    def _number(self, node: Text, kind: inspect.IntType, place: str, shown: str) -> Any:
        least, most = kind.ge, kind.le
        fits = not node.is_quoted and _NUMBER.fullmatch(node.text)
        if not fits or (least is not None and int(node.text) < least) or (
            most is not None and int(node.text) > most
        ):  # fmt: skip
            span = f"{least}" if least == most else f"a number from {least} to {most}"
            return self._fault(node, place, f"this cannot be{shown}", f"give {span}")
        return int(node.text)

    def _setup_answers(self, node: Node, place: str) -> Any:
        """Answers of `strongroom setup appliance`, checked by what it expects."""
        if not isinstance(node, Mapping):
            remedy = "write names and values below it, such as address"
            return self._fault(node, place, "this needs its own parts", remedy)
        questions = {one.name: one for one in QUESTIONS}
        given: dict[str, Any] = {}
        for name, below in node.values.items():
            if name not in questions:
                self._unknown(node, name, place, list(questions))
                continue
            self.lines[_below(place, name)] = below.line
            value = _plain(below, questions[name].default)
            expected = fault_of(questions[name], value)
            if expected:
                shown = f": {printable(below.text, 60)}" if isinstance(below, Text) else ""
                self._fault(
                    below, _below(place, name), f"this cannot be{shown}", f"give {expected}"
                )
            given[name] = value
        return given

    def _unknown(self, node: Mapping, name: str, place: str, known: list[str]) -> None:
        near = get_close_matches(name, known, n=1)
        remedy = f"did you mean `{near[0]}`?" if near else f"known here: {', '.join(known)}"
        what = f"there is no `{printable(name, 60)}`"
        self._faults.append(Fault(node.lines[name], place, what, remedy))

    def _fault(self, node: Node, place: str, what: str, remedy: str) -> Any:
        self._faults.append(Fault(node.line, place, what, remedy))
        return _MISSING


def _below(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _plain(node: Node, default: Any) -> Any:
    """A value for setup, of the type that its default has."""
    if isinstance(node, Sequence):
        return [one.text if isinstance(one, Text) else one for one in node.items]
    if isinstance(node, Text) and isinstance(default, int) and _NUMBER.fullmatch(node.text):
        return int(node.text)
    return node.text if isinstance(node, Text) else node
