"""The configuration of this machine: where it lies, and what it says."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from strongroom.base.errors import ConfigurationError, UsageError
from strongroom.base.printable import printable
from strongroom.cli.settings import USUAL_CONFIGURATION
from strongroom.config.filesets import MACHINE_FILE

if TYPE_CHECKING:
    from strongroom.config.settings.machine import MachineSettings
    from strongroom.config.settings.messages import MessagesSettings

SYSTEM_STATE_FOLDER = "/var/lib/strongroom/machine"


@dataclass(frozen=True, slots=True)
class ScheduledMachine:
    """What `file`, an absolute path, says; and warnings of it.

    messages: those of its Messages resources.
    """

    file: str
    settings: MachineSettings
    warnings: tuple[str, ...]
    messages: tuple[MessagesSettings, ...] = ()

    @property
    def notifies(self) -> bool:
        """Whether anybody is notified of a failure."""
        return bool(self.settings.notify_command or any(one.notify for one in self.messages))


def read_machine(path: str) -> ScheduledMachine:
    """Read `path`, a file machine.conf or the folder with one.

    Raises UsageError, ConfigurationError.
    """
    from strongroom.config.resolve import accepted, resolve
    from strongroom.config.settings.machine import MachineSettings
    from strongroom.config.settings.messages import MessagesSettings
    from strongroom.config.trees.loader import LoadOptions, load_trees

    # A folder that is not there is meant as a folder, unless it ends like a file.
    is_file = os.path.isfile(path) or path.endswith(".conf")
    file = path if is_file else os.path.join(path, MACHINE_FILE)
    if os.path.basename(file) != MACHINE_FILE:
        raise UsageError(
            f"{printable(path)}: the file must be named {MACHINE_FILE}, or be in the folder given"
        )
    if not os.path.isfile(file):
        raise UsageError(
            f"there is no {printable(file)}; docs/guides/single-machine.md shows one to begin with"
        )
    loaded = load_trees(file, LoadOptions(), "machine")
    configuration = resolve(loaded)
    warnings = accepted(loaded.diagnostics, file)
    machine = None if configuration.machine is None else configuration.machine.daemon
    if configuration.machine is None or machine is None:
        raise ConfigurationError(f"{printable(file)} has no resource Machine")
    resources = configuration.machine.of_type("Messages").values()
    messages = tuple(map(MessagesSettings.of, resources))
    return ScheduledMachine(os.path.abspath(file), MachineSettings.of(machine), warnings, messages)


def usual_folder(settings_folder: bytes | None, *, user: bool) -> str:
    """Where the configuration is looked for: the user's own folder, or the system's."""
    if user and settings_folder is not None:
        return os.fsdecode(settings_folder)
    return USUAL_CONFIGURATION


def state_folder(environment: Mapping[str, str]) -> str:
    """Where runs keep their lock and what part was checked last; made where it is missing.

    systemd says it in $STATE_DIRECTORY; by hand it is the same folder.
    """
    if given := environment.get("STATE_DIRECTORY", "").partition(":")[0]:
        folder = given
    elif os.geteuid() == 0:
        folder = SYSTEM_STATE_FOLDER
    else:
        base = environment.get("XDG_STATE_HOME", "")
        if not base.startswith("/"):
            base = os.path.join(environment.get("HOME") or "/", ".local", "state")
        folder = os.path.join(base, "strongroom", "machine")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return folder
