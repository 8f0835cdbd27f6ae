"""The first boot: applies an answer file once; the menu on the console is for the rest.

The answers are copied to this machine's disk before the first step, so that a power cut leaves them
there even if they came by a medium that is gone. Once all is done, the copy loses its secrets.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from strongroom.base.errors import ConfigurationError, StrongroomError
from strongroom.base.printable import printable
from strongroom.net.identities.private_files import SECRET_MODE
from strongroom_appliance.answers.model import VERSION, AnswerFile, without_secrets
from strongroom_appliance.answers.reading import examine, read_bytes
from strongroom_appliance.answers.writing import yaml_text
from strongroom_appliance.applying import apply
from strongroom_appliance.finding import Found, efi_partitions, find_answers, remove_from_efi
from strongroom_appliance.machine import STATE_FOLDER, Machine, is_live
from strongroom_appliance.next_steps import next_steps
from strongroom_appliance.state import State
from strongroom_appliance.steps.context import Context
from strongroom_appliance.steps.identity import make_identity

if TYPE_CHECKING:
    from collections.abc import Callable

KEPT: Final = f"{STATE_FOLDER}/answers.yml"
PENDING: Final = f"{STATE_FOLDER}/answers.pending.yml"
# The service does not start where this is.
READY: Final = f"{STATE_FOLDER}/ready"


def first_boot(say: Callable[[str], None]) -> None:
    """Make what every machine needs of its own, and apply an answer file if there is one."""
    state = State()
    if state.known.is_ready:
        # One that was set up by an older version.
        Machine().write(READY, "")
        say("this machine was set up before; nothing was changed")
        return
    make_identity(Context(Machine(), AnswerFile(version=VERSION), state, say))
    if is_live():
        say("started live: no answer file is looked for")
    elif not apply_found_answers(say):
        say("there is no answer file; the menu on the console sets this machine up")


def apply_found_answers(say: Callable[[str], None]) -> bool:
    """Look for an answer file and apply it; whether there is one.

    Raises StrongroomError; the console shows it, and the next time is a new attempt.
    """
    try:
        return _apply_found_answers(say)
    except StrongroomError as error:
        first, *others = str(error).split("\n")
        more = f" (and {len(others)} more: `journalctl -u strongroom-firstboot`)" if others else ""
        state = State()
        state.known.trouble = printable(first) + more
        state.write()
        raise


def _apply_found_answers(say: Callable[[str], None]) -> bool:
    state = State()
    found = _answers(is_again=bool(state.known.trouble))
    if found is None:
        return False
    say(f"answers from {found.where}")
    answers, faults = examine(found.data)
    if answers is None:
        raise ConfigurationError("\n".join(fault.text(found.where) for fault in faults))
    keep_pending(found.data)
    for device in efi_partitions():
        remove_from_efi(device)
    state.known.answers_from = found.where
    state.write()
    apply(answers, say)
    become_ready(answers)
    for line in next_steps():
        say(line)
    say("this machine is set up")
    return True


def _answers(*, is_again: bool) -> Found | None:
    """Those of an interrupted attempt; what failed may have been fixed on its medium."""
    kept = Found(read_bytes(PENDING), PENDING) if os.path.exists(PENDING) else None
    return find_answers() or kept if is_again else kept or find_answers()


def keep_pending(data: bytes) -> None:
    """Let answers survive a power cut."""
    text = data.decode("utf-8", "surrogateescape")
    Machine().write(PENDING, text, SECRET_MODE)


def become_ready(answers: AnswerFile) -> None:
    """All is done: forget the secrets, and do not do it again."""
    machine = Machine()
    machine.write(KEPT, yaml_text(without_secrets(answers)), SECRET_MODE)
    state = State()
    state.known.is_ready = True
    state.known.trouble = ""
    state.write()
    machine.remove(PENDING)
    machine.write(READY, "")
