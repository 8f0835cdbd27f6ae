"""The support bundle holds what helps, and none of the secrets that this machine has."""

from __future__ import annotations

import tarfile

from appliance_kit.answers_for_tests import PASSWORD_HASH, whole_answers
from appliance_kit.private_machine import PrivateMachine

BUNDLE = "/var/tmp/support.tar.gz"
PLANTED = {
    "/etc/strongroom/director.d/console/more.conf": "Console { Name = x; "
    'Password = "PLANTED-1 word" }\n'
    "Notify { URL = https://ann:PLANTED-2@example.org/hook; Token = PLANTED-3 }\n",
    "/etc/strongroom/appliance.toml.conf": "passphrase: PLANTED-4\n",
    "/etc/strongroom/director.d/console/key.conf": "-----BEGIN PRIVATE KEY-----\nPLANTED-5\n"
    "-----END PRIVATE KEY-----\n",
}
# Secrets that are in their own file, and that a configuration or a log repeats.
IN_FILES = {
    "/var/lib/strongroom/director/mail.password": "PLANTED-6-a-secret-of-its-own",
    "/var/lib/strongroom/appliance/tokens/servers-9": "PLANTED-7-a-token-of-its-own",
}


def texts_of(machine: PrivateMachine) -> dict[str, str]:
    with tarfile.open(machine.path(BUNDLE)) as archive:
        found = {}
        for entry in archive:
            file = archive.extractfile(entry)
            assert file is not None
            found[entry.name.removeprefix("strongroom-support/")] = file.read().decode()
        return found


def test_no_secret_of_the_machine_is_in_its_support_bundle(machine, new_disk):
    machine.write("/etc/answers.yml", whole_answers(new_disk().path))
    machine.run("strongroom-appliance", "apply", "/etc/answers.yml")
    for path, text in PLANTED.items():
        machine.write(path, text)
    for path, text in IN_FILES.items():
        machine.write(path, text + "\n")
        machine.path(path).chmod(0o600)
    repeated = " ".join(IN_FILES.values())
    machine.write("/etc/strongroom/director.d/console/repeated.conf", f"# {repeated}\n")
    machine.run("strongroom-appliance", "bundle", BUNDLE)
    texts = texts_of(machine)
    together = "\n".join(texts.values())
    secrets = [PASSWORD_HASH]
    secrets += [
        machine.path(f"/var/lib/strongroom/{path}").read_text().strip()
        for path in (
            "director/passphrase", "appliance/tokens/servers-1", "appliance/tokens/servers-2",
        )
    ]  # fmt: skip
    for path in ("ca/root.key", "director/appliance.key", "director/identity/key.pem"):
        text = machine.path(f"/var/lib/strongroom/{path}").read_text()
        secrets += [line for line in text.splitlines() if len(line) > 20 and "-----" not in line]
    assert len(secrets) >= 6
    assert [secret for secret in secrets if secret in together] == []
    assert "PLANTED" not in together


def test_the_support_bundle_holds_what_helps(machine, new_disk):
    machine.write("/etc/answers.yml", whole_answers(new_disk().path))
    machine.run("strongroom-appliance", "apply", "/etc/answers.yml")
    machine.run("strongroom-appliance", "bundle", BUNDLE)
    texts = texts_of(machine)
    assert '"data_disk"' in texts["files/var/lib/strongroom/appliance/state.json"]
    assert "vault.example.org" in texts["files/var/lib/strongroom/appliance/answers.yml"]
    assert "Keep Daily = 14" in texts["files/etc/strongroom/director.d/director/vault-dir.conf"]
    assert "Address=192.0.2.10/24" in texts["files/etc/systemd/network/50-strongroom-eth0.network"]
    assert "MOUNTPOINTS" in texts["system/disks.txt"]
    assert machine.path(BUNDLE).stat().st_mode & 0o777 == 0o600
    done = machine.run("strongroom-appliance", "bundle", BUNDLE, exit_code=2)
    assert "cannot make" in done.stderr
