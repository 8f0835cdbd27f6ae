"""`strongroom schedule`: backups of one machine by a systemd timer, without daemons."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from strongroom.base.errors import EXIT_DONE, OperatingSystemError, UsageError, os_errors
from strongroom.base.printable import printable
from strongroom.cli.schedule.machine import (
    ScheduledMachine,
    read_machine,
    state_folder,
    usual_folder,
)
from strongroom.cli.schedule.run import checked_part, run_once, tell_of_failure
from strongroom.cli.schedule.units import NOTICE, SERVICE, TIMER, ServiceManager, unit_texts
from strongroom.cli.terminal import Terminal
from strongroom.net.identities.private_files import PUBLIC_MODE, write_file


# What is configured, and what systemd knows of it.
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
        "notify": [f"{one.name}/{block.name}" for one in machine.messages for block in one.notify],
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
    least = f"; nothing younger than {_period(minimum)} is removed" if minimum else ""
    parts = found["check_parts"]
    lines = {
        "configuration": found["configuration"],
        "repository": found["repository"],
        "backed up": f"FileSet {found['fileset']}",
        "when": "; ".join(found["events"]) + later,
        "kept": f"{keep}{least}" if keep else "everything, without limit",
        "checked": f"one of {parts} parts with each run, last {found['checked_part']}"
        if parts
        else "never",
        "notified of failures": ", ".join(filter(None, (*found["notify"], found["notify_command"])))
        or "no one",
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
        return "installed, but out of date; run `strongroom schedule install`"
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


EPILOG = """\
examples:
  strongroom schedule install                  what /etc/strongroom/machine.conf says, as root
  strongroom schedule install --user           ~/.config/strongroom/machine.conf, for one user
  strongroom schedule show
  strongroom schedule run                      now, in the foreground
  strongroom schedule notify                   try how people are notified
  strongroom schedule remove                   leaves configuration and backups alone

The units are strongroom-backup.timer and strongroom-backup.service; `journalctl -u
strongroom-backup` shows each run. After a change of the configuration, run install again.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    actions = parser.add_subparsers(title="actions", required=True, metavar="ACTION")
    for name, act, summary in (
        ("install", _install, "write the timer and start it; also after a change"),
        ("remove", _remove, "stop the timer and remove it"),
        ("show", _show, "show what is set, when the next run is and how the last one ended"),
        ("run", _run, "back up, forget and prune, and check a part, as the timer does"),
        ("notify", _notify, "notify people, as a failed run does"),
    ):
        action = actions.add_parser(name, help=summary)
        action.add_argument(
            "--config",
            metavar="FOLDER",
            help="the folder with machine.conf, or the file (default: /etc/strongroom, with --user "
            "~/.config/strongroom)",
        )
        action.add_argument("--user", action="store_true", help="a schedule of the present user")
        if name == "install":
            action.add_argument(
                "--into",
                metavar="FOLDER",
                help="only write the units there, without systemctl",
            )
        if name == "notify":
            action.add_argument(
                "--failed", action="store_true", help="a run has failed; without it this is a test"
            )
        action.set_defaults(run=act)


def _install(arguments: argparse.Namespace, terminal: Terminal) -> int:
    machine, manager = _machine(arguments, terminal), _manager(arguments)
    texts = unit_texts(machine, user=manager.user)
    folder = arguments.into or manager.unit_folder(os.environ)
    if not arguments.into:
        _require_right(manager)
        _require_repository(machine, arguments, terminal)
        manager.require_running()
    if not machine.notifies:
        terminal.warn(
            "failures are not reported: add a Messages resource with a Notify block, or a "
            "Notify Command"
        )
    if not arguments.into:
        with tempfile.TemporaryDirectory() as trial:
            manager.verify(_written(trial, texts))
    os.makedirs(folder, exist_ok=True)
    before = _present_units(folder)
    try:
        _written(folder, texts)
        if not arguments.into:
            _remove_units(folder, keep=texts)
            manager.call("daemon-reload")
            manager.call("enable", "--quiet", TIMER)
            # Takes up changed times, too.
            manager.call("restart", TIMER)
    except OperatingSystemError:
        # Units that nothing starts would look like a schedule.
        _remove_units(folder, keep=before)
        _written(folder, before)
        raise
    terminal.emit({"type": "schedule_installed", "folder": folder, "units": sorted(texts)})
    terminal.line(f"{', '.join(sorted(texts))} are in {printable(folder)}")
    if manager.user and not arguments.into:
        terminal.line("they run while you are logged in; `loginctl enable-linger` changes that")
    return EXIT_DONE if arguments.into else _show(arguments, terminal)


