"""Whether the running system does what it is for: the judgement on a root that is being tried."""

from __future__ import annotations

import os
from typing import Final

from strongroom.appliance.disks.unlocking import is_waiting
from strongroom.appliance.machine import SETUP_ANSWERS, run_for_code, shown
from strongroom.cli.appliance.answer_file import read_answers
from strongroom.errors import StrongroomError
from strongroom.interpreter import SAFE_FOLDER, module_command
from strongroom.net.identities.private_files import read_bounded
from strongroom.printable import printable
from strongroom.repo.repository import Repository
from strongroom.stores.local import LocalStore

# Units of the system without which nobody reaches the machine.
_NEEDED: Final = ("systemd-networkd.service", "nftables.service", "strongroom-console.service")
_DAEMONS: Final = ("strongroom-storage.service", "strongroom-director.service")
_STARTING: Final = ("initializing", "starting")
_MOST_BYTES: Final = 4096


def faults() -> list[str]:
    """Why this system is not as it should be, in words; none if it is healthy.

    A machine that is not set up has no daemons, and one whose data disk is encrypted cannot start
    them until somebody unlocks it; all else is asked of these, too.
    """
    state = run_for_code(["systemctl", "is-system-running"])[1].split()
    if state and state[0] in _STARTING:
        return ["it has not started yet"]
    found = [f"{unit} is not active" for unit in _NEEDED if not _is_active(unit)]
    if _is_enabled("ssh.service") and _has_keys() and not _is_active("ssh.service"):
        found.append("ssh.service is not active")
    configured = [] if is_waiting() else [unit for unit in _DAEMONS if _is_configured(unit)]
    inactive = [f"{unit} is not active" for unit in configured if not _is_active(unit)]
    if not configured or inactive:
        return found + inactive
    return found + _director_faults() + _repository_faults()


def _is_active(unit: str) -> bool:
    return run_for_code(["systemctl", "is-active", "--quiet", unit])[0] == 0


def _is_enabled(unit: str) -> bool:
    return run_for_code(["systemctl", "is-enabled", "--quiet", unit])[0] == 0


def _is_configured(unit: str) -> bool:
    """Whether systemd started it, or tried to: a daemon without a configuration is passed over."""
    said = run_for_code(["systemctl", "show", "--property=ConditionResult", "--value", unit])[1]
    return said.strip() == "yes"


def _has_keys() -> bool:
    folder = "/etc/ssh/strongroom-keys"
    return os.path.isdir(folder) and bool(os.listdir(folder))


def _director_faults() -> list[str]:
    code, said = run_for_code(module_command("strongroom", "--json", "status"), folder=SAFE_FOLDER)
    return [f"the director does not answer: {shown(said)}"] if code else []


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
