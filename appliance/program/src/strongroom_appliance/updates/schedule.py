"""Updates that come by themselves: once a day, from the place that setup wrote down."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Final

import msgspec

from strongroom.base import clock
from strongroom.base.errors import ConfigurationError
from strongroom.base.interpreter import SAFE_FOLDER, module_command
from strongroom.net.identities.private_files import read_bounded
from strongroom_appliance.machine import run, run_for_code
from strongroom_appliance.state import State
from strongroom_appliance.updates.writing import write_update

SCHEDULE_FILE: Final = "/etc/strongroom-appliance/updates.json"
CALENDAR_FILE: Final = "/etc/systemd/system/strongroom-update.timer.d/50-answers.conf"
_MOST_BYTES: Final = 64 << 10
# A restart interrupts runs, and they are resumed; one that never ends keeps no update away.
_LONGEST_WAIT_SECONDS: Final = 2 * 3600
_PAUSE_SECONDS: Final = 30


class _Schedule(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    source: str
    restarts: bool


def schedule_text(source: str, *, restarts: bool) -> str:
    """The file."""
    return json.dumps({"source": source, "restarts": restarts}, indent=1) + "\n"


def update_as_scheduled(say: Callable[[str], None]) -> None:
    """Get the update of the day, and restart if that is permitted. Raises StrongroomError."""
    try:
        schedule = msgspec.json.decode(
            read_bounded(os.fsencode(SCHEDULE_FILE), _MOST_BYTES), type=_Schedule
        )
    except FileNotFoundError as error:
        raise ConfigurationError(
            "no source of updates is set; apply answers with `updates: {source: ...}`"
        ) from error
    except msgspec.MsgspecError as error:
        raise ConfigurationError(f"{SCHEDULE_FILE}: {error}; apply the answers again") from error
    written = write_update(schedule.source, is_older_wanted=False, say=say)
    if not written.is_new:
        say("what runs is the newest")
        return
    plan = State().known.disk
    if not schedule.restarts:
        say("the next restart tries it")
    elif plan is not None and plan.encryption == "passphrase":
        say("the next restart tries it: an operator must unlock the data disk")
    else:
        _wait_for_runs(say)
        say("restarts")
        run(["systemctl", "--no-block", "reboot"])


def _wait_for_runs(say: Callable[[str], None]) -> None:
    ends = clock.elapsed_seconds() + _LONGEST_WAIT_SECONDS
    is_logged = False
    while clock.elapsed_seconds() < ends and _has_runs():
        if not is_logged:
            say("waits until no job runs")
            is_logged = True
        time.sleep(_PAUSE_SECONDS)


def _has_runs() -> bool:
    """Whether the director has jobs that run; a director that is off has none."""
    code, output = run_for_code(
        module_command("strongroom", "--json", "status"), folder=SAFE_FOLDER
    )
    if code:
        return False
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return any(one.get("active") for one in lines if one.get("type") == "status")
