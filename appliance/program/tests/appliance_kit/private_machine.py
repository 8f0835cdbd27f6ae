"""A machine of its own for programs that change one: /etc, /var/lib, /home and /srv are private.

    machine = PrivateMachine(tmp_path)
    machine.run("strongroom-appliance", "apply", "/answers.yml")

Each command runs in its own namespaces (mounts, host name, network, processes) over overlays
that stay, so the next command sees what the last one wrote, as after a restart: nothing is mounted,
no process is left, and there is no systemd. Needs root.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Final

SCRIPTS: Final = Path(sys.executable).parent
_KEPT: Final = ("etc", "var/lib", "home", "srv", "root", "var/tmp")
_PATIENCE_SECONDS: Final = 600

_ENTER: Final = r"""
set -eu
top=$1; prepare=$2; shift 2
mount --make-rprivate /
mount -t tmpfs tmpfs /run
for name in etc var/lib home srv root var/tmp; do
    [ -d "/$name" ] || continue
    mount -t overlay -o "lowerdir=/$name,upperdir=$top/$name/upper,workdir=$top/$name/work" \
        overlay "/$name"
done
ip link set lo up
eval "$prepare"
# Not by exec: the first process of a namespace cannot kill itself.
code=0
"$@" || code=$?
exit "$code"
"""


class PrivateMachine:
    """See the module. folder: keeps what the machine wrote. prepare: a script that runs first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "machine"
        self.prepare = ""
        for name in _KEPT:
            for part in ("upper", "work"):
                (self.folder / name / part).mkdir(parents=True, exist_ok=True)
        # An image has no host keys; this machine may have. A device 0:0 hides a file of an overlay.
        for key in Path("/etc/ssh").glob("ssh_host_*"):
            hidden = self.path(str(key))
            hidden.parent.mkdir(exist_ok=True)
            if not hidden.exists():
                os.mknod(hidden, stat.S_IFCHR, os.makedev(0, 0))

    def command(self, *words: str) -> list[str]:
        """The words that run a command there."""
        if words[0].startswith("strongroom-"):
            words = (str(SCRIPTS / words[0]), *words[1:])
        spaces = ["--mount", "--uts", "--net", "--ipc", "--pid", "--fork", "--kill-child"]
        return [
            "unshare", *spaces, "--mount-proc", "sh", "-c", _ENTER, "sh", str(self.folder),
            self.prepare, *words,
        ]  # fmt: skip

    def run(
        self, *words: str, exit_code: int | None = 0, given: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a command and wait for it. exit_code: None for any."""
        done = subprocess.run(
            self.command(*words),
            env={**os.environ, "LC_ALL": "C.UTF-8"},
            input=given,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_SECONDS,
            check=False,
        )
        assert exit_code in (None, done.returncode), (
            words,
            done.returncode,
            done.stdout,
            done.stderr,
        )
        return done

    def killed_at(self, moment: int, *words: str) -> bool:
        """Run a program of ours that is killed at a moment; whether it came so far."""
        runner = Path(__file__).with_name("killed_at_moment.py")
        done = self.run(sys.executable, str(runner), str(moment), *words, exit_code=None)
        assert done.returncode in (0, -signal.SIGKILL, 128 + signal.SIGKILL), (
            moment, done.returncode, done.stderr,
        )  # fmt: skip
        return done.returncode != 0

    def path(self, path: str) -> Path:
        """A file that the machine wrote, where it is for the test."""
        for name in _KEPT:
            if path.startswith(f"/{name}/"):
                return self.folder / name / "upper" / path.removeprefix(f"/{name}/")
        raise ValueError(path)

    def write(self, path: str, text: str) -> None:
        """Put a file there."""
        place = self.path(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, "utf-8")


class LoopDisk:
    """A disk of this size that is a file."""

    def __init__(self, file: Path, size: int) -> None:
        with file.open("wb") as made:
            made.truncate(size)
        words = ["losetup", "--find", "--show", "--partscan", str(file)]
        found = subprocess.run(words, capture_output=True, text=True, check=True)
        self.file = file
        self.path = found.stdout.strip()

    def enlarge(self, size: int) -> None:
        """As a hypervisor does."""
        with self.file.open("r+b") as made:
            made.truncate(size)
        subprocess.run(["losetup", "--set-capacity", self.path], check=True)

    def close(self) -> None:
        """Detach it."""
        with contextlib.suppress(subprocess.CalledProcessError):
            subprocess.run(["losetup", "--detach", self.path], check=True)
