"""An appliance that is set up, and who is at it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from machine import OUTSIDE, Machine

HERE = Path(__file__).resolve().parent
# Its address among the hosts of molecule/host.sh.
INSIDE = "10.88.0.10"
ANSWERS = """
version: 1
hostname: vault.example.org
time: {{ntp: ["{outside}"]}}
network:
  interfaces: [{{mac: "{card}", addresses: [192.0.2.10/24, {inside}/24]}}]
admin: {{name: ann, ssh_keys: ["{key}"]}}
data_disk: {{device: /dev/disk/by-id/virtio-DATA}}
appliance: {{address: {inside}, groups: [servers]}}
agents: {{tokens: [{{group: servers}}]}}
updates: {{source: "http://{outside}:8000/good.update"}}
"""
# A broken root is known to be one in less than the quarter of an hour that it has.
JUDGEMENT = "[Service]\nExecStart=\nExecStart=/usr/sbin/strongroom-appliance confirm --within 600\n"
# What must survive everything.
KEPT = {
    "machine id": "cat /etc/machine-id",
    "host key": "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub",
    "host name": "hostname",
    "passphrase": "sha256sum /var/lib/strongroom/director/passphrase",
    "authority": "find /var/lib/strongroom/ca -name '*.pem' -exec sha256sum {} + | sort",
    "repository": "sha256sum /srv/strongroom/repository/config",
    "data disk": "findmnt --noheadings --output FSTYPE,UUID /srv/strongroom",
    "administrator": "id ann",
    "own file": "cat /etc/kept /var/lib/kept",
}


class Life:
    """Started by BIOS and GRUB, and set up by an answer file; outside is a server of time."""

    def __init__(self, machine: Machine, key: Path) -> None:
        self.machine = machine
        self.key = key
        self.boot = ""
        self.public = key.with_suffix(".pub").read_text().strip()
        answers = ANSWERS.format(card=machine.card, key=self.public, outside=OUTSIDE, inside=INSIDE)
        given = {"strongroom.answers": answers, "systemd.unit-dropin.strongroom-trial.service": JUDGEMENT}
        machine.run_outside(sys.executable, HERE / "time_server.py", OUTSIDE)
        machine.start_by_firmware("bios", key=self.public, given=given)
        machine.wait_for_console("this machine is set up|strongroom-appliance.*error")
        self.restarted()
        self.does("echo mine > /etc/kept; echo mine > /var/lib/kept; sync")
        self.before = self.kept()

    def does(self, command: str, *, code: int = 0) -> str:
        """What root's command prints."""
        done = self.machine.ssh(self.key, command)
        assert done.returncode == code, (command, done.returncode, done.stdout, done.stderr)
        return done.stdout

    def updates(self, place: str) -> str:
        """Write an update and restart, which may end the connection before the answer; the root that is good now."""
        good = str(self.slots()["running"])
        done = self.machine.ssh(self.key, f"strongroom-appliance update {place} --restart")
        assert done.stdout.endswith("restarts\n"), (done.returncode, done.stdout, done.stderr)
        return good

    def restarted(self) -> None:
        """Wait for another start than the last one."""
        self.boot = self.machine.wait_for_ssh(self.key, self.boot)

    def cut_the_power(self) -> None:
        """End it as a power cut does, start it again, and wait until all of it has started."""
        self.machine.kill()
        self.machine.start_by_firmware("bios", key=self.public)
        self.restarted()
        self.does("systemctl is-system-running --wait > /dev/null; true")
        for daemon in ("strongroom-director", "strongroom-storage"):
            found = self.machine.ssh(self.key, f"systemctl is-active {daemon} || journalctl -b --no-pager -u {daemon}")
            assert found.stdout == "active\n", found.stdout

    def kept(self) -> dict[str, str]:
        """What must be the same after everything."""
        said = self.does("set -e; " + "; ".join(f"echo '=== {name}'; {command}" for name, command in KEPT.items()))
        parts = re.split(r"^=== (.*)$", said, flags=re.MULTILINE)
        return {name: text.strip() for name, text in zip(parts[1::2], parts[2::2], strict=True)}

    def slots(self) -> dict[str, object]:
        """What `strongroom-appliance slots` says."""
        found: dict[str, object] = json.loads(self.does("strongroom-appliance slots --json"))
        return found

    def settled(self) -> dict[str, object]:
        """The slots, once the running root is judged."""
        wait = "while systemctl is-active --quiet strongroom-trial; do sleep 1; done"
        self.does(f"systemctl is-system-running --wait > /dev/null; {wait}; true")
        return self.slots()

    def is_at_work(self) -> None:
        """The daemons run and answer, and no unit has failed."""
        self.does("systemctl is-active strongroom-director strongroom-storage strongroom-console ssh")
        self.does("HOME=/root strongroom status")
        assert self.does("systemctl --failed --no-legend --plain") == ""
