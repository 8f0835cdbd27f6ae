"""A machine with two roots, as the appliance's image has them, and updates for it."""

from __future__ import annotations

import hashlib
import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from appliance_kit.private_machine import PrivateMachine
from kit.project import DOCUMENTS

PACKER: Final = DOCUMENTS.parent / "packer"
TABLE: Final = """label: gpt
size=16MiB, name=strongroom-boot
size=8MiB, name=strongroom-a
size=8MiB, name=strongroom-b
"""
RUNNING_IMAGE: Final = "2000-aaaa"
_PREPARE: Final = """
cd {folder}
mkdir -p lib/upper lib/work
mount -t overlay -o lowerdir=/usr/lib,upperdir=lib/upper,workdir=lib/work overlay /usr/lib
cd /
mkdir -p /usr/lib/strongroom/image
cp {folder}/update-key.pem /usr/lib/strongroom/image/
cp {folder}/id /usr/lib/strongroom/image/id
mount --bind {folder}/cmdline /proc/cmdline
# A machine without udev has none.
mkdir -p /dev/disk
mount -t tmpfs tmpfs /dev/disk
mkdir /dev/disk/by-partlabel
ln -s {device}p1 /dev/disk/by-partlabel/strongroom-boot
ln -s {device}p2 /dev/disk/by-partlabel/strongroom-a
ln -s {device}p3 /dev/disk/by-partlabel/strongroom-b
"""


def make_key(path: Path) -> Path:
    """A key that signs updates."""
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", path], check=True)
    return path


@dataclass
class TwoRoots:
    """The machine. It runs root a, until `boot` says something else."""

    machine: PrivateMachine
    device: str
    folder: Path
    key: Path = field(init=False)

    def __post_init__(self) -> None:
        """Make partitions, GRUB's environment and keys."""
        self.key = make_key(self.folder / "key.pem")
        public = ["openssl", "pkey", "-in", str(self.key), "-pubout"]
        subprocess.run([*public, "-out", str(self.folder / "update-key.pem")], check=True)
        (self.folder / "id").write_text(RUNNING_IMAGE + "\n")
        words = ["sfdisk", "--quiet", self.device]
        subprocess.run(words, input=TABLE, text=True, check=True)
        subprocess.run(["partx", "--update", self.device], check=False, capture_output=True)
        boot = self.folder / "boot/grub"
        boot.mkdir(parents=True)
        self._environment_file = boot / "grubenv"
        head = "# GRUB Environment Block\na_state=good\nb_state=0\norder=a b\n"
        self._environment_file.write_text(head.ljust(1024, "#"))
        words = ["mkfs.ext4", "-q", "-F", "-d", str(boot.parent), f"{self.device}p1"]
        subprocess.run(words, check=True)
        self.boot("a")

    def boot(self, slot: str, trial: str = "") -> None:
        """What the kernel is told from now on."""
        words = f"root=PARTLABEL=strongroom-{slot} ro strongroom.slot={slot} {trial}\n"
        (self.folder / "cmdline").write_text(words)
        self.machine.prepare = _PREPARE.format(folder=self.folder, device=self.device)

    def run_image(self, image: str) -> None:
        """Let the running root be this image."""
        (self.folder / "id").write_text(image + "\n")

    def installer(self, *words: str, exit_code: int | None = 0) -> Any:
        """Run `strongroom-appliance`."""
        return self.machine.run("strongroom-appliance", *words, exit_code=exit_code)

    def slots(self) -> dict[str, Any]:
        """What `strongroom-appliance slots` says."""
        found: dict[str, Any] = json.loads(self.installer("slots", "--json").stdout)
        return found

    def digest(self, slot: str, size: int) -> str:
        """Of what a root holds."""
        with Path(f"{self.device}p{2 if slot == 'a' else 3}").open("rb") as file:
            return hashlib.sha256(file.read(size)).hexdigest()

    def update(self, content: bytes, image: str = "3000-bbbb", key: Path | None = None) -> Path:
        """An update file, as the image's build writes it."""
        root, target = self.folder / "root", self.folder / f"{image}.update"
        root.write_bytes(content)
        script = PACKER / "update_file.py"
        words = [*map(str, ("python3", script, root, key or self.key, target))]
        subprocess.run([*words, "--image", image, "--version", "9.9"], check=True)
        return target
