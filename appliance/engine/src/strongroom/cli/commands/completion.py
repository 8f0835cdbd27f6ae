"""`strongroom completion SHELL`: a script that completes commands, options, files and names.

The script is generated from the parsers of the commands, so it is always up to date. For names
(snapshots, clients, jobs, runs) it runs `strongroom completion --names`, in bash, zsh and fish.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongroom.cli.command_parser import CommandParser
from strongroom.cli.main import COMMANDS, fill_parser
from strongroom.errors import EXIT_DONE, UsageError

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


# A metavar or an option -> the kind of names it takes; a metavar alone says enough.
_NAME_METAVARS = {"CLIENT": "clients", "JOB": "jobs", "RUN": "runs"}
_NAME_OPTIONS = {"--client": "clients", "--job": "jobs"}
_SNAPSHOT_METAVARS = frozenset(
    ("SNAPSHOT", "SNAPSHOT[:PATH]", "SNAPSHOT[:SUBPATH]", "BEFORE", "AFTER")
)
_SNAPSHOT_PLACES = frozenset(("snapshot", "snapshots", "parent"))
# The functions that the scripts call for a kind of names. What they are given is no more than a
# list: nothing of it is expanded.
_PREAMBLES = {
    "bash": """\
_strongroom_{kind}() {{
  command strongroom completion --names {kind} --begin "$1" \\
    --words "${{COMP_WORDS[@]:1}}" 2>/dev/null
}}""",
    "zsh": """\
_strongroom_{kind}() {{
  local -a found
  found=("${{(@f)$(command strongroom completion --names {kind} \\
    --words "${{(@)words[2,-1]}}" 2>/dev/null)}}")
  compadd -a found
}}""",
    "fish": """\
function _strongroom_{kind}
  set -l typed (commandline -opc)
  command strongroom completion --names {kind} --words $typed[2..-1] 2>/dev/null
end""",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the shell; and what the scripts ask for."""
    from strongroom.cli.completion_names import KINDS

    parser.add_argument(
        "shell", choices=SHELLS, metavar="SHELL", nargs="?", help="bash, zsh, fish or tcsh"
    )
    group = parser.add_argument_group("for the scripts")
    group.add_argument(
        "--names", choices=KINDS, help="list snapshots, clients, jobs or runs, if it takes no 2 s"
    )
    group.add_argument("--begin", metavar="TEXT", default="", help="those that begin with TEXT")
    group.add_argument(
        "--words",
        nargs="...",
        default=[],
        help="what was typed so far, which may name a repository",
    )


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Print the script; with --json as the value of `script`. With --names print names."""
    if arguments.names:
        from strongroom.cli.completion_names import names_of

        for name in names_of(arguments.names, arguments.words, arguments.begin, arguments.settings):
            terminal.word(name)
        return EXIT_DONE
    if arguments.shell is None:
        raise UsageError(f"say for which shell: {', '.join(SHELLS)}")
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
        if kind := _kind_of_names(action, label):
            action.complete = _completion_of(kind)  # type: ignore[attr-defined]
            continue
        if label in _FILE_METAVARS:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif label in _FOLDER_METAVARS:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]


def _kind_of_names(action: argparse.Action, label: str) -> str:
    if label in _SNAPSHOT_METAVARS or (label == "ID" and action.dest in _SNAPSHOT_PLACES):
        return "snapshots"
    for option in action.option_strings:
        if option in _NAME_OPTIONS:
            return _NAME_OPTIONS[option]
    return "" if action.option_strings else _NAME_METAVARS.get(label, "")


def _completion_of(kind: str) -> dict[str, object]:
    return {
        "bash": f"_strongroom_{kind}",
        "zsh": f"_strongroom_{kind}",
        "fish": f"(_strongroom_{kind})",
        "preamble": {shell: text.format(kind=kind) for shell, text in _PREAMBLES.items()},
    }
