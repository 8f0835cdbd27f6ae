"""An answer file on a real machine: what it makes, once, and after a power cut at any moment."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from appliance_kit.answers_for_tests import PASSWORD_HASH, SSH_KEY, whole_answers
from appliance_kit.private_machine import SCRIPTS, LoopDisk, PrivateMachine
from kit.project import DOCUMENTS

FILE = "/etc/answers.yml"
STATE = "/var/lib/strongroom/appliance/state.json"
PASSPHRASE = "/var/lib/strongroom/director/passphrase"


def apply(machine: PrivateMachine, exit_code: int | None = 0) -> subprocess.CompletedProcess[str]:
    return machine.run("strongroom-appliance", "apply", FILE, exit_code=exit_code)


def refused(machine: PrivateMachine, answers: str) -> str:
    machine.write(FILE, answers)
    return apply(machine, 61).stderr


def state_of(machine: PrivateMachine) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(machine.path(STATE).read_text())
    return found


def only_disk(disk: LoopDisk, more: str = "") -> str:
    return f"version: 1\ndata_disk: {{device: {disk.path}{more}}}\n"


def name_of(disk: LoopDisk) -> str:
    return disk.path.removeprefix("/dev/")


def kind_of(disk: LoopDisk) -> str:
    words = ["blkid", "--probe", "--match-tag", "TYPE", "--output", "value", disk.path]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()


def test_an_answer_file_makes_the_machine_and_a_second_time_changes_nothing(machine, new_disk):
    machine.write(FILE, whole_answers(new_disk().path))
    apply(machine)
    assert machine.path("/etc/hostname").read_text() == "vault\n"
    assert "127.0.1.1 vault.example.org vault\n" in machine.path("/etc/hosts").read_text()
    assert machine.path("/etc/localtime").readlink().name == "Berlin"
    keys = machine.path("/etc/ssh/strongroom-keys/admin")
    assert keys.read_text() == SSH_KEY + "\n"
    assert PASSWORD_HASH in machine.path("/etc/shadow").read_text()
    assert machine.path("/etc/sudoers.d/strongroom-admin").read_text().endswith("(ALL:ALL) ALL\n")
    assert stat.S_IMODE(machine.path("/etc/sudoers.d/strongroom-admin").stat().st_mode) == 0o440
    assert "srv/strongroom xfs noatime" in machine.path("/etc/fstab").read_text()
    assert stat.S_IMODE(machine.path(PASSPHRASE).stat().st_mode) == 0o400
    tokens = machine.path("/var/lib/strongroom/appliance/tokens/servers-2")
    made = tokens.read_text()
    again = apply(machine).stdout.splitlines()
    # After a restart the disk is mounted by systemd.
    assert [line for line in again if line.startswith("  ")] == ["  mounted /srv/strongroom"]
    assert tokens.read_text() == made
    assert {one["result"] for one in state_of(machine)["steps"].values()} == {"done"}


def test_keyboard_and_name_are_as_the_answers_write_them(machine):
    machine.write(FILE, "version: 1\nhostname: VAULT.Example.org\nkeyboard: de-nodeadkeys\n")
    apply(machine)
    assert machine.path("/etc/hostname").read_text() == "VAULT\n"
    said = machine.path("/etc/default/keyboard").read_text()
    assert 'XKBLAYOUT="de"\nXKBVARIANT="nodeadkeys"\n' in said


def test_a_data_disk_that_was_enlarged_is_used_as_a_whole(machine, new_disk):
    disk = new_disk()
    machine.write(FILE, only_disk(disk))
    apply(machine)
    line = next(one for one in machine.path("/etc/fstab").read_text().splitlines() if "srv/" in one)
    # At a restart systemd does it.
    assert "x-systemd.growfs" in line.split()[3].split(",")
    disk.enlarge(800 << 20)
    assert "enlarged the file system" in apply(machine).stdout
    words = f"strongroom-appliance apply {FILE}; df --block-size=1M --output=size /srv/strongroom"
    done = machine.run("sh", "-c", f"PATH={SCRIPTS}:$PATH; {words}")
    assert "enlarged" not in done.stdout
    assert int(done.stdout.split()[-1]) > 600


def test_another_disk_is_refused_even_if_it_is_as_large(machine, new_disk):
    disk, other = new_disk(), new_disk()
    machine.write(FILE, only_disk(disk))
    apply(machine)
    state = state_of(machine)
    state["disk"]["device"] = state["disk"]["stable_name"] = other.path
    machine.path(STATE).write_text(json.dumps(state))
    assert "another disk than before" in refused(machine, only_disk(other))
    assert kind_of(other) == ""


def test_a_command_that_fails_is_told_by_its_error_and_nothing_else(machine):
    machine.write(FILE, "version: 1\nhostname: v\nappliance: {storage_user: nobody-of-ours}\n")
    done = apply(machine, 71)
    assert "Traceback" not in done.stderr
    error = state_of(machine)["steps"]["appliance"]["error"]
    assert error.startswith("`strongroom setup appliance` failed: there is no user")


def test_two_machines_of_the_same_answers_are_different(tmp_path, machine, new_disk):
    from appliance_kit.private_machine import PrivateMachine

    other = PrivateMachine(tmp_path / "other")
    for one in (machine, other):
        one.write(FILE, whole_answers(new_disk().path))
        apply(one)
    for path in ("/etc/ssh/ssh_host_ed25519_key", PASSPHRASE,
                 "/var/lib/strongroom/ca/root.key", "/var/lib/strongroom/director/appliance.key",
                 "/var/lib/strongroom/appliance/tokens/servers-1"):  # fmt: skip
        assert machine.path(path).read_bytes() != other.path(path).read_bytes(), path


def test_no_secret_of_the_answers_is_left_in_what_is_kept_of_them(machine, new_disk):
    machine.write(FILE, whole_answers(new_disk().path))
    apply(machine)
    folder = machine.path(STATE).parent
    kept = {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}
    assert "hostname" in kept["answers.yml"]
    assert not [name for name, text in kept.items() if PASSWORD_HASH in text]


@pytest.mark.parametrize("content", ["ext4", "xfs inside a partition", "swap", "data"])
def test_a_disk_with_anything_on_it_is_refused_and_stays_as_it_is(machine, new_disk, content):
    disk = new_disk()
    if content == "ext4":
        subprocess.run(["mkfs.ext4", "-q", disk.path], check=True)
    elif content == "swap":
        subprocess.run(["mkswap", disk.path], check=True, capture_output=True)
    elif content == "data":
        with disk.file.open("r+b") as file:
            file.seek(9 << 20)
            file.write(b"a letter")
    else:
        table = b"label: gpt\n,,\n"
        subprocess.run(["sfdisk", "--quiet", disk.path], input=table, check=True)
    before = disk.file.read_bytes()
    said = refused(machine, only_disk(disk))
    assert "[conflict]" in said
    assert "nothing was changed" in said
    assert f"erase: {name_of(disk)}" in said
    assert disk.file.read_bytes() == before


@pytest.mark.skipif(os.path.exists("/dev/tpmrm0"), reason="this machine has a TPM")
def test_a_disk_for_the_tpm_is_refused_where_there_is_none_and_stays_as_it_is(machine, new_disk):
    disk = new_disk()
    before = disk.file.read_bytes()
    words = "encryption: tpm2, passphrase: correct horse battery"
    said = refused(machine, f"version: 1\ndata_disk: {{device: {disk.path}, {words}}}\n")
    assert "TPM 2.0; nothing was changed" in said
    assert "write `encryption: passphrase`" in said
    assert disk.file.read_bytes() == before
    machine.write("/etc/word", "correct horse battery\n")
    machine.path("/etc/word").chmod(0o600)
    words = ("recovery-key", "--passphrase-file", "/etc/word")
    done = machine.run("strongroom-appliance", *words, exit_code=61)
    assert "no encrypted data disk" in done.stderr


def test_a_passphrase_that_is_not_utf_8_is_refused_in_words(machine):
    file = machine.path("/etc/word")
    file.write_bytes("Pässwort der Platte\n".encode("latin-1"))
    file.chmod(0o600)
    for action in ("recovery-key", "unlock"):
        words = (action, "--passphrase-file", "/etc/word")
        done = machine.run("strongroom-appliance", *words, exit_code=2)
        assert "/etc/word) is not UTF-8" in done.stderr


def test_a_disk_that_is_mounted_is_refused_even_if_it_may_be_erased(machine, new_disk, tmp_path):
    disk = new_disk()
    subprocess.run(["mkfs.ext4", "-q", disk.path], check=True)
    machine.write(FILE, only_disk(disk, f", erase: {name_of(disk)}"))
    words = f"mount {disk.path} /mnt && exec strongroom-appliance apply {FILE}"
    done = machine.run("sh", "-c", f"PATH={SCRIPTS}:$PATH; {words}", exit_code=61)
    assert "is used (/mnt)" in done.stderr
    assert kind_of(disk) == "ext4"


def test_the_word_erases_a_disk_once_and_never_again(machine, new_disk):
    disk = new_disk()
    subprocess.run(["mkfs.ext4", "-q", disk.path], check=True)
    machine.write(FILE, only_disk(disk, f", erase: {name_of(disk)}"))
    apply(machine)
    assert kind_of(disk) == "xfs"
    first = state_of(machine)["disk"]["xfs_uuid"]
    apply(machine)
    uuid = subprocess.run(
        ["blkid", "--probe", "--match-tag", "UUID", "--output", "value", disk.path],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    assert uuid == first


def test_a_disk_with_backups_is_taken_over_and_its_key_imported(tmp_path, machine, new_disk):
    from appliance_kit.private_machine import PrivateMachine

    disk = new_disk()
    machine.write(FILE, whole_answers(disk.path))
    apply(machine)
    passphrase = machine.path(PASSPHRASE).read_text().strip()
    heir = PrivateMachine(tmp_path / "heir")
    wrong = '{mode: import, passphrase: "not this one"}'
    heir.write(FILE, whole_answers(disk.path, key=wrong))
    assert "[wrong-key]" in apply(heir, 12).stderr
    assert not heir.path(PASSPHRASE).exists()
    heir.write(FILE, whole_answers(disk.path, key=f'{{mode: import, passphrase: "{passphrase}"}}'))
    apply(heir)
    assert heir.path(PASSPHRASE).read_text().strip() == passphrase
    assert "kept the file system" in str(state_of(heir)["steps"]["data_disk"]["did"])


def moments_of_a_disk(
    machine_at: Callable[[int], PrivateMachine], new_disk: Callable[..., LoopDisk], step: int
) -> None:
    """Cut the power at every `step`th moment, each on a fresh machine with a fresh disk."""
    moment = 1
    while True:
        machine, disk = machine_at(moment), new_disk()
        machine.write(FILE, only_disk(disk))
        if not machine.killed_at(moment, "strongroom-appliance", "apply", FILE):
            break
        apply(machine)
        plan = state_of(machine)["disk"]
        assert plan["is_made"], moment
        lines = [
            one for one in machine.path("/etc/fstab").read_text().splitlines() if "srv/" in one
        ]
        assert [one.split()[0] for one in lines] == [f"UUID={plan['xfs_uuid']}"], moment
        subprocess.run(["xfs_repair", "-n", disk.path], check=True, capture_output=True)
        disk.close()
        disk.file.unlink()
        moment += step
    assert moment > 20


def test_a_power_cut_while_a_disk_is_made_is_made_good(tmp_path, machine, new_disk):
    from appliance_kit.private_machine import PrivateMachine

    moments_of_a_disk(lambda moment: PrivateMachine(tmp_path / str(moment)), new_disk, 9)


@pytest.mark.slow
def test_a_power_cut_at_every_moment_while_a_disk_is_made(tmp_path, machine, new_disk):
    from appliance_kit.private_machine import PrivateMachine

    moments_of_a_disk(lambda moment: PrivateMachine(tmp_path / str(moment)), new_disk, 1)


def test_after_a_power_cut_another_disk_in_its_place_is_refused(machine, new_disk):
    disk, other = new_disk(), new_disk()
    machine.write(FILE, only_disk(disk))
    moment = 1
    while machine.killed_at(moment, "strongroom-appliance", "apply", FILE):
        text = machine.path(STATE).read_text() if machine.path(STATE).exists() else "{}"
        if json.loads(text).get("disk"):
            break
        moment += 1
    state = state_of(machine)
    assert not state["disk"]["is_made"]
    # The same place, another disk with somebody's files.
    state["disk"]["device"] = state["disk"]["stable_name"] = other.path
    machine.path(STATE).write_text(json.dumps(state))
    subprocess.run(["mkfs.ext4", "-q", other.path], check=True)
    said = refused(machine, only_disk(other))
    assert "another disk" in said
    assert kind_of(other) == "ext4"


def first_boot(machine: PrivateMachine, moment: int) -> bool:
    """Whether it was killed."""
    return machine.killed_at(moment, "strongroom-appliance", "first-boot")


def test_a_first_boot_that_is_cut_again_and_again_ends_all_the_same(machine, new_disk, monkeypatch):
    machine.write("/etc/credentials/strongroom.answers", whole_answers(new_disk().path))
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", "/etc/credentials")
    moment = 1
    cuts = 0
    while first_boot(machine, moment):
        cuts += 1
        moment += 6
    assert cuts > 5
    state = state_of(machine)
    assert state["is_ready"]
    assert {one["result"] for one in state["steps"].values()} == {"done"}
    folder = machine.path(STATE).parent
    assert not list(folder.rglob("*pending*"))
    key = machine.path("/etc/ssh/ssh_host_ed25519_key")
    words = ["ssh-keygen", "-y", "-P", "", "-f", str(key)]
    public = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()[1]
    assert key.with_suffix(".pub").read_text().split()[1] == public
    shadow = machine.path("/etc/shadow").read_text()
    assert shadow.count("\nadmin:") == 1
    done = machine.run("strongroom-appliance", "first-boot")
    assert "set up before; nothing was changed" in done.stdout


def test_a_first_boot_without_answers_leaves_the_machine_to_the_menu(machine):
    done = machine.run("strongroom-appliance", "first-boot")
    assert "there is no answer file" in done.stdout
    assert machine.path("/etc/ssh/ssh_host_ed25519_key").exists()
    assert not machine.path("/etc/systemd/network").exists()


def test_what_a_first_boot_does_is_on_every_console(machine, monkeypatch):
    # The last of them is where systemd writes; the other one is a file here.
    machine.write("/etc/active", "../etc/serial-line tty0\n")
    machine.write("/etc/serial-line", "")
    machine.write("/etc/credentials/strongroom.answers", "version: 1\nkeyboard: de\n")
    machine.prepare = "mount --bind /etc/active /sys/class/tty/console/active"
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", "/etc/credentials")
    monkeypatch.setenv("JOURNAL_STREAM", "8:1")
    done = machine.run("strongroom-appliance", "first-boot")
    assert done.stdout.splitlines()[-2:] == ["Next: 2 Host name and time", "this machine is set up"]
    # Each line is written to the beginning of a file.
    assert machine.path("/etc/serial-line").read_bytes().startswith(b"this machine is set up\r\n")
    machine.path("/var/lib/strongroom/appliance/ready").unlink()
    machine.path(STATE).unlink()
    machine.write("/etc/credentials/strongroom.answers", "version: 2\n")
    machine.run("strongroom-appliance", "first-boot", exit_code=40)
    said = machine.path("/etc/serial-line").read_text()
    assert said.startswith("strongroom-appliance: error [configuration]: ")


def test_a_faulty_answer_file_changes_nothing_and_is_told_on_the_console(machine, monkeypatch):
    machine.write("/etc/credentials/strongroom.answers", "version: 1\nhostnam: vault\n")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", "/etc/credentials")
    done = machine.run("strongroom-appliance", "first-boot", exit_code=40)
    assert "credential strongroom.answers:2: there is no `hostnam`; did you mean" in done.stderr
    assert "did you mean `hostname`?" in state_of(machine)["trouble"]
    assert not machine.path("/etc/hostname").exists()


def test_a_refused_answer_file_is_read_again_where_it_was_mended(machine, new_disk, monkeypatch):
    disk = new_disk()
    subprocess.run(["mkfs.ext4", "-q", disk.path], check=True)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", "/etc/credentials")
    answers = "/etc/credentials/strongroom.answers"
    # Right as a file; the disk is refused only when it is checked.
    machine.write(answers, only_disk(disk))
    machine.run("strongroom-appliance", "first-boot", exit_code=61)
    assert "holds ext4" in state_of(machine)["trouble"]
    machine.write(answers, only_disk(disk, f", erase: {name_of(disk)}"))
    machine.run("strongroom-appliance", "first-boot")
    state = state_of(machine)
    assert (state["is_ready"], state["trouble"]) == (True, "")
    # The service does not start any more.
    unit = (DOCUMENTS.parent / "appliance/systemd/strongroom-firstboot.service").read_text()
    condition = re.search(r"^ConditionPathExists=!(.*)$", unit, re.MULTILINE)[1]
    assert machine.path(condition).exists()


def test_of_two_at_a_time_one_is_refused(machine):
    machine.write(FILE, "version: 1\nhostname: vault\n")
    script = (
        "mkdir -p /var/lib/strongroom/appliance; exec 9> /var/lib/strongroom/appliance/lock; "
        f"flock 9; exec {SCRIPTS}/strongroom-appliance apply {FILE}"
    )
    done = machine.run("sh", "-c", script, exit_code=61)
    assert "is being set up at the moment" in done.stderr
