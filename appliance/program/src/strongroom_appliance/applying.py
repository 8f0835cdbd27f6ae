"""Applying answers: the steps in their order, each reported before and after.

    identity  hostname  keyboard  network  time  admin
    updates  data_disk  repository_key  appliance  agents

A step that fails ends it; the next attempt begins with the first step again, and finds done what
is done. The administrator comes before the disk, so that there is a way in if the disk is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from strongroom.base.printable import printable
from strongroom_appliance.answers.model import AnswerFile
from strongroom_appliance.machine import Machine
from strongroom_appliance.running import fault_of
from strongroom_appliance.state import State, the_only_one
from strongroom_appliance.steps.admin import set_admin
from strongroom_appliance.steps.context import Context
from strongroom_appliance.steps.data_disk import set_data_disk
from strongroom_appliance.steps.identity import make_identity
from strongroom_appliance.steps.naming import set_hostname, set_keyboard, set_time
from strongroom_appliance.steps.network import set_network
from strongroom_appliance.steps.repository import import_key, make_tokens, set_up
from strongroom_appliance.steps.updating import set_updates

Step = tuple[str, "Callable[[Context], None]"]

# In this order; `identity` is done always, the others if the answers have their part.
STEPS: Final[tuple[Step, ...]] = (
    ("identity", make_identity),
    ("hostname", set_hostname),
    ("keyboard", set_keyboard),
    ("network", set_network),
    ("time", set_time),
    ("admin", set_admin),
    ("updates", set_updates),
    ("data_disk", set_data_disk),
    ("repository_key", import_key),
    ("appliance", set_up),
    ("agents", make_tokens),
)


def apply(answers: AnswerFile, say: Callable[[str], None]) -> list[str]:
    """Do all steps that the answers have a part for; what was changed. Raises StrongroomError."""
    changed = []
    with the_only_one():
        state = State()
        for name, act in STEPS:
            if name != "identity" and getattr(answers, name) is None:
                continue
            context = Context(Machine(), answers, state, say)
            say(name)
            state.begin(name)
            try:
                act(context)
            except Exception as error:
                fault = fault_of(f"the step `{name}`", error)
                state.end(name, context.done, printable(str(fault)))
                if fault is error:
                    raise
                raise fault from error
            state.end(name, context.done)
            changed += context.done
    return changed
