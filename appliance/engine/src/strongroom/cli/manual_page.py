"""Manual pages made from the parsers, by `python -m strongroom.cli.manual_page FOLDER`.

Writes strongroom.1 and a page for every command, strongroom-COMMAND.1. The date is left out, so
that the same version always gives the same bytes.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable

from strongroom import __version__
from strongroom.cli.main import COMMAND_GROUPS, COMMANDS, command_parser
from strongroom.cli.parser_description import (
    ENVIRONMENT,
    DescribedOption,
    ParserDescription,
    describe,
)
from strongroom.cli.settings import GLOBAL_OPTIONS_TITLE


def pages() -> dict[str, str]:
    """File name -> page, in roff, of `strongroom` and of each of its commands."""
    names = {"strongroom.1": _overview_page()}
    for name, (_, summary) in COMMANDS.items():
        names[f"strongroom-{name}.1"] = _command_page(name, summary)
    return names


def write_pages(folder: str) -> None:
    """Write every page into `folder`, which is made where it is missing."""
    os.makedirs(folder, exist_ok=True)
    for name, page in pages().items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(page)


def _overview_page() -> str:
    lines = [
        *_head("strongroom", "back up files: deduplicated, compressed, encrypted, and fast"),
        ".SH SYNOPSIS",
        r".B strongroom",
        r"\fICOMMAND\fR [\fIOPTION\fR ...]",
    ]
    for title, commands in COMMAND_GROUPS.items():
        lines.append(f".SH {_roff(title.upper())}")
        for name, (_, summary) in commands.items():
            lines += [".TP", rf"\fB{_roff(name)}\fR", f"{_roff(summary)}; see strongroom-{name}(1)"]
    lines += [
        ".SH ENVIRONMENT",
        *(
            line
            for name, text in ENVIRONMENT.items()
            for line in (".TP", rf"\fB{name}\fR", _roff(text.replace("`", "")))
        ),
        ".SH EXIT STATUS",
        "0 when all was done, 3 when some files could not be read, set or verified; every other",
        "code is a kind of error, listed in exit-codes.md of the documentation.",
    ]
    return "\n".join(lines) + "\n"


def _command_page(name: str, summary: str) -> str:
    command = describe(command_parser(name), summary)
    lines = [*_head(f"strongroom-{name}", summary), ".SH SYNOPSIS", _roff(command.usage)]
    for group in command.groups:
        lines += [f".SH {_roff(group.title.upper())}", *_options(group.options)]
    if command.actions:
        lines += [".SH ACTIONS", *_actions(command.actions)]
    lines += [f".SH {_roff(GLOBAL_OPTIONS_TITLE.upper())}", *_options(command.global_options)]
    lines += [".SH EXAMPLES", ".nf", *map(_roff, command.examples)]
    lines += [".fi", ".SH SEE ALSO", "strongroom(1)"]
    return "\n".join(lines) + "\n"


def _head(name: str, summary: str) -> list[str]:
    return [
        f'.TH {_roff(name.upper())} 1 "" "strongroom {__version__}" "Strongroom"',
        ".SH NAME",
        rf"{_roff(name)} \- {_roff(summary)}",
    ]


def _actions(actions: Iterable[ParserDescription]) -> list[str]:
    """Describe sub-commands, without the options of every command, which are listed once."""
    lines: list[str] = []
    for action in actions:
        lines += [f".SS {_roff(action.usage)}", _roff(action.summary)]
        for group in action.groups:
            lines += _options(group.options)
        lines += _actions(action.actions)
    return lines


def _options(options: Iterable[DescribedOption]) -> list[str]:
    return [
        line
        for option in options
        for line in (".TP", rf"\fB{_roff(option.usage)}\fR", _roff(option.text))
    ]


def _roff(text: str) -> str:
    escaped = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped


def main() -> int:
    """Write the pages into the folder that the command line names."""
    parser = argparse.ArgumentParser(prog="manual_page", description="Write the manual pages.")
    parser.add_argument("folder", metavar="FOLDER")
    write_pages(parser.parse_args().folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
