"""`strongroom completion SHELL`: a script that completes commands, options, files and names.

The script is generated from the parsers of the commands, so it is always up to date. For names
(snapshots, clients, jobs, runs) it runs `strongroom completion --names`, in bash, zsh and fish.
"""

from __future__ import annotations

import argparse
import os
import re
import select
import signal
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from typing import Final

from strongroom.base import clock
from strongroom.base.errors import EXIT_DONE, UsageError
from strongroom.cli.command_parser import CommandParser
from strongroom.cli.main import COMMANDS, fill_parser
from strongroom.cli.settings import Settings
from strongroom.cli.terminal import Terminal

# Names that a shell completes while somebody types: snapshots, clients, jobs and runs.
#
# It never asks for a passphrase: the ids of snapshots are the names of their objects. It takes two
# seconds at most, whatever hangs, and says nothing when something is wrong.
KINDS: Final = ("snapshots", "clients", "jobs", "runs")
SECONDS: Final = 2.0
_MOST: Final = 500
_SHORT_ID: Final = 8
_MOST_BYTES: Final = 1 << 20
# Shells give other signs a meaning, and what a client is called is not for us to say.
_SAFE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]*")


def names_of(kind: str, words: Sequence[str], begin: str, settings: Settings) -> list[str]:
    """The names of a kind that begin with `begin`; `words`: what was typed after `strongroom`."""
    find = _FINDERS[kind]
    found = _within(SECONDS, lambda: find(words, settings))
    fitting = (name for name in dict.fromkeys(found) if name.startswith(begin))
    return [name for name in fitting if _SAFE.fullmatch(name)][:_MOST]


def _snapshots(words: Sequence[str], settings: Settings) -> list[str]:
    place = _given(words, "--repo") or _given(words, "-r") or settings.repository
    of_director = _given(words, "--client") or _given(words, "--director")
    if place and not of_director:
        return ["latest", *_stored_snapshots(place, words, settings)]
    found = _asked(words, settings, "/snapshots", client=_given(words, "--client"), limit=_MOST)
    return ["latest", *(one["id"][:_SHORT_ID] for one in found)]


def _stored_snapshots(place: str, words: Sequence[str], settings: Settings) -> list[str]:
    from strongroom.cli.access import open_store

    settings = settings._replace(
        identity_folder=_given(words, "--identity") or settings.identity_folder
    )
    with closing(open_store(place, settings)) as store:
        listed = sorted(store.list("snapshots"), key=lambda info: -info.modified_ns)
    return [info.name[:_SHORT_ID] for info in listed[:_MOST]]


def _clients(words: Sequence[str], settings: Settings) -> list[str]:
    return [one["name"] for one in _asked(words, settings, "/clients")]


def _jobs(words: Sequence[str], settings: Settings) -> list[str]:
    return [one["name"] for one in _asked(words, settings, "/jobs")]


def _runs(words: Sequence[str], settings: Settings) -> list[str]:
    return [one["id"][:_SHORT_ID] for one in _asked(words, settings, "/runs", limit=50)]


_FINDERS: Final[dict[str, Callable[[Sequence[str], Settings], list[str]]]] = {
    "snapshots": _snapshots,
    "clients": _clients,
    "jobs": _jobs,
    "runs": _runs,
}


def _asked(
    words: Sequence[str], settings: Settings, path: str, **query: object
) -> list[dict[str, str]]:
    from strongroom.cli.client.client import open_director

    options = ("director", "token_file", "identity", "authority")
    given = {name: _given(words, "--" + name.replace("_", "-")) or None for name in options}
    arguments = argparse.Namespace(settings=settings, warn=lambda _: None, **given)
    with open_director(arguments) as director:
        answer = director.get(path, **{name: value or None for name, value in query.items()})
    found: list[dict[str, str]] = answer["items"]
    return found


def _given(words: Sequence[str], option: str) -> str:
    """The value of an option among words that may be half a command line; "" without one."""
    value = ""
    for number, word in enumerate(words):
        if word == option and number + 1 < len(words):
            value = words[number + 1]
        elif word.startswith(f"{option}="):
            value = word.partition("=")[2]
    return value


def _within(seconds: float, find: Callable[[], list[str]]) -> list[str]:
    """What `find` gives; nothing when it fails or takes longer.

    It runs in its own process: a file system that does not answer cannot be interrupted.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            nowhere = os.open(os.devnull, os.O_RDWR)
            for stream in range(3):
                os.dup2(nowhere, stream)
            os.close(reading)
            text = "\n".join(find()).encode("utf-8", "replace")
            while text:
                text = text[os.write(writing, text) :]
        os._exit(0)
    os.close(writing)
    data = b""
    end = clock.elapsed_seconds() + seconds
    # Not select, which refuses descriptors above 1023.
    readable = select.poll()
    readable.register(reading, select.POLLIN)
    with open(reading, "rb", buffering=0) as pipe:
        while len(data) < _MOST_BYTES:
            left = end - clock.elapsed_seconds()
            if left <= 0 or not readable.poll(left * 1000):
                data = b""
                break
            if not (more := pipe.read(1 << 16)):
                break
            data += more
    os.kill(child, signal.SIGKILL)
    # One that hangs in the kernel is left to init.
    os.waitpid(child, os.WNOHANG)
    return data.decode("utf-8", "replace").split("\n") if data else []


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
    parser.add_argument(
        "shell", choices=SHELLS, metavar="SHELL", nargs="?", help="bash, zsh, fish or tcsh"
    )
    group = parser.add_argument_group("for the scripts")
    group.add_argument(
        "--names",
        choices=KINDS,
        help="list snapshots, clients, jobs or runs, if it takes less than 2 s",
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
        for name in names_of(arguments.names, arguments.words, arguments.begin, arguments.settings):
            terminal.word(name)
        return EXIT_DONE
    if arguments.shell is None:
        raise UsageError(f"name the shell: {', '.join(SHELLS)}")
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
