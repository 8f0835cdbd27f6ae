"""A form whose content becomes a part of the answers and is applied."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from strongroom.appliance import first_boot
from strongroom.appliance.answers.writing import yaml_text
from strongroom.appliance.applying import apply
from strongroom.appliance.console.forms import checked, kept_answers, merged
from strongroom.appliance.machine import Machine
from strongroom.appliance.next_steps import next_steps
from strongroom.errors import StrongroomError
from strongroom.net.identities.private_files import SECRET_MODE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from strongroom.appliance.answers.model import AnswerFile
    from strongroom.appliance.console.fields import Field
    from strongroom.appliance.console.screen import Screen


def fill_in_and_apply(
    screen: Screen,
    title: str,
    fields: Callable[[AnswerFile], Sequence[Field]],
    part: Callable[[Mapping[str, str]], dict[str, Any]],
    head: Sequence[str] = (),
    *,
    is_last: bool = False,
) -> None:
    """Show the form until it is right, then apply it. is_last: the machine is set up then."""
    form = list(fields(kept_answers()))
    faults: list[str] = []
    while True:
        filled = screen.form(title, form, faults, head)
        if filled is None:
            return
        form = [_refilled(one, filled) for one in form]
        try:
            answers, faults = checked(part(filled))
            if answers is None:
                continue
            changed = apply(answers, screen.log(title))
        except StrongroomError as error:
            faults = [str(error)]
            continue
        kept = merged(kept_answers(), answers)
        Machine().write(first_boot.KEPT, yaml_text(kept), SECRET_MODE)
        done = ["Done:", "", *changed] if changed else ["It was like this already."]
        if is_last:
            first_boot.become_ready(kept)
        screen.text(title, [*done, "", *next_steps()])
        return


def _refilled(field: Field, filled: Mapping[str, str]) -> Field:
    return replace(field, value=filled[field.name])
