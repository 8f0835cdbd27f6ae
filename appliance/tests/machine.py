"""A virtual machine that starts from the image, and what it says.

The image itself is never changed: a machine has a disk of differences. It runs in its own network
namespace, where `scan` and `ssh` are the outside. systemd takes one more unit from the hypervisor (SMBIOS), which
reports over a serial port how the machine sees itself; nothing in the image is there for tests.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
QEMU = PROJECT / "packer/bin/qemu-system-x86_64"
QEMU_IMG = PROJECT / "packer/bin/qemu-img"
# Emulated, on a machine that others use.
PATIENCE_SECONDS = 1800
UNIT = """[Service]
Type=exec
StandardOutput=tty
TTYPath=/dev/ttyS1
ExecStart=/bin/sh /run/credentials/@system/strongroom.look
"""
# What GRUB gives the kernel (packer/base/grub.cfg), and not less talk.
COMMAND_LINE = (
    "root=PARTLABEL=strongroom-a ro strongroom.slot=a rootfstype=ext4 console=ttyS0,115200 panic=30 "
    "systemd.gpt_auto=no apparmor=1 audit=1 audit_backlog_limit=8192 slab_nomerge"
)
# The address of anyone who is outside, in the network of the machine's first card; and the one at which
# molecule/host.sh lets hosts look for their way out.
OUTSIDE = "192.0.2.1"
OUTSIDE_OF_HOSTS = "10.88.0.1"
_numbers = itertools.count(1)


class Stopped(Exception):
    """The machine did not do what was waited for."""


class Machine:
    """A machine made from the image; `with` ends it."""

    def __init__(
        self, image: Path | None, folder: Path, accelerator: str, *, disk_gib: int = 8, data_gib: int = 0
    ) -> None:
        """Make the disk, empty if there is no image, and one for data if wanted; nothing is started yet."""
        self.folder = folder
        self.accelerator = accelerator
        self.number = next(_numbers)
        self.network = f"strongroom-image-{os.getpid()}-{self.number}"
        self.card = f"52:54:00:12:34:{self.number:02x}"
        self.starts = 0
        # How often it was waited for, and the sockets of connections since.
        self._boots = 0
        self._logins: set[Path] = set()
        self.process: subprocess.Popen[bytes] | None = None
        self._tpm: subprocess.Popen[bytes] | None = None
        self._beside: list[subprocess.Popen[bytes]] = []
        folder.mkdir(parents=True)
        self.disk = folder / "disk.qcow2"
        below = ["-f", "qcow2", *(("-F", "qcow2", "-b", str(image)) if image else ())]
        subprocess.run([str(QEMU_IMG), "create", "-q", *below, str(self.disk), f"{disk_gib}G"], check=True)
        self.data = folder / "data.qcow2" if data_gib else None
        if self.data:
            subprocess.run([str(QEMU_IMG), "create", "-q", "-f", "qcow2", str(self.data), f"{data_gib}G"], check=True)
        for words in (
            ["netns", "add", self.network],
            ["-n", self.network, "link", "set", "lo", "up"],
            ["-n", self.network, "link", "add", "br0", "type", "bridge"],
            ["-n", self.network, "tuntap", "add", "tap0", "mode", "tap"],
            ["-n", self.network, "link", "set", "tap0", "master", "br0", "up"],
            ["-n", self.network, "link", "set", "br0", "up"],
            ["-n", self.network, "address", "add", f"{OUTSIDE}/24", "dev", "br0"],
            ["-n", self.network, "address", "add", f"{OUTSIDE_OF_HOSTS}/24", "dev", "br0"],
        ):
            subprocess.run(["ip", *words], check=True)

    def __enter__(self) -> Machine:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it and what runs beside it, and remove what it had."""
        self.kill()
        for process in self._beside:
            process.kill()
            process.wait()
        subprocess.run(["ip", "netns", "del", self.network], check=False)
        self.disk.unlink(missing_ok=True)
        if self.data:
            self.data.unlink(missing_ok=True)

    @property
    def console(self) -> str:
        """What its first serial port said since it was started."""
        return self._text("console")

    @property
    def address(self) -> str:
        """Its address on the network outside: link-local, from the number of its card."""
        one, *others = (int(part, 16) for part in self.card.split(":"))
        parts = bytes([one ^ 2, *others[:2], 0xFF, 0xFE, *others[2:]])
        return "fe80::" + ":".join(f"{parts[i]:02x}{parts[i + 1]:02x}" for i in range(0, 8, 2)) + "%br0"

    def start(self, kernel: Path, *, key: str = "") -> None:
        """Start this kernel of the image and the .initrd beside it, if wanted with a key that root may log in with.

        Emulated, the clock of the machine counts instructions: neither its time limits nor what it measures depend on
        how busy this host is.
        """
        clock = ["-icount", "shift=1"] if self.accelerator == "tcg" else []
        boot: list[str | Path] = [
            "-kernel",
            kernel,
            "-initrd",
            f"{kernel}.initrd",
            "-append",
            COMMAND_LINE,
            "-no-reboot",
        ]
        self._start(key, {}, *boot, *clock)

    def start_by_firmware(
        self,
        firmware: str,
        *,
        key: str = "",
        given: Mapping[str, str] | None = None,
        medium: tuple[str, Path] | None = None,
        stick: Path | None = None,
        tpm: Path | None = None,
    ) -> None:
        """Start it as hardware does: `bios` or `uefi`, and GRUB. It restarts as often as it wants to.

        given: credentials of systemd. medium: what it starts from instead of its disk, a `cd` or a `stick`, and its
        file. stick: another one, with data. tpm: the folder that keeps what its TPM remembers; without it has none.
        """
        more: list[str | Path] = ["-smp", "2", "-device", "qemu-xhci"]
        if firmware == "uefi":
            tools = subprocess.check_output([PROJECT / "packer/tools.sh"], text=True).strip()
            more += ["-bios", f"{tools}/usr/share/ovmf/OVMF.fd"]
        if medium:
            kind, file = medium
            more += ["-drive", f"file={file},format=raw,if=none,id=medium,readonly=on", "-device"]
            more += [f"{'ide-cd' if kind == 'cd' else 'usb-storage'},drive=medium,bootindex=0"]
        if stick:
            more += ["-drive", f"file={stick},format=raw,if=none,id=stick,readonly=on"]
            more += ["-device", "usb-storage,drive=stick"]
        if tpm:
            more += self._start_tpm(tpm)
        self._start(key, given or {}, *more)

    def _start_tpm(self, state: Path) -> list[str | Path]:
        state.mkdir(exist_ok=True)
        place = self.folder / "tpm"
        words = ["socket", "--tpm2", "--tpmstate", f"dir={state}", "--ctrl", f"type=unixio,path={place}", "--terminate"]
        self._tpm = subprocess.Popen([PROJECT / "packer/bin/swtpm", *words], stdin=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while not place.exists():
            if time.monotonic() > end or self._tpm.poll() is not None:
                raise Stopped("swtpm does not start")
            time.sleep(0.1)
        chips = ["-chardev", f"socket,id=chip,path={place}", "-tpmdev", "emulator,id=tpm,chardev=chip"]
        return [*chips, "-device", "tpm-crb,tpmdev=tpm"]

    def _start(self, key: str, credentials: Mapping[str, str], *more: str | Path) -> None:
        self.starts += 1
        script = (HERE / "look.sh").read_bytes()
        given = {name: text.encode() for name, text in credentials.items()} | {
            # The unit finds the script as a credential, too.
            "strongroom.look": script,
            "systemd.extra-unit.strongroom-look.service": UNIT.encode(),
            "systemd.unit-dropin.multi-user.target": b"[Unit]\nWants=strongroom-look.service\n",
        }
        if key:
            given["ssh.authorized_keys.root"] = key.encode() + b"\n"
        processor = "host" if self.accelerator == "kvm" else "max"
        command: list[str | Path] = [QEMU, "-accel", self.accelerator, "-cpu", processor, "-m", "2048"]
        command += ["-display", "none", "-monitor", "none", "-device", "virtio-rng-pci"]
        command += ["-drive", f"file={self.disk},format=qcow2,if=none,id=system,cache=unsafe,discard=unmap"]
        command += ["-device", "virtio-blk-pci,drive=system,serial=SYSTEM,bootindex=1"]
        if self.data:
            command += ["-drive", f"file={self.data},format=qcow2,if=none,id=data,cache=unsafe"]
            command += ["-device", "virtio-blk-pci,drive=data,serial=DATA"]
        command += ["-serial", f"file:{self._file('console')}", "-serial", f"file:{self._file('look')}"]
        command += ["-qmp", f"unix:{self._file('qmp')},server=on,wait=off"]
        command += ["-netdev", "tap,id=outside,ifname=tap0,script=no,downscript=no"]
        command += ["-device", f"virtio-net,netdev=outside,mac={self.card}"]
        # Its second card finds a DHCP server and nothing else.
        command += ["-netdev", "user,id=leases,restrict=on", "-device", "virtio-net,netdev=leases"]
        for number, (name, content) in enumerate(given.items()):
            path = self.folder / f"smbios.{number}"
            path.write_text(f"io.systemd.credential.binary:{name}={base64.b64encode(content).decode()}")
            command += ["-smbios", f"type=11,path={path}"]
        with self._file("qemu").open("wb") as log:
            self.process = subprocess.Popen(
                [*self.outside(), *command, *more],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def look(self) -> dict[str, list[str]]:
        """What look.sh found, heading by heading; waits until it is there."""
        text = self._wait_for("look", r"=== end\r?\n")
        parts = re.split(r"^=== (.*)$", text.replace("\r", ""), flags=re.MULTILINE)
        return {name: body.strip().splitlines() for name, body in zip(parts[1::2], parts[2::2], strict=True)}

    def scan(self, address: str = "") -> set[int]:
        """The TCP ports that accept a connection from outside, of all; by default at its link-local address."""
        command = [*self.outside(), sys.executable, str(HERE / "scan.py"), address or self.address]
        found = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
        return {int(port) for port in found.stdout.split()}

    def outside(self) -> list[str]:
        """The words that run a command outside, in the network that the machine is in."""
        return ["nsenter", f"--net=/run/netns/{self.network}"]

    def run_outside(self, *command: str | Path) -> None:
        """Run a command outside for as long as there is this machine."""
        self._beside.append(subprocess.Popen([*self.outside(), *command], stdin=subprocess.DEVNULL))

    def ssh_words(self, key: Path, user: str = "root", *, again: bool = True) -> list[str | Path]:
        """The words that log a user in from outside; those of a command follow. again: over the connection of before.

        Emulated, beside another machine, a connection took two to three seconds, and a command over it a fifth of one.
        """
        options = ["BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "ConnectTimeout=30"]
        if again:
            self._logins.add(place := self.folder / f"{user}.{self.starts}.{self._boots}")
            options += ["ControlMaster=auto", "ControlPersist=yes", f"ControlPath={place}"]
        words = [word for option in options for word in ("-o", option)]
        return [*self.outside(), "ssh", "-i", key, *words, f"{user}@{self.address}"]

    def ssh(self, key: Path, command: str, *, again: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command in the machine, as root, from outside."""
        return subprocess.run(
            [*self.ssh_words(key, again=again), command],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

    def _log_out(self) -> None:
        """End the connections, as they do not notice that the machine did."""
        for place in self._logins:
            words = ["ssh", "-o", f"ControlPath={place}", "-O", "exit", "machine"]
            subprocess.run(words, stderr=subprocess.DEVNULL, timeout=60, check=False)
        self._logins.clear()

    def wait_for_ssh(self, key: Path, not_boot: str = "") -> str:
        """Wait until it can be logged in to, in another start than this one; the id of the start."""
        end = time.monotonic() + PATIENCE_SECONDS
        self._log_out()
        self._boots += 1
        while time.monotonic() < end:
            found = self.ssh(key, "cat /proc/sys/kernel/random/boot_id", again=False).stdout.strip()
            if found and found != not_boot:
                return found
            if self.process is None or self.process.poll() is not None:
                raise Stopped(f"it ended; its console:\n{self.console[-4000:]}")
            time.sleep(3)
        raise Stopped(f"secure shell never answered; its console:\n{self.console[-4000:]}")

    def wait_for_console(self, pattern: str) -> str:
        """Wait until its first serial port has said something; all that it said."""
        return self._wait_for("console", pattern)

    @contextlib.contextmanager
    def serving(self, folder: Path) -> Iterator[str]:
        """Serve a folder by HTTP outside; its address."""
        command = [sys.executable, "-m", "http.server", "--bind", OUTSIDE, "--directory", str(folder), "8000"]
        with subprocess.Popen([*self.outside(), *command], stderr=subprocess.DEVNULL) as server:
            try:
                yield f"http://{OUTSIDE}:8000"
            finally:
                server.terminate()

    def shut_down(self) -> None:
        """Press the power button, and wait until it is off."""
        self._tell({"execute": "system_powerdown"})
        self.wait_until_off()

    def wait_until_off(self) -> None:
        """Wait until it has switched itself off."""
        assert self.process
        try:
            self.process.wait(timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            raise Stopped(f"it stays on; its console:\n{self.console[-4000:]}") from None
        self.process = None

    def press(self, key: str) -> None:
        """Press a key of its keyboard."""
        keys = [{"type": "qcode", "data": key}]
        self._tell({"execute": "send-key", "arguments": {"keys": keys}})

    def _tell(self, command: object) -> None:
        """Tell QEMU something (QMP), and wait until it has understood."""
        with socket.socket(socket.AF_UNIX) as qmp:
            qmp.settimeout(60)
            qmp.connect(str(self._file("qmp")))
            stream = qmp.makefile("rw")
            stream.readline()
            for one in ({"execute": "qmp_capabilities"}, command):
                stream.write(f"{json.dumps(one)}\n")
                stream.flush()
                stream.readline()

    def kill(self) -> None:
        """Cut the power."""
        self._log_out()
        if self.process:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None
        if self._tpm:
            # It ends with its machine.
            self._tpm.wait(timeout=60)
            self._tpm = None

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.{self.starts}"

    def _text(self, name: str) -> str:
        path = self._file(name)
        return path.read_text(errors="replace") if path.exists() else ""

    def _wait_for(self, name: str, pattern: str) -> str:
        end = time.monotonic() + PATIENCE_SECONDS
        while not re.search(pattern, text := self._text(name)):
            panic = "Kernel panic" in self.console and name != "console"
            ended = self.process is None or self.process.poll() is not None
            if panic or ended or time.monotonic() > end:
                why = "the kernel panicked" if panic else "it ended" if ended else "it took too long"
                raise Stopped(f"{why}; its console:\n{self.console[-4000:]}\n{self._text('qemu')}")
            time.sleep(0.5)
        return text


def listeners(found: Mapping[str, list[str]]) -> set[str]:
    """Sockets that something from outside could reach: neither those of this machine nor of the client of DHCP."""
    sockets = [line.split() for line in found["sockets"]]
    reachable = [(kind, local) for kind, _, _, _, local, *_ in sockets if not local.startswith(("127.", "[::1]"))]
    return {
        local.rsplit(":", 1)[1] for kind, local in reachable if not (kind == "udp" and local.endswith((":68", ":546")))
    }
