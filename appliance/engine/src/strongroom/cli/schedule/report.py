"""What a schedule says, and what systemd knows of it."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from strongroom.cli.schedule.run import checked_part
from strongroom.cli.schedule.units import SERVICE, TIMER, unit_texts
from strongroom.printable import printable

if TYPE_CHECKING:
    from strongroom.cli.schedule.machine import ScheduledMachine
    from strongroom.cli.schedule.service_manager import ServiceManager
    from strongroom.cli.terminal import Terminal


def report(machine: ScheduledMachine, manager: ServiceManager, state: str) -> dict[str, Any]:
    """As an object: what is set, whether the units say the same, the next run and the last."""
    settings = machine.settings
    folder = manager.unit_folder(os.environ)
    timer = manager.properties(TIMER, "ActiveState", "NextElapseUSecRealtime")
    service = manager.properties(
        SERVICE,
        *("ActiveState", "Result", "ExecMainStatus"),
        *("ExecMainStartTimestamp", "ExecMainExitTimestamp"),
    )
    began = service.get("ExecMainStartTimestamp", "")
    return {
        "configuration": machine.file,
        "name": settings.name,
        "repository": settings.repository,
        "fileset": settings.fileset,
        "events": list(settings.events),
        "randomized_delay_seconds": settings.randomized_delay_seconds,
        "keep": {} if settings.keep is None else _kept(asdict(settings.keep)),
        "minimum_retention_seconds": settings.minimum_retention_seconds,
        "check_parts": settings.check_parts,
        "checked_part": checked_part(state),
        "notify_command": settings.notify_command,
        "units": _state_of_units(machine, manager, folder),
        "timer": timer.get("ActiveState", ""),
        "next": timer.get("NextElapseUSecRealtime", ""),
        "running_since": began if service.get("ActiveState") == "activating" else "",
        "last": {
            "began": began,
            "ended": service.get("ExecMainExitTimestamp", ""),
            "result": service.get("Result", ""),
            "exit_code": int(service.get("ExecMainStatus") or 0),
        }
        if service.get("ExecMainExitTimestamp")
        else None,
    }


def write_report(found: dict[str, Any], terminal: Terminal) -> None:
    """For people, a line each."""
    delay = found["randomized_delay_seconds"]
    later = f", up to {_period(delay)} later" if delay else ""
    keep = ", ".join(_rule(kind, value) for kind, value in found["keep"].items())
    minimum = found["minimum_retention_seconds"]
    least = f"; nothing younger than {_period(minimum)} goes" if minimum else ""
    parts = found["check_parts"]
    lines = {
        "configuration": found["configuration"],
        "repository": found["repository"],
        "backed up": f"FileSet {found['fileset']}",
        "when": "; ".join(found["events"]) + later,
        "kept": f"{keep}{least}" if keep else "everything, for ever",
        "checked": f"one of {parts} parts with each run, last {found['checked_part']}"
        if parts
        else "never",
        "told of failures": found["notify_command"] or "nobody",
        "units": found["units"] + (f", timer {found['timer']}" if found["timer"] else ""),
        "next run": found["next"] or "none",
    }
    if found["running_since"]:
        lines["under way"] = f"since {found['running_since']}"
    if last := found["last"]:
        code = f", exit code {last['exit_code']}" if last["exit_code"] else ""
        lines["last run"] = f"{last['began']} to {last['ended']}: {last['result']}{code}"
    width = max(map(len, lines))
    for title, text in lines.items():
        terminal.line(f"{title:<{width}}  {printable(text)}")


def _state_of_units(machine: ScheduledMachine, manager: ServiceManager, folder: str) -> str:
    wanted = unit_texts(machine, user=manager.user)
    present = {name: _text(os.path.join(folder, name)) for name in wanted}
    if not any(present.values()):
        return "not installed; run `strongroom schedule install`"
    if present != wanted:
        return "installed, but they say something else; run `strongroom schedule install`"
    return "installed"


def _text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None


def _kept(rules: dict[str, Any]) -> dict[str, Any]:
    return {kind: value for kind, value in rules.items() if value}


def _rule(kind: str, value: Any) -> str:
    if kind == "within_seconds":
        return f"all of {_period(value)}"
    if kind == "tags":
        return f"tagged {' or '.join(value)}"
    return f"{value:,} {kind}"


def _period(seconds: int) -> str:
    for unit, length in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds % length == 0:
            return f"{seconds // length:,} {unit}"
    return f"{seconds:,} seconds"
