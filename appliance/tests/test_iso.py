"""The ISO starts by BIOS and UEFI, from a CD and a stick, is tried live, and installs an appliance by itself."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess

import pytest
from conftest import PROJECT, in_tools
from machine import QEMU_IMG, listeners

GIB = 1 << 30
# What is on the medium or on a stick with the name STRONGROOM; the ISO does the rest.
ANSWERS = """
version: 1
hostname: {name}.example.org
admin: {{name: ann, ssh_keys: ["{key}"]}}
installation: {{{where}}}
"""
# The firmware, how the ISO is connected, where the answers are, and what they say of the disk.
WAYS = {
    "bios": ("cd", "stick", "disk: first, min_size: 7 GB, max_size: 20 GB"),
    "uefi": ("stick", "medium", "disk: /dev/disk/by-id/virtio-SYSTEM"),
}


@pytest.fixture(scope="session")
def iso(image):
    """The ISO of the image."""
    found = sorted(image.parent.glob("*.iso"))
    if not found:
        pytest.fail(f"{image.parent} has no ISO: make iso")
    return found[0]


def test_it_holds_the_disk_of_the_image_and_what_starts_it(image, iso, tmp_path):
    work = PROJECT / "build/image" / f"test-{tmp_path.name}-{os.getpid()}"
    work.mkdir()
    shutil.copy(iso, work / "iso")
    try:
        in_tools("xorriso", "-osirrox", "on", "-indev", f"{work.name}/iso", "-extract", "/", f"{work.name}/tree")
        names = {str(path.relative_to(work / "tree")) for path in (work / "tree").rglob("*") if path.is_file()}
        identity = (work / "tree/strongroom/id").read_text().strip()
        boot = {f"boot/{name}" for name in ("vmlinuz", "initrd.img", "live.cpio")}
        boot |= {f"boot/grub/{name}" for name in ("grub.cfg", "bios.img", "efi.img")} | {"boot.catalog"}
        image_files = {f"strongroom/{name}" for name in ("id", identity, "root-offset", "appliance.squashfs")}
        assert names == boot | image_files
        packed = f"{work.name}/tree/strongroom/appliance.squashfs"
        listed = in_tools("unsquashfs", "-l", "-d", "", packed).stdout.split()
        assert set(listed) - {""} == {"/appliance.raw", "/appliance.raw.sha256"}
        told = in_tools("unsquashfs", "-cat", packed, "appliance.raw.sha256").stdout.split()[0]
        in_tools("unsquashfs", "-d", f"{work.name}/image", packed)
        assert subprocess.run([QEMU_IMG, "compare", image, work / "image/appliance.raw"], check=False).returncode == 0
        with (work / "image/appliance.raw").open("rb") as file:
            assert hashlib.file_digest(file, "sha256").hexdigest() == told
    finally:
        shutil.rmtree(work)


@pytest.fixture
def empty_machine(new_machine):
    """A machine whose disk is empty."""
    made = []

    def make(**options):
        made.append(new_machine(is_empty=True, **options))
        return made[-1]

    yield make
    for one in made:
        one.kill()


# The other two are started live below, from the menu.
@pytest.mark.parametrize(("firmware", "kind"), [("bios", "stick"), ("uefi", "cd")])
def test_its_menu_is_shown(empty_machine, iso, firmware, kind):
    machine = empty_machine()
    machine.start_by_firmware(firmware, medium=(kind, iso))
    machine.wait_for_console("Try it live")


@pytest.fixture(scope="session", params=list(WAYS))
def live(new_machine, iso, request):
    """A machine with an empty disk that was started live."""
    machine = new_machine(is_empty=True)
    machine.start_by_firmware(request.param, medium=(WAYS[request.param][0], iso))
    machine.wait_for_console("Try it live")
    machine.press("l")
    found = machine.look()
    found["console"] = machine.wait_for_console("Enter opens the menu").splitlines()
    machine.kill()
    return machine, found


def test_started_live_it_is_the_appliance_and_says_that_nothing_stays(live):
    _, found = live
    assert found["failed"] == []
    assert listeners(found) == set()
    assert found["passwords"] == []
    assert len(found["machine-id"][0]) == 32
    mounts = {line.split()[0]: line.split() for line in found["mounts"]}
    assert mounts["/"][2] == "overlay"
    assert any("Started live: the setup is lost" in line for line in found["console"])


def test_started_live_it_writes_to_no_disk(live):
    machine, _ = live
    told = subprocess.check_output([QEMU_IMG, "map", "--output=json", machine.disk], text=True)
    assert all(part["zero"] for part in json.loads(told))


def answers_on(way, text, iso, folder):
    """The ISO to start from, and a stick; one of the two has the answers."""
    (folder / "answers").mkdir()
    (folder / "answers/answers.yml").write_text(text)
    if way == "stick":
        stick = folder / "stick"
        with stick.open("wb") as file:
            file.truncate(8 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-L", "STRONGROOM", "-d", folder / "answers", stick], check=True)
        return iso, stick
    # As docs/guides/appliance.md says.
    work = PROJECT / "build/image" / f"test-{folder.name}"
    shutil.copytree(folder / "answers", work)
    shutil.copy(iso, work / "in.iso")
    place = f"/work/{work.name}"
    options = ["-boot_image", "any", "replay", "-map", f"{place}/answers.yml", "/answers.yml"]
    in_tools("xorriso", "-indev", f"{place}/in.iso", "-outdev", f"{place}/out.iso", *options)
    shutil.move(work / "out.iso", folder / "own.iso")
    shutil.rmtree(work)
    return folder / "own.iso", None


@pytest.fixture(scope="session", params=list(WAYS))
def installed(new_machine, iso, key, tmp_path_factory, request):
    """A machine that was installed by no one, from its first start on."""
    kind, way, where = WAYS[request.param]
    public = key.with_suffix(".pub").read_text().strip()
    text = ANSWERS.format(name=f"vault-{request.param}", key=public, where=where)
    medium, stick = answers_on(way, text, iso, tmp_path_factory.mktemp("medium"))
    machine = new_machine(is_empty=True, disk_gib=12)
    machine.start_by_firmware(request.param, medium=(kind, medium), stick=stick)
    machine.wait_for_console("the installation is complete|nothing was changed|error")
    machine.wait_until_off()
    machine.start_by_firmware(request.param, key=public)
    found = machine.look()
    found["console"] = machine.wait_for_console("Enter opens the menu|Enter: log in").splitlines()
    found["state-of-setup"] = machine.ssh(key, "strongroom-appliance state --json").stdout.splitlines()
    boot = "mkdir -p /run/boot && mount -o ro /dev/disk/by-partlabel/strongroom-boot /run/boot && ls /run/boot"
    found["boot-partition"] = machine.ssh(key, boot).stdout.split()
    machine.kill()
    return request.param, found


def test_installed_by_nobody_it_starts_alone_and_is_set_up(installed):
    firmware, found = installed
    assert found["failed"] == []
    state = json.loads(found["state-of-setup"][0])
    assert state["is_ready"], state
    assert state["answers_from"].startswith("the installer")
    assert f"vault-{firmware}" in "\n".join(found["console"])


def test_the_installed_system_takes_the_whole_disk_and_keeps_no_answers_beside_it(installed):
    _, found = installed
    assert int(found["state"][0].split()[0]) > 6 * GIB
    assert "grub" in found["boot-partition"]
    assert "strongroom-answers.yml" not in found["boot-partition"]


# Machine id and host key of each machine that was started so far.
IDENTITIES: list[str] = []


def has_its_own_identity(machine):
    own = [*machine["machine-id"], *machine["host-keys"]]
    assert len(own) == 2
    IDENTITIES.extend(own)
    assert len(set(IDENTITIES)) == len(IDENTITIES)


def test_each_started_live_has_an_identity_of_its_own(live):
    has_its_own_identity(live[1])


def test_each_that_was_installed_has_an_identity_of_its_own(installed):
    has_its_own_identity(installed[1])
