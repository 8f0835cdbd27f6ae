"""The image on a disk: whole and with its answers, or nothing that boots."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest
import zstandard

from appliance_kit.console_on_terminal import ConsoleOnTerminal
from appliance_kit.private_machine import SCRIPTS, LoopDisk, PrivateMachine
from kit.project import DOCUMENTS

MIB = 1 << 20
TABLE = b"""label: gpt
size=16MiB, type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B, name=strongroom-boot
size=32MiB, type=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709, name=strongroom-a
size=40MiB, type=0FC63DAF-8483-4772-8E79-3D69D8477DE4, name=strongroom-state
"""
ANSWERS = "version: 1\nhostname: vault\ninstallation: {{disk: {disk}{more}, finish: stay}}\n"


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A small image with the partitions of a large one, and its digest."""
    raw = tmp_path / "raw"
    with raw.open("wb") as file:
        file.truncate(96 * MIB)
    subprocess.run(["sfdisk", "--quiet", raw], input=TABLE, check=True)
    # FAT as on an image, where this kernel can mount it.
    with open("/proc/filesystems") as file:
        has_fat = "vfat" in file.read()
    fat = ["mkfs.vfat", "-n", "STRONGBOOT"] if has_fat else ["mkfs.ext4", "-q", "-F"]
    for name, start, size, words in (
        ("boot", 1, 16, fat),
        ("state", 49, 40, ["mkfs.ext4", "-q", "-F", "-L", "strongroom-state"]),
    ):
        part = tmp_path / name
        with part.open("wb") as file:
            file.truncate(size * MIB)
        subprocess.run([*words, part], check=True, capture_output=True)
        with raw.open("r+b") as file:
            file.seek(start * MIB)
            file.write(part.read_bytes())
    packed = tmp_path / "appliance.raw.zst"
    packed.write_bytes(zstandard.compress(raw.read_bytes()))
    digest = hashlib.sha256(packed.read_bytes()).hexdigest()
    (tmp_path / "appliance.raw.zst.sha256").write_text(f"{digest}  appliance.raw.zst\n")
    return packed


def install(machine: PrivateMachine, image: Path, *words: str, exit_code: int = 0):
    return machine.run(
        "strongroom-appliance", "install", "--image", str(image), *words, exit_code=exit_code
    )


def partitions(disk: LoopDisk) -> list[str]:
    words = ["sfdisk", "--dump", disk.path]
    found = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    return [line for line in found.splitlines() if line.startswith("/dev/")]


def size_in_sectors(line: str) -> int:
    return int(line.partition("size=")[2].partition(",")[0])


def head_of(disk: LoopDisk) -> bytes:
    with disk.file.open("rb") as file:
        return file.read(8 * MIB)


def on_part(machine: PrivateMachine, disk: LoopDisk, line: str, command: str) -> str:
    """What a command prints in a partition, whose folder is its first argument."""
    start = int(line.partition("start=")[2].partition(",")[0]) * 512
    look = f"mkdir /run/look; mount -o loop,ro,offset={start} {disk.path} /run/look; {command}"
    return str(machine.run("sh", "-c", look, "sh", "/run/look").stdout)


def test_the_image_goes_to_the_disk_and_takes_its_answers(machine, new_disk, image, tmp_path):
    disk = new_disk(5 << 30)
    answers = tmp_path / "answers.yml"
    answers.write_text(ANSWERS.format(disk=disk.path, more=""))
    install(machine, image, "--answers", str(answers))
    boot, _, _ = partitions(disk)
    assert size_in_sectors(boot) == 16 * MIB // 512
    assert answers.read_text() in on_part(machine, disk, boot, "cat $1/strongroom-answers.yml")


@pytest.mark.skipif(shutil.which("systemd-repart") is None, reason="there is no systemd-repart")
def test_the_first_start_takes_the_rest_of_the_disk(machine, new_disk, image, tmp_path):
    disk = new_disk(5 << 30)
    install(machine, image, "--disk", disk.path)
    definitions = DOCUMENTS.parent / "appliance/overlay/usr/lib/repart.d"
    grow = ["systemd-repart", "--dry-run=no", f"--definitions={definitions}", disk.path]
    for _ in range(2):  # also when there is nothing left to do
        subprocess.run(grow, check=True, capture_output=True)
        _, _, state = partitions(disk)
        assert size_in_sectors(state) * 512 > 4 << 30


