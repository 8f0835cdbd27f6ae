"""How words of the command line are parsed: options anywhere, never abbreviated.

argparse gives the positional words before an option to all positional arguments, so a PATH that may
be left out would be none after `SNAPSHOT --host web1`. Options are therefore moved to the front, as
getopt of GNU does, before argparse sees the words.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, NoReturn

from strongroom.base.errors import UsageError
from strongroom.base.printable import printable

# What has all words after it, which another parser or program reads.
_WORDS_OF_OTHERS: Final = (argparse.PARSER, argparse.REMAINDER)
_NEGATIVE_NUMBER: Final = re.compile(r"-\d+|-\d*\.\d+")


class CommandParser(argparse.ArgumentParser):
    """An argument parser whose errors are UsageErrors and whose options are never abbreviated.

    A script that uses `--verb` would break, or change its meaning, when a release adds an option.
    """

    def __init__(self, **options: object) -> None:
        options.setdefault("allow_abbrev", False)
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(**options)  # type: ignore[arg-type]

    def error(self, message: str) -> NoReturn:
        """Raise UsageError; argparse calls this on every parse error."""
        text = f"{message}; see `{self.prog} --help`"
        raise UsageError(text)

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        """Parse all words. Raises UsageError, also for a word too many."""
        parsed, rest = self.parse_known_args(args, namespace)
        if rest := [word for word in rest if word != "--"]:
            options = self._option_string_actions
            self.error(unknown_option(rest[0], options) or f"unexpected `{printable(rest[0])}`")
        return parsed

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse words whose options and positional arguments are in any order."""
        words = list(args or ())
        if not any(action.nargs in _WORDS_OF_OTHERS for action in self._actions):
            words = self._options_first(words)
        return super().parse_known_args(words, namespace)

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """What an option gives; a UsageError of its type is reported with its name.

        An empty word is refused unless the type takes it (`may_be_empty`) or it is the default: it
        is a variable that a script did not set, and `--target ''` must not mean the present folder,
        nor `--tag ''` every snapshot.
        """
        if not arg_string and action.nargs not in _WORDS_OF_OTHERS:
            takes_it = action.default == "" or getattr(action.type, "takes_empty", False)
            if not takes_it:
                name = action.option_strings[-1:] or [str(action.metavar or action.dest)]
                self.error(f"{name[0]} is empty; give it a value, or leave it out")
        try:
            return super()._get_value(action, arg_string)
        except UsageError as error:
            raise argparse.ArgumentError(action, str(error)) from error

    def _options_first(self, words: list[str]) -> list[str]:
        options: list[str] = []
        plain: list[str] = []
        position = 0
        while position < len(words):
            word = words[position]
            position += 1
            if word == "--":
                plain += words[position:]
                break
            if not self._is_option(word):
                plain.append(word)
                continue
            options.append(word)
            least, most = self._values_of(word)
            taken = 0
            while taken < most and position < len(words) and not self._is_option(words[position]):
                options.append(words[position])
                position += 1
                taken += 1
            if taken < least:
                return words  # argparse says what is missing
        return [*options, "--", *plain] if plain else options

    def _is_option(self, word: str) -> bool:
        if len(word) < 2 or not word.startswith("-"):
            return False
        known = word.partition("=")[0] in self._option_string_actions
        return known or not (" " in word or _NEGATIVE_NUMBER.fullmatch(word))

    def _values_of(self, word: str) -> tuple[int, int]:
        """How many words after an option are its values, at least and at most."""
        action = self._option_string_actions.get(word)
        if action is None and not word.startswith("--"):
            # Short options in one word: the first that takes a value has the rest.
            for place, letter in enumerate(word[1:], 1):
                action = self._option_string_actions.get(f"-{letter}")
                if action is None or (_range(action)[1] and place < len(word) - 1):
                    return 0, 0
        return (0, 0) if action is None else _range(action)


def unknown_option(word: str, known: Iterable[str]) -> str:
    """What is wrong with `word`, with the nearest of the `known`; "" if it is not an option."""
    if not word.startswith("-"):
        return ""
    from difflib import get_close_matches

    near = get_close_matches(word, known, n=1)
    return f"unknown option `{printable(word)}`" + (f"; did you mean `{near[0]}`?" if near else "")


def _range(action: argparse.Action) -> tuple[int, int]:
    many = 1 << 30
    ranges: dict[Any, tuple[int, int]] = {
        None: (1, 1),
        argparse.OPTIONAL: (0, 1),
        argparse.ZERO_OR_MORE: (0, many),
        argparse.ONE_OR_MORE: (1, many),
    }
    if isinstance(action.nargs, int):
        return action.nargs, action.nargs
    return ranges[action.nargs]
