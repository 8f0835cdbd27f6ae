"""`strongroom schedule`: backups of one machine by a systemd timer, without daemons."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from strongroom.cli.schedule.machine import read_machine, state_folder, usual_folder
from strongroom.errors import EXIT_DONE, OperatingSystemError, UsageError
from strongroom.printable import printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Collection

    from strongroom.cli.schedule.machine import ScheduledMachine
    from strongroom.cli.schedule.service_manager import ServiceManager
    from strongroom.cli.terminal import Terminal

EPILOG = """\
examples:
  strongroom schedule install                  what /etc/strongroom/machine.conf says, as root
  strongroom schedule install --user           ~/.config/strongroom/machine.conf, for one user
  strongroom schedule show
  strongroom schedule run                      now, in the foreground
  strongroom schedule notify                   try the Notify Command
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
        ("notify", _notify, "run the Notify Command, as a failed run does"),
    ):
        action = actions.add_parser(name, help=summary)
        action.add_argument(
            "--config",
            metavar="FOLDER",
            help="the folder with machine.conf, or the file (usual: /etc/strongroom, with --user "
            "~/.config/strongroom)",
        )
        action.add_argument("--user", action="store_true", help="a schedule of the present user")
        if name == "install":
            action.add_argument(
                "--into",
                metavar="FOLDER",
                help="only write the units there; systemd is not told",
            )
        if name == "notify":
            action.add_argument(
                "--failed", action="store_true", help="a run has failed; without it this is a test"
            )
        action.set_defaults(act=act)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Do the action. Raises UsageError, ConfigurationError, OperatingSystemError, LeaseError."""
    act: Callable[[argparse.Namespace, Terminal], int] = arguments.act
    return act(arguments, terminal)


def _install(arguments: argparse.Namespace, terminal: Terminal) -> int:
    from strongroom.cli.schedule.units import TIMER, unit_texts

    machine, manager = _machine(arguments, terminal), _manager(arguments)
    texts = unit_texts(machine, user=manager.user)
    folder = arguments.into or manager.unit_folder(os.environ)
    if not arguments.into:
        _require_right(manager)
        _require_repository(machine, arguments, terminal)
        manager.require_running()
    if not machine.settings.notify_command:
        terminal.warn("nobody is told of a failure: set Notify Command in the Machine resource")
    os.makedirs(folder, exist_ok=True)
    before = _present_units(folder)
    try:
        for name, text in texts.items():
            _write(os.path.join(folder, name), text)
        if not arguments.into:
            _remove_units(folder, keep=texts)
            manager.verify([os.path.join(folder, name) for name in texts])
            manager.call("daemon-reload")
            manager.call("enable", "--quiet", TIMER)
            # Takes up changed times, too.
            manager.call("restart", TIMER)
    except OperatingSystemError:
        # Units that nothing starts would look like a schedule.
        _remove_units(folder, keep=before)
        for name, text in before.items():
            _write(os.path.join(folder, name), text)
        raise
    terminal.emit({"type": "schedule_installed", "folder": folder, "units": sorted(texts)})
    terminal.line(f"{', '.join(sorted(texts))} are in {printable(folder)}")
    if manager.user and not arguments.into:
        terminal.line("they run while you are logged in; `loginctl enable-linger` changes that")
    return EXIT_DONE if arguments.into else _show(arguments, terminal)


def _remove(arguments: argparse.Namespace, terminal: Terminal) -> int:
    from strongroom.cli.schedule.units import TIMER

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
    from strongroom.cli.schedule.report import report, write_report

    machine = _machine(arguments, terminal)
    found = report(machine, _manager(arguments), state_folder(os.environ))
    terminal.emit({"type": "schedule", **found})
    write_report(found, terminal)
    return EXIT_DONE


def _run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    from strongroom.cli.schedule.run import run_once

    return run_once(_machine(arguments, terminal), state_folder(os.environ), terminal)


def _notify(arguments: argparse.Namespace, terminal: Terminal) -> int:
    from strongroom.cli.schedule.notice import tell_of_failure

    tell_of_failure(_machine(arguments, terminal), _manager(arguments), has_failed=arguments.failed)
    return EXIT_DONE


def _machine(arguments: argparse.Namespace, terminal: Terminal) -> ScheduledMachine:
    folder = usual_folder(arguments.settings.configuration_folder, user=arguments.user)
    machine = read_machine(arguments.config or folder)
    for warning in machine.warnings:
        terminal.warn(warning)
    return machine


def _manager(arguments: argparse.Namespace) -> ServiceManager:
    from strongroom.cli.schedule.service_manager import ServiceManager

    return ServiceManager(user=arguments.user)


def _require_right(manager: ServiceManager) -> None:
    if not manager.user and os.geteuid() != 0:
        raise UsageError(
            "a schedule of the system needs root; with --user you get one of your own, which "
            "backs up what you can read"
        )


def _require_repository(
    machine: ScheduledMachine, arguments: argparse.Namespace, terminal: Terminal
) -> None:
    """What would be wrong at night is said now: no repository there, or another passphrase."""
    from strongroom.cli.access import open_store
    from strongroom.cli.passphrase import passphrase_from_file
    from strongroom.repo.repository import Repository

    passphrase = passphrase_from_file(machine.settings.passphrase_file, terminal)
    store = open_store(machine.settings.repository, arguments.settings)
    try:
        Repository.open(store, passphrase)
    finally:
        store.close()


def _write(path: str, text: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(f"{path}.new", flags, 0o644), "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(f"{path}.new", path)
    except OSError as error:
        raise OperatingSystemError(f"cannot write {printable(path)}: {error.strerror}") from error


def _present_units(folder: str) -> dict[str, str]:
    """Our units in `folder`, by name."""
    from strongroom.cli.schedule.units import NOTICE, SERVICE, TIMER

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
    from strongroom.cli.schedule.units import NOTICE, SERVICE, TIMER

    removed = []
    for name in (SERVICE, TIMER, NOTICE):
        path = os.path.join(folder, name)
        if name not in keep and os.path.exists(path):
            os.unlink(path)
            removed.append(name)
    return removed
