"""Every command and option of ours that a document names is there."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

import strongroom
from kit.project import DOCUMENTS, ENGINE, PROGRAM
from strongroom.cli.main import COMMANDS, command_parser

PROJECT = DOCUMENTS.parent
PACKAGE = Path(strongroom.__file__).parent
# After a command's own words come those of another program.
_ENDS = re.compile(r"\s{3,}|\s(?:\||\|\||&&|;|--|>|<|#)(?:\s|$)|;|\)|\"$|'$")
_CALL = re.compile(r"(?<![\w/.@-])strongroom ([a-z][a-z-]*)\b([^`\n]*)")
# Programs of every system that have a namesake among our commands.
_OF_OTHERS = frozenset(("diff", "find", "ls", "mount", "log", "run"))
# Of virt-install and ansible-playbook.
_OPTIONS_OF_OTHERS = frozenset(("--boot", "--tpm", "--tags", "--limit", "--diff"))
# A text from which a key is derived.
_TEXT_OF_KEYS = re.compile(r"strongroom [a-z ]+ \d$")
_OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z0-9-]*)")


def pages() -> list[Path]:
    """What users read: the documents, the front pages, and what is new."""
    found = [*DOCUMENTS.rglob("*.md"), *(PROJECT / "changelog" / "unreleased").glob("*.md")]
    found += [PROJECT / "README.md", *(PROJECT / "roles").glob("*/README.md")]
    return sorted(found)


@cache
def known(name: str) -> tuple[frozenset[str], frozenset[str]]:
    """Options of a command and of its actions, and the names of these."""
    options: set[str] = set()
    actions: set[str] = set()
    parsers = [command_parser(name)]
    while parsers:
        for action in parsers.pop()._actions:  # noqa: SLF001 - argparse has no other way
            options.update(action.option_strings)
            if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
                actions.update(action.choices)
                parsers += action.choices.values()
    return frozenset(options), frozenset(actions)


def code_of(page: Path) -> Iterator[str]:
    """Lines and spans of code, lines that are continued as one."""
    text = re.sub(r"\\\n\s*", " ", page.read_text("utf-8"))
    in_block = False
    for line in text.splitlines():
        if line.startswith("```"):
            in_block = not in_block
        elif in_block or line.startswith("    "):
            yield line
        else:
            yield from map(named_in_full, re.findall(r"`([^`]+)`", line))


def named_in_full(span: str) -> str:
    """A span that leaves our name out, such as `prune --dry-run`, with it."""
    first = span.partition(" ")[0]
    is_ours = first in COMMANDS and first not in _OF_OTHERS and " --" in span
    return f"strongroom {span}" if is_ours else span


def calls(codes: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Command and the rest of what is said of it."""
    for code in codes:
        for name, rest in () if _TEXT_OF_KEYS.match(code) else _CALL.findall(code):
            yield name, _ENDS.split(rest, maxsplit=1)[0]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(PROJECT)))
def test_the_commands_that_a_page_names_are_there(page):
    require_known(calls(code_of(page)))


def test_the_commands_that_messages_name_are_there():
    for module in PACKAGE.rglob("*.py"):
        require_known(calls(re.findall(r"`(strongroom [^`\n{]+)`", module.read_text("utf-8"))))


def require_known(named: Iterable[tuple[str, str]]) -> None:
    for name, rest in named:
        shown = f"strongroom {name}{rest}"
        assert name in COMMANDS, shown
        options, actions = known(name)
        assert set(_OPTION.findall(rest)) <= options, shown
        first = re.match(r" ([a-z][a-z-]*)(?= |$)", rest)
        if actions and first is not None:
            assert first[1] in actions, shown


def test_the_options_that_a_table_names_alone_are_there():
    ours = set().union(*(known(name)[0] for name in COMMANDS))
    for module in (*(PROGRAM / "src").rglob("*.py"), *(ENGINE / "bench/src").rglob("*.py")):
        ours |= set(re.findall(r'add(?:_argument)?\(\s*"(--[a-z-]+)"', module.read_text("utf-8")))
    for page in pages():
        spans = (code for code in code_of(page) if code.startswith("--"))
        for span in spans:
            assert set(_OPTION.findall(span)) <= ours | _OPTIONS_OF_OTHERS, (page, span)


def test_the_targets_of_make_that_documents_name_are_there():
    text = (PROJECT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z][a-z-]*):", text, re.MULTILINE))
    for page in pages():
        for code in code_of(page):
            for target in re.findall(r"^\s*(?:\$ )?make ([a-z][a-z-]*)(?![\w/])", code):
                assert target in targets, (page, code)
