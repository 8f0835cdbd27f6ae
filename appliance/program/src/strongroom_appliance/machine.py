"""The machine that is set up: its files, written durably, and the programs of the system.

`root` is another folder than / only where files are rendered to be checked.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from strongroom.base.errors import OperatingSystemError
from strongroom.base.printable import printable
from strongroom.net.identities.private_files import PUBLIC_MODE, sync_folder, write_file

STATE_FOLDER: Final = "/var/lib/strongroom/appliance"
RUN_FOLDER: Final = "/run/strongroom"
# Where the ISO has the image, see packer/iso/live.sh.
LIVE_IMAGE: Final = "/run/live/image"
MOUNT_POINT: Final = "/srv/strongroom"
# What `strongroom setup appliance` got.
SETUP_ANSWERS: Final = "/etc/strongroom/appliance.toml"
_PATIENCE_SECONDS: Final = 600
_MOST_SHOWN: Final = 300


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine below `root`: files and programs."""

    root: str = "/"

    @property
    def is_running(self) -> bool:
        """Whether this is the running system, with systemd."""
        return self.root == "/" and os.path.isdir("/run/systemd/system")

    def path(self, path: str) -> str:
        """Where a file of the machine is."""
        return os.path.join(self.root, path.lstrip("/"))

    def read(self, path: str) -> str | None:
        """A file's text, None if there is none."""
        try:
            with open(self.path(path), encoding="utf-8", errors="surrogateescape") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def write(self, path: str, text: str, mode: int = PUBLIC_MODE) -> bool:
        """Make a file what it should be; whether it was not."""
        place = self.path(path)
        if self.read(path) == text and os.stat(place).st_mode & 0o7777 == mode:
            return False
        os.makedirs(os.path.dirname(place), 0o755, exist_ok=True)
        write_file(os.fsencode(place), text.encode("utf-8", "surrogateescape"), mode)
        return True

    def link(self, path: str, target: str) -> bool:
        """Make a symbolic link; whether it was not there."""
        place = self.path(path)
        if os.path.islink(place) and os.readlink(place) == target:
            return False
        os.makedirs(os.path.dirname(place), 0o755, exist_ok=True)
        beside = f"{place}.strongroom-new"
        if os.path.lexists(beside):
            os.unlink(beside)
        os.symlink(target, beside)
        os.rename(beside, place)
        sync_folder(os.fsencode(os.path.dirname(place)))
        return True

    def remove(self, path: str) -> bool:
        """Remove a file; whether it was there."""
        place = self.path(path)
        if not os.path.lexists(place):
            return False
        os.unlink(place)
        sync_folder(os.fsencode(os.path.dirname(place)))
        return True

    def names(self, folder: str) -> list[str]:
        """Names in a folder, sorted; none if there is no folder."""
        try:
            return sorted(os.listdir(self.path(folder)))
        except FileNotFoundError:
            return []


def run(words: Sequence[str], given: bytes = b"", codes: Sequence[int] = (0,)) -> str:
    """What a program prints. given: its standard input. codes: those that are no failure.

    Raises OperatingSystemError, with what the program printed.
    """
    code, output = run_for_code(words, given)
    if code not in codes:
        raise OperatingSystemError(f"`{words[0]}` failed ({code}): {output[-_MOST_SHOWN:].strip()}")
    return output


def run_for_code(
    words: Sequence[str], given: bytes = b"", *, folder: str | None = None
) -> tuple[int, str]:
    """The exit code and what was printed: standard output, or standard error after a failure.

    The program has a home in any case: systemd gives none to services of root, and `strongroom`
    looks there for its director. folder: where it runs, by default where we are.
    """
    home = os.environ.get("HOME") or pwd.getpwuid(os.geteuid()).pw_dir
    try:
        done = subprocess.run(
            words,
            input=given,
            capture_output=True,
            timeout=_PATIENCE_SECONDS,
            check=False,
            env={**os.environ, "LC_ALL": "C.UTF-8", "HOME": home},
            cwd=folder,
        )
    except FileNotFoundError as error:
        raise OperatingSystemError(
            f"the program `{words[0]}` is missing; install strongroom-appliance again"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise OperatingSystemError(f"`{words[0]}` did not end in {_PATIENCE_SECONDS} s") from error
    printed = done.stdout if done.returncode == 0 or not done.stderr else done.stderr
    return done.returncode, printed.decode("utf-8", "replace")


def is_active(unit: str) -> bool:
    """Whether systemd has started a unit, and it has not ended."""
    return run_for_code(["systemctl", "is-active", "--quiet", unit])[0] == 0


def is_enabled(unit: str) -> bool:
    """Whether systemd starts a unit at boot."""
    return run_for_code(["systemctl", "is-enabled", "--quiet", unit])[0] == 0


def is_live() -> bool:
    """Whether it was started from the ISO, with all that changes in memory."""
    return os.path.isdir(LIVE_IMAGE)


def is_installer() -> bool:
    """Whether the ISO was started to install."""
    with open("/proc/cmdline", encoding="utf-8", errors="replace") as file:
        return any(word.startswith("strongroom.install=") for word in file.read().split())


def settle() -> None:
    """Wait until what became of disks is known everywhere."""
    if os.path.exists("/run/udev/control"):
        run_for_code(["udevadm", "settle", "--timeout=30"])


def shown(text: str) -> str:
    """What a program printed, on one line."""
    return printable(" ".join(text.split()), _MOST_SHOWN)
