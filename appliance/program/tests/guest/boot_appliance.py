"""Boot a machine, set it up by an answer file, cut its power, and use the menu on its serial line.

    boot_appliance.py FOLDER       with what make_disk.sh puts there

In a virtual machine (QEMU without KVM): systemd, networkd, LUKS2 and the console are real. The
screen of the serial line is printed at every stage. Exit status: 0 when every step was right.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, Self

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "engine/tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyte

from appliance_kit.answers_for_tests import PASSWORD, PASSWORD_HASH, SSH_KEY
from kit.project import DOCUMENTS

BUILD: Final = Path(os.environ.get("STRONGROOM_VM_FOLDER") or DOCUMENTS.parent / "build" / "vm")
PATIENCE_SECONDS: Final = int(os.environ.get("GUEST_SECONDS", "900"))
DISK_PASSPHRASE: Final = "a passphrase for the disk"
ANSWERS: Final = f"""\
version: 1
hostname: vault.example.org
time: {{zone: Europe/Berlin}}
network:
  interfaces: [{{name: eth0}}]
  vlans: [{{name: backup, parent: eth0, id: 20, addresses: [192.0.2.10/24], gateway: 192.0.2.1}}]
data_disk:
  device: /dev/disk/by-id/virtio-DATA
  encryption: passphrase
  passphrase: {DISK_PASSPHRASE}
admin:
  ssh_keys: [{SSH_KEY}]
  password_hash: "{PASSWORD_HASH}"
