"""Manual pages made from the parsers, by `python -m strongroom.cli.manual_page FOLDER`.

Writes strongroom.1 and a page for every command, strongroom-COMMAND.1. The date is left out, so
that the same version always gives the same bytes.
"""

from __future__ import annotations

import argparse
import os
import sys

from strongroom import __version__
from strongroom.cli.main import COMMAND_GROUPS, COMMANDS, command_parser
from strongroom.cli.settings import GLOBAL_OPTIONS_TITLE


def pages() -> dict[str, str]:
    """File name -> page, in roff, of `strongroom` and of each of its commands."""
    names = {"strongroom.1": _overview_page()}
    for name, (_, summary) in COMMANDS.items():
        names[f"strongroom-{name}.1"] = _command_page(name, summary)
    return names


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
        *(".TP", r"\fBSTRONGROOM_REPOSITORY\fR", "the repository, where --repo does not name it"),
        *(".TP", r"\fBSTRONGROOM_PASSWORD\fR", "the passphrase, where no option states one"),
        *(".TP", r"\fBXDG_CACHE_HOME\fR", "where the cache is kept, in the folder strongroom"),
        ".SH EXIT STATUS",
        "0 when all was done, 3 when some files could not be read, set or verified; every other",
        "code is a kind of error, listed in exit-codes.md of the documentation.",
    ]
    return "\n".join(lines) + "\n"


def _command_page(name: str, summary: str) -> str:
    parser = command_parser(name)
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    lines = [*_head(f"strongroom-{name}", summary), ".SH SYNOPSIS", _roff(usage)]
    lines += _options(parser)
    lines += [".SH EXAMPLES", ".nf"]
    lines += [_roff(line) for line in (parser.epilog or "").splitlines() if line != "examples:"]
    lines += [".fi", ".SH SEE ALSO", "strongroom(1)"]
    return "\n".join(lines) + "\n"


def _head(name: str, summary: str) -> list[str]:
    return [
        f'.TH {_roff(name.upper())} 1 "" "strongroom {__version__}" "Strongroom"',
        ".SH NAME",
        rf"{_roff(name)} \- {_roff(summary)}",
    ]


def _options(parser: argparse.ArgumentParser) -> list[str]:
    """Describe the arguments of `parser`, a section for each group of them."""
    lines: list[str] = []
    formatter = parser._get_formatter()  # noqa: SLF001 - argparse tells this in no other way
    for group in parser._action_groups:  # noqa: SLF001
        shown = [
            action
            for action in group._group_actions  # noqa: SLF001
            if action.help is not argparse.SUPPRESS
        ]
        if not shown:
            continue
        lines.append(f".SH {_roff((group.title or 'options').upper())}")
        for action in shown:
            invocation = formatter._format_action_invocation(action)  # noqa: SLF001
            text = formatter._expand_help(action) if action.help else ""  # noqa: SLF001
            lines += [".TP", rf"\fB{_roff(invocation)}\fR", _roff(" ".join(text.split()))]
            if isinstance(action.choices, dict):
                for name, inner in action.choices.items():
                    lines += [".SS " + _roff(f"{parser.prog} {name}"), *_inner_options(inner)]
    return lines


def _inner_options(parser: argparse.ArgumentParser) -> list[str]:
    """Describe a sub-command, without the options of every command, which stand once."""
    lines = _options(parser)
    last = f".SH {_roff(GLOBAL_OPTIONS_TITLE.upper())}"
    return [line for line in lines[: lines.index(last)] if not line.startswith(".SH")]


def _roff(text: str) -> str:
    escaped = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped


def main() -> int:
    """Write the pages into the folder that the command line names."""
    parser = argparse.ArgumentParser(prog="manual_page", description="Write the manual pages.")
    parser.add_argument("folder", metavar="FOLDER")
    folder = parser.parse_args().folder
    os.makedirs(folder, exist_ok=True)
    for name, page in pages().items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