def test_a_disk_with_something_on_it_wants_the_word(machine, new_disk, image):
    disk = new_disk(5 << 30)
    subprocess.run(["mkfs.ext4", "-q", disk.path], check=True)
    name = disk.path.removeprefix("/dev/")
    for words in ((), ("--erase", "yes")):
        done = install(machine, image, "--disk", disk.path, *words, exit_code=61)
        assert f"holds ext4; nothing was changed. Give the word `{name}`" in done.stderr
    assert partitions(disk) == []
    install(machine, image, "--disk", disk.path, "--erase", name)
    assert len(partitions(disk)) == 3


@pytest.mark.parametrize("part", [0.0, 0.25, 0.5, 0.75, 1.0])
def test_a_damaged_image_leaves_a_disk_that_boots_nothing(machine, new_disk, image, part):
    data = bytearray(image.read_bytes())
    data[int((len(data) - 1) * part)] ^= 1
    image.write_bytes(data)
    disk = new_disk(5 << 30)
    done = install(machine, image, "--disk", disk.path, exit_code=None)
    assert done.returncode == 20
    assert "the medium is damaged" in done.stderr
    assert partitions(disk) == []


def test_a_disk_that_is_too_small_is_refused(machine, new_disk, image):
    done = install(machine, image, "--disk", new_disk(1 << 30).path, exit_code=2)
    assert "smaller than 4.3 GB" in done.stderr


def test_an_image_that_is_not_compressed_must_fit_before_anything_is_erased(
    machine, new_disk, image, tmp_path
):
    raw = tmp_path / "appliance.raw"
    with raw.open("wb") as file:
        file.truncate(6 << 30)
    raw.with_name("appliance.raw.sha256").write_text(f"{'0' * 64}  appliance.raw\n")
    disk = new_disk(5 << 30)
    subprocess.run(["mkfs.ext4", "-q", disk.path], check=True)
    words = ("--disk", disk.path, "--erase", disk.path.removeprefix("/dev/"))
    done = install(machine, raw, *words, exit_code=2)
    assert "smaller than 6.4 GB; choose another disk" in done.stderr
    assert "ext4" in subprocess.check_output(["blkid", "--probe", disk.path], text=True)


def test_where_the_image_is_empty_the_disk_becomes_so(machine, new_disk, image):
    disk = new_disk(5 << 30)
    with open(disk.path, "r+b") as file:
        file.write(b"\xff" * (96 * MIB))
    install(machine, image, "--disk", disk.path, "--erase", disk.path.removeprefix("/dev/"))
    with open(disk.path, "rb") as file:
        file.seek(17 * MIB)
        assert file.read(32 * MIB) == bytes(32 * MIB)


CREDENTIAL = "/etc/credentials/strongroom.answers"


@pytest.fixture
def unattended(machine, image, monkeypatch):
    """Run the unattended installation, with these answers as a credential."""
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", "/etc/credentials")
    raw = image.with_name("raw")
    digest = hashlib.sha256(raw.read_bytes()).hexdigest()
    folder = "/run/live/image"
    script = (
        f"PATH={SCRIPTS}:$PATH; mkdir -p {folder} && cp {raw} {folder}/appliance.raw && "
        f"echo {digest} > {folder}/appliance.raw.sha256 && "
    )

    def run(answers: str = "", *words: str, exit_code: int = 0, then: str = ""):
        if answers:
            machine.write(CREDENTIAL, answers)
        command = f"strongroom-appliance install-unattended {' '.join(words)}{then}"
        return machine.run("sh", "-c", script + command, exit_code=exit_code)

    return run


def test_the_unattended_installation_does_what_the_answers_say(new_disk, unattended):
    assert "there is no answer file" in unattended(exit_code=40).stderr
    disk = new_disk(5 << 30)
    subprocess.run(["mkfs.ext4", "-q", disk.path], check=True)
    done = unattended(ANSWERS.format(disk=disk.path, more=""), exit_code=61)
    assert "holds ext4; nothing was changed" in done.stderr
    more = f", erase: {disk.path.removeprefix('/dev/')}"
    done = unattended(ANSWERS.format(disk=disk.path, more=more))
    assert "the installation is complete" in done.stdout
    assert len(partitions(disk)) == 3