appliance: {{groups: [servers]}}
agents: {{tokens: [{{group: servers}}]}}
"""


class Guest:
    """A machine that runs, with its serial line."""

    def __init__(self, folder: Path, *, with_answers: bool) -> None:
        line = folder / "serial.socket"
        line.unlink(missing_ok=True)
        self._screen = pyte.Screen(80, 24)
        self._stream = pyte.ByteStream(self._screen)
        self.log = b""
        self.last_shown = ""
        disks = [("system.disk", "SYSTEM"), ("data.disk", "DATA")]
        disks += [("answers.disk", "ANSWERS")] if with_answers else []
        words = []
        for name, serial in disks:
            words += ["-drive", f"file={folder / name},format=raw,if=none,id={serial}"]
            words += ["-device", f"virtio-blk-pci,drive={serial},serial={serial}"]
        tools = BUILD / "qemu"
        self._process = subprocess.Popen(
            [tools / "lib64/ld-linux-x86-64.so.2",
             "--library-path", tools / "usr/lib/x86_64-linux-gnu",
             tools / "usr/bin/qemu-system-x86_64", "-L", tools / "usr/share/qemu",
             "-L", tools / "usr/share/seabios", "-accel", "tcg,thread=multi", "-cpu", "max",
             "-smp", "2", "-m", "2048", "-display", "none", "-no-reboot", "-monitor", "none",
             "-serial", f"unix:{line},server=on,wait=off",
             "-netdev", "user,id=net,restrict=on", "-device", "virtio-net-pci,netdev=net,romfile=",
             "-kernel", folder / "kernel", "-initrd", folder / "initrd", "-append",
             "root=/dev/vda rw console=ttyS0 panic=-1 quiet net.ifnames=0 systemd.show_status=0",
             *words],
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        ends = time.monotonic() + 60
        while not line.exists():
            assert time.monotonic() < ends, "QEMU does not start"
            time.sleep(0.1)
        self._line = socket.socket(socket.AF_UNIX)
        self._line.connect(str(line))
        self._line.settimeout(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.cut_power()

    def cut_power(self) -> None:
        """As if the plug was pulled."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    @property
    def text(self) -> str:
        """The screen of the serial line."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    def press(self, *keys: str) -> None:
        """Type; slowly, as a line has no brake."""
        for key in keys:
            for letter in {"enter": "\r", "escape": "\x1b", "clear": "\x15"}.get(key, key):
                self._line.sendall(letter.encode())
                time.sleep(0.05)
            time.sleep(0.5)

    def wait_for(self, *texts: str) -> str:
        """Wait until all of these are on the screen."""
        return self._wait(lambda: all(text in self.text for text in texts), texts)

    def wait_for_log(self, text: str) -> None:
        """Wait until this has come over the line at any time."""
        self._wait(lambda: text.encode() in self.log, (text,))

    def wait_for_end(self) -> None:
        """Wait until the machine is switched off."""
        self._process.wait(PATIENCE_SECONDS)

    def _wait(self, is_there, texts) -> str:
        ends = time.monotonic() + PATIENCE_SECONDS
        while not is_there():
            assert time.monotonic() < ends, (
                f"{texts} never came:\n{self.text}\n{self.log[-3000:]!r}"
            )
            assert self._process.poll() is None, f"the machine is off:\n{self.log[-3000:]!r}"
            assert b"Kernel panic" not in self.log, self.text
            try:
                data = self._line.recv(65536)
            except TimeoutError:
                continue
            self.log += data
            self._stream.feed(data)
        return self.text


def show(title: str, text: str) -> None:
    """Print a screen."""
    print(f"--- {title}\n{text}\n", flush=True)  # noqa: T201


def log_in(guest: Guest) -> None:
    """From the status to the menu."""
    guest.wait_for("Enter: log in")
    guest.press("enter")
    guest.wait_for("Administrator: admin")
    guest.press(PASSWORD, "enter")
    guest.wait_for("Shell, as admin")


def in_shell(guest: Guest, command: str, expected: str) -> None:
    """Give a command in the shell of the menu. expected: is in its output."""
    guest.press("s")
    guest.wait_for("admin@vault")
    guest.press(f"clear; {command}; echo 'END OF' 'COMMAND'", "enter")
    shown = guest.last_shown = guest.wait_for("END OF COMMAND")
    assert expected in shown, (command, shown)
    show(command, shown)
    guest.press("exit", "enter")
    guest.wait_for("Shell, as admin")


def main() -> int:
    """See the module."""
    folder = Path(sys.argv[1])
    for name, size in (("data.disk", 1 << 30), ("answers.disk", 8 << 20)):
        with (folder / name).open("wb") as file:
            file.truncate(size)
    (folder / "answers").mkdir(exist_ok=True)
    (folder / "answers/answers.yml").write_text(ANSWERS)
    words = ["mkfs.ext4", "-q", "-F", "-L", "STRONGROOM", "-d", folder / "answers"]
    subprocess.run([*words, folder / "answers.disk"], check=True)

    with Guest(folder, with_answers=True) as guest:
        guest.wait_for_log("data_disk")
        guest.cut_power()
    show("power cut while the data disk is made", guest.text)
    with Guest(folder, with_answers=False) as guest:
        guest.wait_for_log("this machine is set up")
        show("first boot, after the power cut", guest.text)
        log_in(guest)
        show("menu", guest.text)
        guest.press("8")
        show("status", guest.wait_for("strongroom-director", "active"))
        guest.press("enter")
        in_shell(guest, "networkctl status backup | cat", "192.0.2.10")
        in_shell(guest, "lsblk -o NAME,FSTYPE,MOUNTPOINTS", "crypto_LUKS")
        in_shell(guest, "systemctl is-active ssh strongroom-storage strongroom-director", "active")
        in_shell(guest, "systemctl --failed --no-legend | wc -l", "0")
        guest.press("p")
        guest.wait_for("No, go back")
        guest.press("y")
        guest.wait_for_end()
    with Guest(folder, with_answers=False) as guest:
        show("started again", guest.wait_for("LOCKED"))
        log_in(guest)
        guest.press("u")
        guest.wait_for("Passphrase:")
        guest.press("not the passphrase", "enter")
        show("a wrong passphrase", guest.wait_for("does not open with this passphrase"))
        guest.press("enter")
        guest.wait_for("Shell, as admin")
        guest.press("u")
        guest.wait_for("Passphrase:")
        guest.press(DISK_PASSPHRASE, "enter")
        show("unlocked", guest.wait_for("The data disk is unlocked"))
        guest.press("enter")
        guest.wait_for("Shell, as admin")
        in_shell(guest, "systemctl is-active strongroom-storage strongroom-director", "active")
        # The passphrase is stored nowhere, nor is the hash where others can read it.
        look = f"grep -rlF '{DISK_PASSPHRASE}' /etc /var/lib/strongroom /root /run 2>/dev/null"
        in_shell(
            guest, f"echo '{PASSWORD}' | sudo -S sh -c \"{look}; echo found-all\"", "found-all"
        )
        assert "/var" not in guest.last_shown
        assert "/etc" not in guest.last_shown
    print("all steps were right")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
