"""Notices of a machine without daemons: how runs end, to the Notify blocks of its Messages.

A failure is reported after each run that fails, until one succeeds: then those who were notified
hear that it is over. A file of the state folder holds what was reported.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

import msgspec

from strongroom.base import clock
from strongroom.base.clock import local_text
from strongroom.base.errors import EXIT_DONE, EXIT_INCOMPLETE, NoticeError, PathMissingError
from strongroom.base.printable import printable
from strongroom.cli.schedule.machine import ScheduledMachine

_FILE: Final = "notified"
# Exit code -> condition of the table; every other one is a failed job.
_EVENTS: Final = {
    EXIT_INCOMPLETE: "job-incomplete",
    PathMissingError.exit_code: "path-missing",
}


class _Condition(msgspec.Struct):
    """A condition that lasts, and the keys of the destinations that know of it."""

    incident: str
    event: str
    severity: str
    title: str
    since_ns: int
    keys: list[str]


def tell_of_run(
    machine: ScheduledMachine, folder: str, exit_code: int, what: str = "", journal: str = ""
) -> list[str]:
    """Tell the destinations that want to know how a run ended; what could not be sent, a line each.

    what: after `the backup of NAME`. journal: added to the text.
    """
    if not any(one.notify for one in machine.messages):
        return []
    condition = _read(folder)
    event = "" if exit_code == EXIT_DONE else _EVENTS.get(exit_code, "job-failed")
    failures: list[str] = []
    if condition is not None and condition.event != event:
        failures += _send(machine, condition, "resolved", "", "")
        if failures and not event:
            # The next good run tries again.
            _write(folder, condition)
            return failures
        _remove(folder)
        condition = None
    if event:
        from strongroom.config.values.notice_events import CONDITIONS

        name = printable(machine.settings.name)
        is_new = condition is None
        if condition is None:
            title = f"the backup of {name} {what or 'could not read some files'}"
            severity = CONDITIONS[event].severity
            incident = clock.random_bytes(8).hex()
            condition = _Condition(incident, event, severity, title, clock.now_ns(), [])
        failures += _send(machine, condition, "open" if is_new else "reminder", what, journal)
        _write(folder, condition)
    return failures


def send_tests(machine: ScheduledMachine, wanted: str) -> list[tuple[str, str]]:
    """Send a test to the Notify blocks of a name, "" for all: each, and why it failed or ""."""
    from strongroom.service.notices.letter import Letter
    from strongroom.service.notices.senders import send_notice
    from strongroom.service.notices.targets import notice_targets

    name = printable(machine.settings.name)
    found = []
    for target in (one for messages in machine.messages for one in notice_targets(messages)):
        shown = target.key.partition(":")[0]
        if wanted not in ("", target.notify.name, shown):
            continue
        letter = Letter(
            id=clock.random_bytes(16).hex(),
            director=name,
            subject=f"[{name}] test",
            text="A test of the notices, sent by `strongroom notify test`.\n",
        )
        try:
            send_notice(target, letter)
        except NoticeError as error:
            found.append((shown, str(error)))
        else:
            found.append((shown, ""))
    return found


def _send(
    machine: ScheduledMachine, condition: _Condition, phase: str, detail: str, journal: str
) -> list[str]:
    """Send to those who want it; `condition` notes who knows."""
    from strongroom.service.notices.letter import notice_letter
    from strongroom.service.notices.senders import send_notice
    from strongroom.service.notices.targets import notice_targets

    is_over = phase == "resolved"
    notice = {
        "incident": condition.incident,
        "topic": "machine",
        "event": condition.event,
        "state": "resolved" if is_over else "open",
        "severity": condition.severity,
        "job": "scheduled",
        "client": printable(machine.settings.name),
        "storage": printable(machine.settings.repository),
        "title": condition.title,
        "detail": detail,
        "remedy": "" if is_over else "strongroom schedule show; journalctl -u strongroom-backup",
        "since": local_text(condition.since_ns),
        "until": local_text(clock.now_ns()) if is_over else "",
        "reminder": phase == "reminder",
    }
    failures = []
    for target in (one for messages in machine.messages for one in notice_targets(messages)):
        wants = target.notify.tells_resolved if is_over else condition.event in target.notify.events
        if not wants or (is_over and target.key not in condition.keys):
            continue
        letter_id = clock.random_bytes(16).hex()
        letter = notice_letter(letter_id, machine.settings.name, [notice])
        letter = msgspec.structs.replace(letter, text=letter.text + journal)
        try:
            send_notice(target, letter)
        except NoticeError as error:
            failures.append(f"{printable(target.key.partition(':')[0])}: {error}")
        else:
            condition.keys = sorted(
                {*condition.keys, target.key} - ({target.key} if is_over else set())
            )
    return failures


def _read(folder: str) -> _Condition | None:
    try:
        with open(os.path.join(folder, _FILE), "rb") as file:
            return msgspec.json.decode(file.read(), type=_Condition)
    except (OSError, msgspec.DecodeError):
        return None


def _write(folder: str, condition: _Condition) -> None:
    path = os.path.join(folder, _FILE)
    with open(f"{path}.new", "wb") as file:
        file.write(msgspec.json.encode(condition))
    os.replace(f"{path}.new", path)


def _remove(folder: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, _FILE))