def test_without_answers_that_name_a_disk_the_console_asks(unattended):
    done = unattended("", "--or-ask")
    assert "there is no answer file; the console asks for a disk" in done.stdout
    done = unattended("version: 1\nhostname: vault\n", "--or-ask")
    assert "names no disk for the system; the console asks for one" in done.stdout
    assert "no part `installation`" in unattended(exit_code=40).stderr
    done = unattended("version: 1\nhostnam: vault\n", "--or-ask", exit_code=40)
    assert "did you mean `hostname`?" in done.stderr


def test_the_first_disk_of_a_size_is_taken_if_it_may_be_erased(new_disk, unattended):
    """The machine that runs the tests has other disks, so the sizes fit one only."""
    size = (5 << 30) + 3 * MIB
    disk = new_disk(size)
    sizes = f", min_size: {size - 1}, max_size: {size + 1}"
    subprocess.run(["mkfs.ext4", "-q", disk.path], check=True)
    done = unattended(ANSWERS.format(disk="first", more=sizes), exit_code=61)
    assert f"the first disk, {disk.path}, holds ext4; nothing was changed" in done.stderr
    done = unattended(ANSWERS.format(disk="first", more=f", max_size: {5 * MIB}"), exit_code=2)
    assert "no disk fits" in done.stderr
    before = head_of(disk)
    backups = f"data_disk: {{device: {disk.path}}}\n"
    done = unattended(
        ANSWERS.format(disk="first", more=f"{sizes}, erase: first") + backups, exit_code=2
    )
    assert "not the data disk" in done.stderr
    assert head_of(disk) == before
    unattended(ANSWERS.format(disk="first", more=f"{sizes}, erase: first"))
    assert len(partitions(disk)) == 3


def test_answers_that_were_put_to_a_disk_are_no_order_to_install_again(
    machine, new_disk, unattended
):
    disk = new_disk(5 << 30)
    unattended(ANSWERS.format(disk=disk.path, more=""))
    machine.path(CREDENTIAL).unlink()
    assert "there is no answer file" in unattended(exit_code=40).stderr


def test_what_an_unattended_installation_said_is_shown_before_the_dialogue(new_disk, unattended):
    answers = ANSWERS.format(disk="/dev/nosuchdisk", more="")
    done = unattended(answers, exit_code=0, then="; cat /run/strongroom/installation")
    assert "The unattended installation failed:\nthere is no disk /dev/nosuchdisk" in done.stdout


def test_a_machine_that_was_started_live_looks_for_no_answers(machine, monkeypatch):
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", "/etc/credentials")
    machine.write(CREDENTIAL, "version: 1\nhostname: other.example.org\n")
    script = (
        f"PATH={SCRIPTS}:$PATH; mkdir -p /run/live/image; strongroom-appliance first-boot; hostname"
    )
    done = machine.run("sh", "-c", script)
    assert "started live: no answer file is looked for" in done.stdout
    assert "other" not in done.stdout


def test_the_dialogue_wants_the_name_of_the_disk(machine, new_disk, image):
    disk = new_disk(5 << 30)
    name = disk.path.removeprefix("/dev/")
    words = machine.command("strongroom-appliance", "console", "--install", str(image))
    with ConsoleOnTerminal(words, term="vt100") as menu:
        menu.wait_for("Install to a disk")
        menu.press("1")
        menu.wait_for("to which disk?", "empty")
        menu.press(next(one for one in menu.lines if name in one).split()[0])
        menu.wait_for("ALL THAT IS ON THIS DISK IS LOST", f"Type {name} to continue")
        menu.press("yes", "enter")
        menu.wait_for("That is not the disk's name. Nothing was changed.")
        assert partitions(disk) == []
        menu.press("enter")
        menu.wait_for("Install to a disk")
        menu.press("1")
        menu.wait_for("to which disk?", "empty")
        menu.press(next(one for one in menu.lines if name in one).split()[0])
        menu.wait_for("to continue")
        menu.press(name, "enter")
        menu.wait_for("Done. Remove the ISO and restart.")
    assert len(partitions(disk)) == 3
