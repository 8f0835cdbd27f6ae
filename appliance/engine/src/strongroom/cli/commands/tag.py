"""`strongroom tag`: change the tags of snapshots."""

from __future__ import annotations

import argparse

from strongroom.base.errors import UsageError
from strongroom.cli.commands.rewrite import add_choice, replace_chosen
from strongroom.cli.options import may_be_empty, words
from strongroom.cli.terminal import Terminal

EPILOG = """\
examples:
  strongroom tag latest --add before-upgrade
  strongroom tag --host web1 --tag daily --remove daily --add weekly
  strongroom tag 3f2a91c0 --set release,2026
  strongroom tag 3f2a91c0 --set ''                 no tags

A snapshot cannot be changed: a new one with the same content takes its place, so its id changes;
`original` of `snapshots --json` names the first one. Nothing but the list of its pages is stored
again.

A storage daemon keeps the old one beside it until its Minimum Retention has passed (exit code 36).
Tags that say which run and pool of the director a snapshot is of stay.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the snapshots and what to do with their tags."""
    group = parser.add_argument_group("the tags")
    for name, what in (
        ("add", "add these"),
        ("remove", "remove these"),
        ("set", "exactly these instead of all others; '' for none"),
    ):
        read = may_be_empty(words) if name == "set" else words
        group.add_argument(f"--{name}", metavar="TAG[,TAG]", type=read, action="extend",
                           help=what)  # fmt: skip
    add_choice(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Replace the snapshots whose tags change."""
    from strongroom.engine.copy.rewrite import Changes, TagChanges

    if arguments.set is None and not (arguments.add or arguments.remove):
        raise UsageError("say which tags to --add, --remove or --set")
    if arguments.set is not None and (arguments.add or arguments.remove):
        raise UsageError("--set states all tags; leave out --add and --remove")
    exactly = None if arguments.set is None else tuple(arguments.set)
    tags = TagChanges(tuple(arguments.add or ()), tuple(arguments.remove or ()), exactly)
    return replace_chosen(arguments, terminal, Changes(tags))
