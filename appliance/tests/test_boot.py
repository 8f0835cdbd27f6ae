"""The image starts, by BIOS and UEFI, as machines that have nothing in common, and nothing listens before setup.

Starting takes minutes where it is emulated, so few starts serve all tests: one machine without an administrator's key
and then again with one, one by BIOS and one by UEFI. What is asked of a running machine is asked of the first.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from machine import listeners

ALLOWED_SETUID = {
    line.split()[0] for line in (Path(__file__).parent / "setuid.txt").read_text().splitlines() if line[:1] == "/"
}
GIB = 1 << 30


@pytest.fixture(scope="session")
def first(new_machine, kernel):
    """The first start, on a disk that is larger than the image. No administrator has a key."""
    machine = new_machine(disk_gib=12)
    machine.start(kernel)
    found = machine.look()
    found["scan"] = machine.scan()
    machine.shut_down()
    return machine, found


@pytest.fixture(scope="session")
def started(first):
    """What the first start found."""
    return first[1]


@pytest.fixture(scope="session")
def again(first, kernel, key):
    """The same machine started again, with an administrator's key."""
    machine, _ = first
    machine.start(kernel, key=key.with_suffix(".pub").read_text())
    found = machine.look()
    found["scan"] = machine.scan()
    found["ssh"] = machine.ssh(key, "id -un")
    machine.kill()
    return found


@pytest.fixture(scope="session", params=["bios", "uefi"])
def other(new_machine, request):
    """Another machine from the same image, started as hardware does."""
    machine = new_machine()
    machine.start_by_firmware(request.param)
    found = machine.look()
    machine.kill()
    return found


def test_no_unit_fails(started):
    assert started["failed"] == []


def test_another_machine_starts_by_bios_and_uefi_with_another_identity(started, other):
    for what in ("machine-id", "host-keys"):
        assert started[what]
        assert other[what]
        assert set(started[what]).isdisjoint(other[what])


def test_identity_and_state_outlast_a_restart(first, again):
    assert again["machine-id"] == first[1]["machine-id"]
    assert again["host-keys"] == first[1]["host-keys"]
    assert first[1]["marked"] == []
    assert again["marked"][1:] == ["changed"]


def test_nothing_listens_before_setup(started):
    assert listeners(started) == set()
    assert started["vsock"] == []


def test_nothing_answers_from_outside_before_setup(first):
    assert first[1]["scan"] == set()


def test_with_a_key_secure_shell_answers_and_nothing_else(again):
    assert listeners(again) == {"22"}
    assert again["scan"] == {22}
    assert again["ssh"].stdout == "root\n", again["ssh"].stderr


def test_the_root_cannot_be_written_to(started):
    assert "writable" not in started["root-write"]
    mounts = {line.split()[0]: line.split() for line in started["mounts"]}
    assert mounts["/"][3].split(",")[0] == "ro"
    assert mounts["/etc"][2] == "overlay"
    assert {"/var", "/home", "/root", "/srv"} <= set(mounts)


def test_the_state_grows_to_the_end_of_the_disk(started):
    assert int(started["state"][0].split()[0]) > 6 * GIB


def test_nobody_has_a_password(started):
    assert started["passwords"] == []


def test_no_program_has_more_rights_than_listed(started):
    assert {line.split()[-1] for line in started["setuid"]} <= ALLOWED_SETUID


def test_apparmor_and_the_firewall_are_on(started):
    assert started["apparmor"] == ["Y"]
    assert started["firewall"] == ["1"]


def test_how_long_it_takes_and_how_much_memory(started, again, tell):
    """Reports; the one limit is that of memory, as seconds say more about the machine that emulates."""
    report = {}
    for name, found in (("first", started), ("again", again)):
        memory = {line.split()[0]: int(line.split()[1]) for line in found["memory"]}
        used = (memory["MemTotal:"] - memory["MemAvailable:"]) // 1024
        report[name] = {"started": found["started"], "slowest": found["slowest"][:5], "memory_mib": used}
        assert used < 400
    tell(json.dumps(report, indent=1))
    if folder := os.environ.get("STRONGROOM_BOOT_REPORT"):
        Path(folder).write_text(json.dumps({"time": time.time(), **report}, indent=1) + "\n")
