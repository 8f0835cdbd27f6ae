"""The `strongroom` command: finds the command named, parses its options, runs it, reports errors.

Only the module of the invoked command is imported, and nothing slow before it, so that `strongroom
--help` and completion answer at once. A command module
`strongroom.cli.commands.NAME` has

    EPILOG: str                                              examples, shown by --help
    def add_arguments(parser: argparse.ArgumentParser)       its own options
    def run(arguments, terminal: Terminal) -> int            the work; gives the exit code

A parser whose command lists things has the default `lists`: with --json they are one array.
`arguments.settings` holds the global options (strongroom.cli.settings), which may be before or
after the command. Every exit code is listed in docs/reference/exit-codes.md.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cache
from types import FrameType
from typing import NoReturn

from strongroom import __version__
from strongroom.base.errors import (
    EXIT_BUG,
    EXIT_DONE,
    EXIT_TERMINATED,
    CancelledError,
    MemoryLimitError,
    OperatingSystemError,
    OutputClosedError,
    StrongroomError,
    UsageError,
)
from strongroom.base.printable import guard_standard_streams, printable
from strongroom.cli.command_parser import CommandParser, unknown_option
from strongroom.cli.settings import Settings, add_global_options, read_settings
from strongroom.cli.terminal import Terminal, abandon

# Group -> command -> (module in strongroom.cli.commands, what it does in one line).
COMMAND_GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "back up and restore": {
        "init": ("init", "make a new repository"),
        "backup": ("backup", "store files, a stream or a command's output as a snapshot"),
        "restore": ("restore", "restore files from a snapshot"),
        "dump": ("dump", "write a file of a snapshot, or a folder as tar, to standard output"),
        "mount": ("mount", "show all snapshots as a read-only file system"),
        "schedule": ("schedule", "back up this machine by a systemd timer, without daemons"),
    },
    "inspect snapshots": {
        "snapshots": ("snapshots", "list snapshots"),
        "ls": ("ls", "list the files of a snapshot"),
        "find": ("find", "find files in snapshots"),
        "diff": ("diff", "show what differs between two snapshots"),
        "stats": ("stats", "show how much is stored, with deduplication and compression ratios"),
    },
    "maintain a repository": {
        "forget": ("forget", "remove snapshots that the rules do not keep"),
        "tag": ("tag", "add, remove and set tags of snapshots"),
        "rewrite": ("rewrite", "drop paths from snapshots, or give them to another client"),
        "prune": ("prune", "remove data that no snapshot uses"),
        "check": ("check", "check a repository for damage"),
        "lock": ("lock", "extend object lock for what snapshots use"),
        "repair": ("repair", "repair a damaged repository; list the files that are lost"),
        "verify": ("verify", "compare a snapshot with the live files"),
        "copy": ("copy", "copy snapshots to another repository"),
        "key": ("key", "add, change and remove passphrases; export put keys"),
        "share": ("share", "store once what several clients offer to share"),
        "vouch": ("vouch", "verify what agents stored, so that other agents may share it"),
    },
    "daemons": {
        "director": ("director", "run the director"),
        "storage": ("storage", "run the storage daemon"),
        "agent": ("agent", "run the agent of this machine; enrol it"),
        "serve": ("serve", "serve a repository to another machine, over ssh"),
    },
    "control the director": {
        "status": ("status", "show what is running, what has ended and what is due"),
        "clients": ("clients", "list clients and the state of their agents"),
        "client": ("client", "remove a client"),
        "jobs": ("jobs", "list jobs, when they are due and how they last ended"),
        "runs": ("runs", "list runs of jobs"),
        "run": ("run", "start a job now"),
        "watch": ("watch", "follow a run until it has ended"),
        "log": ("log", "show the log of a run"),
        "cancel": ("cancel", "cancel runs"),
        "accept": ("accept", "accept a backup of far less than usual"),
        "bandwidth": ("bandwidth", "change the bandwidth limit of a run"),
        "estimate": ("estimate", "let an agent count what a job would back up"),
        "browse": ("browse", "browse snapshots, choose files and restore them"),
        "reload": ("reload", "make the director read its configuration again"),
        "audit": ("audit", "show the audit log: who changed what, and who was denied"),
        "token": ("token", "create, list and withdraw API tokens"),
        "notify": ("notify", "test notices; list problems and messages that were not delivered"),
        "catalog": ("catalog", "export, import or rebuild the director's catalog"),
        "recover": ("recover", "get back a lost director's configuration and catalog"),
    },
    "this installation": {
        "setup": ("setup", "make an appliance of this machine"),
        "ca": ("ca", "issue certificates and enrolment tokens"),
        "config": ("config", "check, explain and print configuration files"),
        "baseline": ("baseline", "measure what bounds backups of this machine"),
        "tune": ("tune", "search the settings that are fastest on this machine and data"),
        "self-test": ("self_test", "test the libraries against known answers"),
        "cache": ("cache", "show and clear what this machine keeps of repositories"),
        "completion": ("completion", "print a completion script for your shell"),
        "version": ("version", "show the version, and those of the libraries"),
    },
}
COMMANDS = {name: entry for group in COMMAND_GROUPS.values() for name, entry in group.items()}

# What users of other programs type (restic, borg, tar, SQL), and what to use instead. The nearest
# of our names would lead them astray: `cat` is near `ca`, and `create` near `restore`.
_WORDS_OF_OTHERS: dict[str, str] = {
    **dict.fromkeys(("create", "save"), "use `strongroom backup`"),
    "extract": "use `strongroom restore`",
    **dict.fromkeys(("cat", "export-tar"), "use `strongroom dump`"),
    **dict.fromkeys(("list", "archives"), "use `strongroom snapshots`, or `ls` for files of one"),
    "info": "use `strongroom stats`",
    **dict.fromkeys(("delete", "expire", "rm"), "use `strongroom forget`"),
    **dict.fromkeys(("compact", "gc", "purge"), "use `strongroom prune`"),
    **dict.fromkeys(
        ("unlock", "break-lock"), "no job locks the repository, and leases end by themselves"
    ),
    **dict.fromkeys(
        ("umount", "unmount"), "use `umount FOLDER`, or as a user `fusermount3 -u FOLDER`"
    ),
    "rebuild-index": "use `strongroom repair`",
    "repo-create": "use `strongroom init`",
    "self-update": "use your package manager, or replace the one file",
    **dict.fromkeys(("passwd", "password"), "use `strongroom key change`"),
    **dict.fromkeys(("cron", "timer"), "use `strongroom schedule`"),
    **dict.fromkeys(("benchmark", "bench"), "use `strongroom baseline`"),
}

# What these do is not their output.
_WORK = frozenset(
    (
        "backup",
        "check",
        "copy",
        "forget",
        "lock",
        "prune",
        "repair",
        "restore",
        "rewrite",
        "schedule",
        "tag",
        "verify",
    )
)


@cache
def _global_options() -> dict[str, bool]:
    """Options that may be before the command, and whether each takes a value."""
    parser = CommandParser()
    add_global_options(parser)
    # argparse has no public access to them.
    actions = parser._actions  # noqa: SLF001
    return {name: one.nargs != 0 for one in actions for name in one.option_strings}


def overview() -> str:
    """The text of `strongroom --help`."""
    lines = [
        "usage: strongroom COMMAND [OPTION ...]",
        "",
        "Strongroom backs up files: deduplicated, compressed, encrypted, and fast.",
    ]
    for title, commands in COMMAND_GROUPS.items():
        lines += ["", f"{title}:"]
        lines += [f"  {name:<12}{summary}" for name, (_, summary) in commands.items()]
    lines += [
        "",
        "The repository is named by -r, --repo or $STRONGROOM_REPOSITORY; the passphrase comes",
        "from --password-file, --password-command, $STRONGROOM_PASSWORD_FILE,",
        "$STRONGROOM_PASSWORD_COMMAND, $STRONGROOM_PASSWORD, or is asked for.",
        "`strongroom COMMAND --help` shows a command's options and examples.",
        "",
    ]
    return "\n".join(lines)


def split_command(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """Find the command among global options: (its name or None, all other words in order)."""
    position = 0
    while position < len(words) and words[position].startswith("-"):
        position += 2 if _global_options().get(words[position]) else 1
    if position >= len(words):
        return None, list(words)
    return words[position], [*words[:position], *words[position + 1 :]]


def command_parser(name: str) -> CommandParser:
    """Import the module of command `name` and give its whole parser.

    Raises UsageError if there is no such command.
    """
    if name not in COMMANDS:
        from difflib import get_close_matches

        near = get_close_matches(name, COMMANDS, n=1)
        nearest = f"did you mean `{near[0]}`?" if near else "see `strongroom --help`"
        hint = _WORDS_OF_OTHERS.get(name, nearest)
        text = f"unknown command `{printable(name)}`; {hint}"
        raise UsageError(text)
    summary = COMMANDS[name][1]
    parser = CommandParser(
        prog=f"strongroom {name}", description=f"{summary[0].upper()}{summary[1:]}."
    )
    fill_parser(parser, name)
    return parser


def fill_parser(parser: argparse.ArgumentParser, name: str) -> None:
    """Give `parser` the options, examples and `run` of command `name`, whose module it imports.

    A command of actions has none: each of its actions brings a `run` of its own.
    """
    module = importlib.import_module(f"strongroom.cli.commands.{COMMANDS[name][0]}")
    parser.epilog = module.EPILOG
    module.add_arguments(parser)
    _add_global_options_throughout(parser)
    if hasattr(module, "run"):
        parser.set_defaults(run=module.run)


def main(words: Sequence[str] | None = None) -> int:
    """Run the command that `words` (else the command line) states; gives the exit code."""
    is_program = words is None
    words = sys.argv[1:] if words is None else words
    _set_up_process()
    terminal = Terminal(as_json="--json" in words)
    try:
        if is_program:
            from strongroom.base.process_memory import forbid_inspection

            forbid_inspection()
        return _run(words, terminal)
    except OutputClosedError as error:
        abandon(terminal.output)
        return error.exit_code
    except StrongroomError as error:
        return _report(words, terminal, error)
    except ModuleNotFoundError as error:
        if not error.name or error.name.partition(".")[0] == "strongroom":
            return _report_bug(words, terminal, error)
        from strongroom.base.parts import missing_library

        return _report(words, terminal, missing_library(error.name))
    except OSError as error:
        return _report(words, terminal, OperatingSystemError(_system_error_text(error)))
    except MemoryError:
        text = "there is not enough memory for this; close other programs or use a larger machine"
        return _report(words, terminal, MemoryLimitError(text))
    except KeyboardInterrupt:
        return _report(words, terminal, CancelledError("interrupted"))
    except Exception as error:  # noqa: BLE001 - every other error is a fault of ours
        return _report_bug(words, terminal, error)


def _report(words: Sequence[str], terminal: Terminal, error: StrongroomError) -> int:
    """Say what is wrong, on standard error or as a plugin of a monitoring system does."""
    if _is_plugin(words):
        from strongroom.cli.client.status_check import tell_unknown

        return tell_unknown(terminal, str(error))
    terminal.report_error(error.error_id, str(error), error.exit_code)
    return error.exit_code


def _is_plugin(words: Sequence[str]) -> bool:
    name, rest = split_command(words)
    return name == "status" and "--check" in rest


def _run(words: Sequence[str], terminal: Terminal) -> int:
    name, rest = split_command(words)
    if name in (None, "help"):
        return _answer_without_command(name, rest, terminal)
    assert name is not None
    if name not in COMMANDS:
        _refuse_option_before(words[words.index(name) - 1])
    parser = command_parser(name)
    arguments = parser.parse_args(rest)
    arguments.settings = read_settings(arguments, os.environ)
    terminal.quiet = arguments.quiet
    terminal.verbose = arguments.verbose
    terminal.as_json = arguments.json
    # For connections to the director, which most commands open by their arguments.
    arguments.warn = terminal.warn
    terminal.outlives_output = name in _WORK
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _cancel)
    lists = bool(vars(arguments).get("lists"))
    with terminal.listing() if lists else nullcontext():
        exit_code: int = arguments.run(arguments, terminal)
    _report_traffic(arguments.settings, terminal, is_list=lists)
    terminal.flush()
    return exit_code


def _report_traffic(settings: Settings, terminal: Terminal, *, is_list: bool) -> None:
    """With --verbose, what the command asked of stores behind a network."""
    for one in settings.traffic or ():
        from strongroom.base.quantities import counted, size_text

        if not is_list:
            terminal.emit(
                {
                    "type": "traffic",
                    "repository": one.place,
                    "requests": one.requests,
                    "round_trips": one.round_trips,
                    "sent_bytes": one.sent_bytes,
                    "received_bytes": one.received_bytes,
                }
            )
        # Standard output may be that of a dump.
        terminal.message_line(
            f"{one.place}: {counted(one.requests, 'request')}, "
            f"{counted(one.round_trips, 'round trip')}, {size_text(one.sent_bytes)} sent, "
            f"{size_text(one.received_bytes)} received"
        )


def _refuse_option_before(word: str) -> None:
    """An unknown option with a value: the value was taken for the command."""
    known = _global_options()
    if word not in known and "=" not in word and (text := unknown_option(word, known)):
        raise UsageError(f"{text}; see `strongroom --help`")


def _answer_without_command(name: str | None, rest: Sequence[str], terminal: Terminal) -> int:
    if name == "help" and rest:
        terminal.document(command_parser(rest[0]).format_help())
    elif name == "help" or "--help" in rest or "-h" in rest:
        terminal.document(overview())
    elif "--version" in rest:
        terminal.document(f"strongroom {__version__}\n")
    else:
        raise UsageError("no command given; see `strongroom --help`")
    terminal.flush()
    return EXIT_DONE


def _hold_standard_files() -> None:
    """Take the numbers of standard files that are closed: else a repository's file gets one.

    Output then fails to be written, as it should.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)
    if sys.stdout is None:  # noqa: TID251
        sys.stdout = open(1, "w", closefd=False)  # noqa: TID251, SIM115
    if sys.stderr is None:  # noqa: TID251
        sys.stderr = open(2, "w", closefd=False)  # noqa: TID251, SIM115


