"""Options of the command line, generated from the table of knobs."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from strongroom.base.errors import UsageError
from strongroom.engine.knobs.knob import Knob
from strongroom.engine.knobs.table import BACKUP_KNOBS

if TYPE_CHECKING:
    from strongroom.engine.knobs.settings import KnobSettings


def add_knob_options(group: argparse._ArgumentGroup) -> None:
    """Add an option for every knob of a backup; None where not given."""
    for knob in BACKUP_KNOBS:
        option = knob.option
        assert option is not None
        if knob.kind == "switch":
            group.add_argument(option.flag, dest=knob.name, action="store_const",
                               const=not knob.default, help=option.help)  # fmt: skip
        else:
            group.add_argument(option.flag, dest=knob.name, metavar=option.metavar,
                               type=_number(knob) if knob.kind == "number" else str,
                               help=option.help)  # fmt: skip


def knob_settings(arguments: argparse.Namespace) -> KnobSettings:
    """The values of the knobs on the command line, unchecked."""
    from strongroom.engine.knobs.settings import KnobSettings

    return KnobSettings(**{knob.name: getattr(arguments, knob.name) for knob in BACKUP_KNOBS})


def _number(knob: Knob) -> Callable[[str], int]:
    def number(text: str) -> int:
        try:
            return int(text)
        except ValueError:
            raise UsageError(f"{text!r}: write {knob.expected}") from None

    return number
