"""What is done at each start: a root that is being tried is found good or given up.

Whatever ends this program, or the machine, before a root was found good leaves it with the tries
that GRUB has counted. In a root that was good already it only says what became of an update.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from strongroom import clock
from strongroom.appliance.updates.health import faults
from strongroom.appliance.updates.record import UpdateRecord, read_record, write_record
from strongroom.appliance.updates.slots import GOOD, LEFT, Running, change_states, running, states
from strongroom.errors import CheckFailedError, StrongroomError
from strongroom.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE_SECONDS: Final = 900
_PAUSE_SECONDS: Final = 5
_NEVER_GOOD: Final = "it was started three times, and was not found good once"


def confirm(patience_seconds: float, say: Callable[[str], None]) -> None:
    """See the module. Raises CheckFailedError if this root is given up."""
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
            found = faults()
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
