"""Canonical printing: a file laid out the one way, meaning the same, its comments kept.

Two blanks of indentation, names as the table shows them, one statement a line, strings in quotes
where they are free text or must be, blank lines kept one at a time. Printing what was printed
changes nothing. `format_text` proves it for every text: it reads what it wrote and compares.
"""

from __future__ import annotations

import re
from typing import Any

from strongroom.base.errors import ConfigurationError
from strongroom.config.language.diagnostics import ERROR
from strongroom.config.table.dialects import Dialect
from strongroom.config.table.schema import DirectiveSpec
from strongroom.config.trees.loader import LoadOptions, load_text
from strongroom.config.trees.tree import Block, Comment, ComponentTree, Directive, Verbatim
from strongroom.config.values.forms import Destination
from strongroom.config.values.run_schedule import OVERRIDES, ScheduleRun

INDENT = "  "
_BARE = re.compile(r"[A-Za-z0-9_./:+*!%-](?:[A-Za-z0-9_./:+*!%@-])*\Z")
_MEASURE_GAP = re.compile(r"(?<=[0-9.])(?=[A-Za-z])|(?<=[A-Za-z])(?=[0-9])")


def format_text(
    text: str, component: str, dialect: Dialect | None = None, path: str = "<text>"
) -> str:
    """`text` in canonical form. Raises ConfigurationError when it has errors."""
    options = LoadOptions(dialect=dialect, layout=True)
    before = load_text(text, component, options, path)
    if before.diagnostics.has_errors:
        errors = before.diagnostics.sorted(ERROR)
        raise ConfigurationError(
            f"{path} has {len(errors)} errors and is left alone; the first: {errors[0].head()}"
        )
    tree = before.trees[component]
    printed = print_tree(tree)
    after = load_text(printed, component, options, path)
    if meaning(after.trees[component]) != meaning(tree):
        raise ConfigurationError(
            f"{path} would mean something else when printed, so it is left alone; please report it"
        )
    return printed


def print_tree(tree: ComponentTree) -> str:
    """The text of a tree; of one that was read in layout mode with its comments."""
    lines: list[str] = []
    _print_items(tree.items, lines, "")
    return "\n".join(lines) + "\n" if lines else ""


def print_block(block: Block, title: str | None = None) -> list[str]:
    """The lines of one resource."""
    lines = [f"{title or block.spec.name} {{"]
    _print_items(block.items, lines, INDENT)
    lines.append("}")
    return lines


def meaning(tree: ComponentTree) -> list[Any]:
    """What a tree says, comparable: places, comments, spelling and layout left out."""
    return [_block_meaning(block) for block in tree.blocks]


def _block_meaning(block: Block) -> tuple[str, list[Any]]:
    entries: list[Any] = []
    for item in block.items:
        if isinstance(item, Directive):
            value = item.value
            nested = _block_meaning(value) if isinstance(value, Block) else value
            entries.append((item.spec.key, nested))
        elif isinstance(item, Verbatim):
            entries.append(item.text)
    return block.spec.name, entries


def _print_items(items: list[Any], lines: list[str], indent: str) -> None:
    first = True
    after_block = False
    for item in items:
        # A second comment behind the same line would be swallowed by the first.
        if isinstance(item, Comment) and item.trailing and lines and "#" not in lines[-1]:
            lines[-1] += f"  {item.text}"
            continue
        if not first and (item.blank_before or (after_block and not indent)):
            lines.append("")
        first = False
        after_block = False
        if isinstance(item, Comment | Verbatim):
            lines.append(indent + item.text)
        elif isinstance(item, Block):
            lines += [indent + line if line else line for line in print_block(item)]
            after_block = True
        else:
            lines += [indent + line if line else line for line in _directive_lines(item)]


def _directive_lines(directive: Directive) -> list[str]:
    spec, value = directive.spec, directive.value
    if isinstance(value, Block):
        return print_block(value, spec.block)
    if spec.type == "ADDRESSES":
        lines = [f"{spec.shown_name} = {{"]
        for family, fields in directive.raw:
            inner = "; ".join(f"{name} = {word}" for name, word in fields)
            lines.append(f"{INDENT}{family} = {{ {inner} }}")
        return [*lines, "}"]
    return [f"{spec.shown_name} = {value_text(spec, directive.raw, value)}"]


def value_text(spec: DirectiveSpec, raw: Any, value: Any) -> str:
    """The value of a directive as text that reads back as the same value."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, ScheduleRun):
        return _run_text(raw, value)
    if isinstance(value, Destination):
        return _destination_text(value)
    if spec.kind.printed == "measure":
        return _MEASURE_GAP.sub(" ", raw)
    if isinstance(raw, list):
        colons = spec.type != "PLUGIN_NAMES"
        return ", ".join(_string(entry, colons=colons) for entry in raw)
    if spec.kind.printed == "quoted":
        return quoted(raw)
    if spec.kind.printed == "bare":
        return str(raw)
    return _string(raw, digits=spec.type == "OPTION")


def quoted(text: str) -> str:
    """`text` in quotes, escaped."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _string(text: str, *, digits: bool = False, colons: bool = True) -> str:
    if not _BARE.match(text) or (text.isdecimal() and not digits) or (":" in text and not colons):
        return quoted(text)
    return text


def _run_text(raw: dict[str, Any], run: ScheduleRun) -> str:
    words = []
    for name, text in raw.items():
        if name == "when":
            continue
        override = OVERRIDES[name]
        if override.kind == "level":
            value = str(run.level)
        elif override.kind == "integer":
            value = text
        else:
            value = quoted(text) if override.kind == "duration" else _string(text)
        words.append(f"{override.shown}={value}")
    if raw["when"][0].isdecimal():
        words.append("on")  # a time cannot begin with a bare number
    return " ".join([*words, *raw["when"]])


def _destination_text(destination: Destination) -> str:
    types = ", ".join(destination.types)
    if not destination.addresses:
        return types
    addresses = ", ".join(_string(address) for address in destination.addresses)
    return f"{addresses} = {types}"
