"""A parser's options as data, from which the manual pages and the reference are generated.

The text does not depend on the version of Python; that of argparse differs between releases.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from strongroom.cli.settings import GLOBAL_OPTIONS_TITLE

# The variables that commands read, and what they say.
ENVIRONMENT = {
    "STRONGROOM_REPOSITORY": "the repository, where `--repo` does not name it",
    "STRONGROOM_PASSWORD": "the passphrase, where no option states one",
    "STRONGROOM_PASSWORD_FILE": "the same: a file, whose first line it is",
    "STRONGROOM_PASSWORD_COMMAND": "the same: a command that prints it; it gets no shell",
    "STRONGROOM_DIRECTOR": "the director, where `--director` does not name it",
    "XDG_CACHE_HOME": "where the cache is kept, in the folder `strongroom`",
}


@dataclass(frozen=True, slots=True)
class DescribedOption:
    """An option or argument as written on a command line, and its help text."""

    usage: str
    text: str


@dataclass(frozen=True, slots=True)
class OptionGroup:
    """A titled group of options."""

    title: str
    options: tuple[DescribedOption, ...]


@dataclass(frozen=True, slots=True)
class ParserDescription:
    """A command or one of its actions.

    usage: the command with its arguments. groups: without the options that every command has.
    examples: lines of shell, with a comment behind some.
    """

    name: str
    usage: str
    summary: str
    groups: tuple[OptionGroup, ...]
    actions: tuple[ParserDescription, ...]
    global_options: tuple[DescribedOption, ...]
    examples: tuple[str, ...]


def describe(parser: argparse.ArgumentParser, summary: str) -> ParserDescription:
    """Describe `parser` and the parsers of its actions."""
    groups: list[OptionGroup] = []
    actions: list[ParserDescription] = []
    global_options: tuple[DescribedOption, ...] = ()
    # argparse has no public access to any of this.
    for group in parser._action_groups:  # noqa: SLF001
        options = []
        for action in group._group_actions:  # noqa: SLF001
            if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
                actions += _actions(action)
            elif action.help is not argparse.SUPPRESS and action.dest != "help":
                options.append(_option(parser, action))
        if group.title == GLOBAL_OPTIONS_TITLE:
            global_options = tuple(options)
        elif options:
            groups.append(OptionGroup(group.title or "options", tuple(options)))
    epilog = (parser.epilog or "").splitlines()
    return ParserDescription(
        parser.prog,
        _usage(parser),
        summary,
        tuple(groups),
        tuple(actions),
        global_options,
        tuple(line for line in epilog if line != "examples:"),
    )


def _actions(
    action: argparse._SubParsersAction[argparse.ArgumentParser],
) -> list[ParserDescription]:
    summaries = {choice.dest: choice.help or "" for choice in action._get_subactions()}  # noqa: SLF001
    return [describe(inner, summaries.get(name, "")) for name, inner in action.choices.items()]


def _usage(parser: argparse.ArgumentParser) -> str:
    words = [parser.prog]
    if any(action.option_strings for action in parser._actions):  # noqa: SLF001
        words.append("[OPTION ...]")
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            words.append("ACTION ...")
        elif not action.option_strings and action.help is not argparse.SUPPRESS:
            words.append(_values(parser, action))
    return " ".join(words)


def _option(parser: argparse.ArgumentParser, action: argparse.Action) -> DescribedOption:
    values = _values(parser, action)
    usage = ", ".join(action.option_strings)
    usage = f"{usage} {values}".strip() if usage else values
    text = ""
    if action.help:
        text = parser._get_formatter()._expand_help(action)  # noqa: SLF001
    return DescribedOption(usage, " ".join(text.split()))


def _values(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    usual = action.dest.upper() if action.option_strings else action.dest
    return parser._get_formatter()._format_args(action, usual)  # noqa: SLF001
