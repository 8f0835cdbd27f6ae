"""`strongroom completion SHELL`: a script that completes commands, options and file names.

The script is generated from the parsers of the commands, so it is always up to date.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongroom.cli.main import COMMANDS, CommandParser, fill_parser
from strongroom.errors import EXIT_DONE

if TYPE_CHECKING:
    import argparse

    from strongroom.cli.terminal import Terminal

EPILOG = """\
examples:
  strongroom completion bash > /etc/bash_completion.d/strongroom
  strongroom completion zsh > ~/.zfunc/_strongroom
  strongroom completion fish > ~/.config/fish/completions/strongroom.fish
"""

SHELLS = ("bash", "zsh", "fish", "tcsh")

# What to complete, by an argument's metavar or name.
_FILE_METAVARS = frozenset(("FILE", "PATH", "PATHS", "path"))
_FOLDER_METAVARS = frozenset(("FOLDER", "DIR", "DIRECTORY", "TARGET", "MOUNTPOINT", "PLACE"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the shell."""
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh, fish or tcsh")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Print the script; with --json as the value of `script`."""
    script = completion_script(arguments.shell)
    if terminal.as_json:
        terminal.emit({"type": "completion", "shell": arguments.shell, "script": script})
    else:
        terminal.document(script)
    return EXIT_DONE


def completion_script(shell: str) -> str:
    """Generate the script for `shell`, one of SHELLS."""
    import shtab

    script = shtab.complete(whole_parser(), shell=shell)
    return script if script.endswith("\n") else script + "\n"


def whole_parser() -> CommandParser:
    """One parser of all commands, for completion scripts and the manual page."""
    parser = CommandParser(
        prog="strongroom",
        description="Back up files: deduplicated, compressed, encrypted, and fast.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    for name, (_, summary) in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=f"{summary}.")
        fill_parser(command, name)
        _say_what_names_fit(command)
    return parser


def _say_what_names_fit(parser: argparse.ArgumentParser) -> None:
    import shtab

    for action in parser._actions:  # noqa: SLF001 - argparse shows its actions in no other way
        if isinstance(action.choices, dict):
            for inner in action.choices.values():
                _say_what_names_fit(inner)
        label = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
        if label in _FILE_METAVARS:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif label in _FOLDER_METAVARS:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
