"""The data disk of an appliance that has a TPM: it unlocks itself here, and by the recovery key elsewhere.

The TPM is emulated (swtpm). The tests follow each other.
"""

from __future__ import annotations

import re

import pytest

PASSPHRASE = "a passphrase for the disk"
ANSWERS = """
version: 1
hostname: vault.example.org
admin: {{name: ann, ssh_keys: ["{key}"]}}
data_disk: {{device: /dev/disk/by-id/virtio-DATA, encryption: tpm2, passphrase: {passphrase}}}
appliance: {{groups: [servers]}}
"""
MOUNTED = "findmnt --noheadings --output FSTYPE /srv/strongroom; true"


@pytest.fixture(scope="module")
def vault(new_machine, key, tmp_path_factory):
    """An appliance that was set up with its TPM; tpm is its folder."""
    machine = new_machine(data_gib=2)
    machine.tpm = tmp_path_factory.mktemp("tpm") / "own"
    machine.key = key
    public = key.with_suffix(".pub").read_text().strip()
    answers = ANSWERS.format(key=public, passphrase=PASSPHRASE)
    machine.start_by_firmware("bios", key=public, given={"strongroom.answers": answers}, tpm=machine.tpm)
    machine.wait_for_console("this machine is set up|strongroom-appliance.*error")
    machine.boot = machine.wait_for_ssh(key)
    return machine


def does(vault, command, code=0):
    done = vault.ssh(vault.key, command)
    assert done.returncode == code, (command, done.returncode, done.stdout, done.stderr)
    return done.stdout


def test_the_disk_is_encrypted_and_has_a_passphrase_a_tpm_and_a_recovery_key(vault):
    assert does(vault, MOUNTED).strip() == "xfs"
    does(vault, f"umask 077; echo '{PASSPHRASE}' > /run/passphrase; echo wrong > /run/wrong")
    does(vault, "strongroom-appliance recovery-key --passphrase-file /run/wrong", code=12)
    for _ in range(2):
        said = does(vault, "strongroom-appliance recovery-key --passphrase-file /run/passphrase")
        vault.recovery_key = "".join(re.findall(r"^  ([a-z-]{30,})$", said, re.MULTILINE))
        assert len(vault.recovery_key) == 71
    told = does(vault, "systemd-cryptenroll /dev/disk/by-id/virtio-DATA")
    assert sorted(line.split()[1] for line in told.splitlines()[1:]) == ["password", "recovery", "tpm2"]


def test_after_a_restart_the_tpm_has_unlocked_it_and_the_daemons_run(vault):
    does(vault, "systemctl reboot --no-block; true")
    vault.boot = vault.wait_for_ssh(vault.key, vault.boot)
    does(vault, "systemctl is-system-running --wait > /dev/null; true")
    assert does(vault, MOUNTED).strip() == "xfs"
    does(vault, "systemctl is-active strongroom-storage strongroom-director")
    assert does(vault, "systemctl --failed --no-legend --plain") == ""


def test_with_another_tpm_it_stays_locked_and_the_recovery_key_opens_it(vault):
    vault.kill()
    vault.start_by_firmware("bios", key=vault.key.with_suffix(".pub").read_text(), tpm=vault.tpm.parent / "other")
    vault.wait_for_ssh(vault.key, vault.boot)
    does(vault, "systemctl is-system-running --wait > /dev/null; true")
    assert does(vault, MOUNTED) == ""
    does(vault, "systemctl is-active strongroom-storage", code=3)
    does(vault, f"umask 077; echo {vault.recovery_key} > /run/key")
    does(vault, "strongroom-appliance unlock --passphrase-file /run/key")
    assert does(vault, MOUNTED).strip() == "xfs"
    does(vault, "systemctl is-active strongroom-storage strongroom-director")
