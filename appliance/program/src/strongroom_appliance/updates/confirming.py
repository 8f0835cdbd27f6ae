"""What is done at each start: a root that is being tried is found good or given up.

Whatever ends this program, or the machine, before a root was found good leaves it with the tries
that GRUB has counted. In a root that was good already it only says what became of an update. A root
is good if the system does what it is for: people reach it, the daemons answer, backups can be read.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final

from strongroom.base import clock
from strongroom.base.errors import CheckFailedError, StrongroomError
from strongroom.base.interpreter import SAFE_FOLDER, module_command
from strongroom.base.printable import printable
from strongroom.cli.setup.answer_file import read_answers
from strongroom.engine.repository.repository import Repository
from strongroom.engine.stores.local import LocalStore
from strongroom.net.identities.private_files import read_bounded
from strongroom_appliance.disks.unlocking import is_waiting
from strongroom_appliance.machine import (
    SETUP_ANSWERS,
    is_active,
    is_enabled,
    run_for_code,
    shown,
)
from strongroom_appliance.updates.record import UpdateRecord, read_record, write_record
from strongroom_appliance.updates.slots import GOOD, LEFT, Running, change_states, running, states

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE_SECONDS: Final = 900
_PAUSE_SECONDS: Final = 5
_NEVER_GOOD: Final = "it was started three times, and was not found good once"

# Units of the system without which no one reaches the machine.
_NEEDED: Final = ("systemd-networkd.service", "nftables.service", "strongroom-console.service")
_DAEMONS: Final = ("strongroom-storage.service", "strongroom-director.service")
_STARTING: Final = ("initializing", "starting")
_MOST_BYTES: Final = 4096


def confirm(patience_seconds: float, say: Callable[[str], None]) -> None:
    """Keep this root if it works, or go back. Raises CheckFailedError if this root is given up."""
    now = running()
    if now is None:
        return
    if not now.is_trial:
        _report(now, say)
        return
    reasons = _reasons(patience_seconds)
    if not reasons:
        change_states(**{f"{now.slot}_state": GOOD})
        _remember(now, "good", [])
        say(f"root {now.slot} ({now.image}) is good")
        return
    # Without a state it is given up all the same, when its tries are counted down.
    change_states(**{f"{now.slot}_state": LEFT})
    _remember(now, "failed", reasons)
    raise CheckFailedError(
        f"root {now.slot} ({now.image}) is given up, and the other one is started: "
        f"{'; '.join(reasons)}"
    )


def _reasons(patience_seconds: float) -> list[str]:
    """Why this system is not healthy, when it had time enough."""
    ends = clock.elapsed_seconds() + patience_seconds
    while True:
        try:
            found = _faults()
        except (StrongroomError, OSError) as error:
            found = [printable(str(error), 200)]
        if not found or clock.elapsed_seconds() > ends:
            return found
        time.sleep(_PAUSE_SECONDS)


def _remember(now: Running, result: str, reasons: list[str]) -> None:
    record = read_record()
    if record is None or record.image != now.image:
        record = UpdateRecord(slot=now.slot, image=now.image, version="", result="written")
    record.result = "good" if result == "good" else "failed"
    record.reasons = reasons
    write_record(record)


def _report(now: Running, say: Callable[[str], None]) -> None:
    record = read_record()
    if record is None or record.slot == now.slot:
        return
    if record.result == "written" and states().get(f"{record.slot}_state") == LEFT:
        record.result = "failed"
        record.reasons = [_NEVER_GOOD]
        write_record(record)
    if record.result == "failed":
        why = "; ".join(record.reasons)
        say(f"the update to {printable(record.image)} failed, root {now.slot} runs on: {why}")


def _faults() -> list[str]:
    """Why this system is not as it should be, in words; none if it is healthy.

    A machine that is not set up has no daemons, and one whose data disk is encrypted cannot start
    them until somebody unlocks it; all else is asked of these, too.
    """
    state = run_for_code(["systemctl", "is-system-running"])[1].split()
    if state and state[0] in _STARTING:
        return ["it has not started yet"]
    found = [f"{unit} is not active" for unit in _NEEDED if not is_active(unit)]
    if is_enabled("ssh.service") and _has_keys() and not is_active("ssh.service"):
        found.append("ssh.service is not active")
    configured = [] if is_waiting() else [unit for unit in _DAEMONS if _is_configured(unit)]
    inactive = [f"{unit} is not active" for unit in configured if not is_active(unit)]
    if not configured or inactive:
        return found + inactive
    return found + _director_faults() + _repository_faults()


def _is_configured(unit: str) -> bool:
    """Whether systemd started it, or tried to: a daemon without a configuration is passed over."""
    output = run_for_code(["systemctl", "show", "--property=ConditionResult", "--value", unit])[1]
    return output.strip() == "yes"


def _has_keys() -> bool:
    folder = "/etc/ssh/strongroom-keys"
    return os.path.isdir(folder) and bool(os.listdir(folder))


def _director_faults() -> list[str]:
    code, output = run_for_code(
        module_command("strongroom", "--json", "status"), folder=SAFE_FOLDER
    )
    return [f"the director does not answer: {shown(output)}"] if code else []


def _repository_faults() -> list[str]:
    """The key of the director must open the repository."""
    if not os.path.exists(SETUP_ANSWERS):
        return []
    try:
        answers = read_answers(SETUP_ANSWERS)
        path = answers.below_state("director", "passphrase")
        passphrase = read_bounded(os.fsencode(path), _MOST_BYTES).split(b"\n", 1)[0]
        Repository.open(LocalStore(answers.repository), passphrase).close()
    except (StrongroomError, OSError) as error:
        return [f"the repository does not open: {printable(str(error), 200)}"]
    return []