def _remove(arguments: argparse.Namespace, terminal: Terminal) -> int:
    manager = _manager(arguments)
    folder = manager.unit_folder(os.environ)
    _require_right(manager)
    runs = manager.is_running()
    if runs and os.path.exists(os.path.join(folder, TIMER)):
        manager.call("disable", "--now", "--quiet", TIMER)
    removed = _remove_units(folder, keep=())
    if runs and removed:
        manager.call("daemon-reload")
    terminal.emit({"type": "schedule_removed", "folder": folder, "units": removed})
    terminal.line(f"{', '.join(removed) or 'nothing'} removed from {printable(folder)}")
    return EXIT_DONE


def _show(arguments: argparse.Namespace, terminal: Terminal) -> int:
    machine = _machine(arguments, terminal)
    found = report(machine, _manager(arguments), state_folder(os.environ))
    terminal.emit({"type": "schedule", **found})
    write_report(found, terminal)
    return EXIT_DONE


def _run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    return run_once(_machine(arguments, terminal), state_folder(os.environ), terminal)


def _notify(arguments: argparse.Namespace, terminal: Terminal) -> int:
    folder = state_folder(os.environ)
    machine, manager = _machine(arguments, terminal), _manager(arguments)
    tell_of_failure(machine, manager, folder, has_failed=arguments.failed)
    if not arguments.failed:
        terminal.line("the test was sent")
    return EXIT_DONE


def _machine(arguments: argparse.Namespace, terminal: Terminal) -> ScheduledMachine:
    folder = usual_folder(arguments.settings.configuration_folder, user=arguments.user)
    machine = read_machine(arguments.config or folder)
    for warning in machine.warnings:
        terminal.warn(warning)
    return machine


def _manager(arguments: argparse.Namespace) -> ServiceManager:
    return ServiceManager(user=arguments.user)


def _require_right(manager: ServiceManager) -> None:
    if not manager.user and os.geteuid() != 0:
        raise UsageError(
            "a schedule of the system needs root; use --user for your own, which backs "
            "up what you can read"
        )


def _require_repository(
    machine: ScheduledMachine, arguments: argparse.Namespace, terminal: Terminal
) -> None:
    """Fail now at what would fail at night: no repository there, or another passphrase."""
    from strongroom.cli.access import open_store
    from strongroom.cli.passphrase import passphrase_from_file
    from strongroom.engine.repository.repository import Repository

    passphrase = passphrase_from_file(machine.settings.passphrase_file, terminal)
    store = open_store(machine.settings.repository, arguments.settings)
    try:
        Repository.open(store, passphrase)
    finally:
        store.close()


def _written(folder: str, texts: Mapping[str, str]) -> list[str]:
    """Write the units; returns their paths."""
    paths = [os.path.join(folder, name) for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        with os_errors(f"cannot write {printable(path)}", kind=OperatingSystemError):
            write_file(os.fsencode(path), text.encode(), PUBLIC_MODE)
    return paths


def _present_units(folder: str) -> dict[str, str]:
    """Our units in `folder`, by name."""
    found = {}
    for name in (SERVICE, TIMER, NOTICE):
        with (
            suppress(FileNotFoundError),
            open(os.path.join(folder, name), encoding="utf-8") as file,
        ):
            found[name] = file.read()
    return found


def _remove_units(folder: str, keep: Collection[str]) -> list[str]:
    """Remove our units from `folder` but those of `keep`; the names of what went."""
    removed = []
    for name in (SERVICE, TIMER, NOTICE):
        path = os.path.join(folder, name)
        if name not in keep and os.path.exists(path):
            os.unlink(path)
            removed.append(name)
    return removed
