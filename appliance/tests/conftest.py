"""Which image is tested: the results of `make image`, or the folder that STRONGROOM_IMAGE names."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from machine import PROJECT, Machine

RESULTS = Path(os.environ.get("STRONGROOM_IMAGE", PROJECT / "build/image/results"))


@pytest.fixture(scope="session")
def image() -> Path:
    """The image as it is released."""
    found = sorted(RESULTS.glob("*.qcow2"))
    if not found:
        pytest.fail(f"{RESULTS} has no image: make image")
    return found[0]


@pytest.fixture(scope="session")
def accelerator() -> str:
    """The accelerator that works here."""
    kernel = sorted((PROJECT / "build/image").glob("base-*.kernel"))
    command = [PROJECT / "packer/accelerator.sh", kernel[0] if kernel else "/nonexistent"]
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
