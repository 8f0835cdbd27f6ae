"""Which image is tested: the results of `make image`, or the folder that STRONGROOM_IMAGE names."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from machine import PROJECT, QEMU_IMG, Machine

MIB = 1 << 20
# Where the boot partition and root a begin, see packer/base/make_disk.py.
BOOT_OFFSET, ROOT_OFFSET = 2 * MIB, 66 * MIB
RESULTS = Path(os.environ.get("STRONGROOM_IMAGE", PROJECT / "build/image/results"))


@pytest.fixture(scope="session")
def image() -> Path:
    """The image as it is released."""
    found = sorted(RESULTS.glob("*.qcow2"))
    if not found:
        pytest.fail(f"{RESULTS} has no image: make image")
    return found[0]


def in_tools(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a tool in the folder of images."""
    return subprocess.run([PROJECT / "packer/in_tools.sh", *command], check=True, capture_output=True, text=True)


@pytest.fixture(scope="session")
def raw():
    """The disk of the image, as a name among the tools."""
    return f"test-{os.getpid()}.raw"


@pytest.fixture(scope="session")
def root(image, raw):
    """The files of root a, copied out of the image."""
    build = PROJECT / "build/image"
    subprocess.run([QEMU_IMG, "convert", "-O", "raw", image, build / raw], check=True)
    folder = f"{raw}.root"
    in_tools("mkdir", folder)
    in_tools("debugfs", "-R", f"rdump / {folder}", f"{raw}?offset={ROOT_OFFSET}")
    yield build / folder
    in_tools("rm", "-rf", folder, raw)


@pytest.fixture(scope="session")
def kernel(root, tmp_path_factory) -> Path:
    """The kernel of the image; its initial RAM disk lies beside it, with the end .initrd."""
    folder = tmp_path_factory.mktemp("kernel")
    for pattern, name in (("vmlinuz-*", "kernel"), ("initrd.img-*", "kernel.initrd")):
        shutil.copy(next((root / "boot").glob(pattern)), folder / name)
    return folder / "kernel"


@pytest.fixture(scope="session")
def accelerator(kernel) -> str:
    """The accelerator that works here."""
    command = [PROJECT / "packer/accelerator.sh", kernel]
    return os.environ.get("ACCELERATOR") or subprocess.check_output(command, text=True).strip()


@pytest.fixture(scope="session")
def key(tmp_path_factory) -> Path:
    """An administrator's key."""
    path = tmp_path_factory.mktemp("key") / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    return path


@pytest.fixture(scope="session")
def new_machine(image, accelerator, tmp_path_factory):
    """A machine that has never been started, as often as asked; each is ended at the end."""
    made = []

    def make(**options):
        one = Machine(image, tmp_path_factory.mktemp("machine") / "it", accelerator, **options)
        made.append(one)
        return one

    yield make
    for one in made:
        one.__exit__()