def _set_up_process() -> None:
    _hold_standard_files()
    # numpy would start an unused thread for every core.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for stream in (sys.stdout, sys.stderr):  # noqa: TID251 - before they are guarded
        # A name that the locale cannot represent must not end a job.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    guard_standard_streams()


def _cancel(number: int, frame: FrameType | None) -> NoReturn:
    """Signal handler: CancelledError; a second signal of the same kind ends the process at once."""
    signal.signal(number, signal.SIG_DFL)
    if number == signal.SIGTERM:
        raise CancelledError("stopped by SIGTERM", EXIT_TERMINATED)
    raise CancelledError("interrupted")


def _add_global_options_throughout(parser: argparse.ArgumentParser, default: object = None) -> None:
    # argparse has no public access to the parsers of sub-commands.
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for inner in dict.fromkeys(action.choices.values()):
                _add_global_options_throughout(inner, argparse.SUPPRESS)
    add_global_options(parser, default)


def _system_error_text(error: OSError) -> str:
    reason = error.strerror or str(error) or type(error).__name__
    names = [
        printable(name)
        for name in (error.filename, error.filename2)
        if isinstance(name, (bytes, str))
    ]
    return f"{' -> '.join(names)}: {reason}" if names else reason


def _report_bug(words: Sequence[str], terminal: Terminal, error: Exception) -> int:
    import platform
    import traceback

    terminal.clear_live_line()
    terminal.messages.write("".join(traceback.format_exception(error)))
    text = (
        f"internal error in Strongroom {__version__} (Python {platform.python_version()}); stored "
        "data is not affected. Please report it with the lines above: "
        f"{type(error).__name__}: {error}"
    )
    fault = StrongroomError(text)
    fault.error_id, fault.exit_code = "bug", EXIT_BUG
    return _report(words, terminal, fault)


if __name__ == "__main__":
    sys.exit(main())
