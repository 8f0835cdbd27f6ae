"""One appliance from its first start on: set up by an answer file, restarted, updated, and saved from broken updates.

It starts as hardware does, by BIOS and GRUB, which counts the tries of an update. The tests follow each other.
"""

from __future__ import annotations

import json
import subprocess

import pytest

ANSWERS = """
version: 1
hostname: vault.example.org
network:
  interfaces: [{{mac: "{card}", addresses: [192.0.2.10/24]}}]
admin: {{name: ann, ssh_keys: ["{key}"]}}
data_disk: {{device: /dev/disk/by-id/virtio-DATA}}
appliance: {{groups: [servers]}}
agents: {{tokens: [{{group: servers}}]}}
updates: {{source: "http://192.0.2.1:8000/good.update"}}
"""
# A broken root is known to be one in less than the quarter of an hour that it has.
JUDGEMENT = "[Service]\nExecStart=\nExecStart=/usr/sbin/strongroom-installer confirm --within 300\n"
BROKEN_DIRECTOR = "[Service]\nType=notify\nExecStart=/bin/false\n[Install]\nWantedBy=multi-user.target\n"
UNITS = "/usr/lib/systemd/system"
# What must survive everything.
KEPT = {
    "machine id": "cat /etc/machine-id",
    "host key": "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub",
    "host name": "hostname",
    "passphrase": "sha256sum /var/lib/strongroom/director/passphrase",
    "authority": "sha256sum /var/lib/strongroom/ca/* 2> /dev/null | sort",
    "repository": "sha256sum /srv/strongroom/repository/config",
    "data disk": "findmnt --noheadings --output FSTYPE,UUID /srv/strongroom",
    "administrator": "id ann",
    "own file": "cat /etc/kept /var/lib/kept",
}


class Life:
    """The appliance and who is at it."""

    def __init__(self, machine, key):
        self.machine = machine
        self.key = key
        self.boot = ""

    def does(self, command: str, *, code: int = 0) -> str:
        done = self.machine.ssh(self.key, command)
        assert done.returncode == code, (command, done.returncode, done.stdout, done.stderr)
        return done.stdout

    def restarted(self) -> None:
        self.boot = self.machine.wait_for_ssh(self.key, self.boot)

    def kept(self) -> dict[str, str]:
        return {name: self.does(command) for name, command in KEPT.items()}

    def slots(self) -> dict:
        return json.loads(self.does("strongroom-installer slots --json"))

    def settled(self) -> dict:
        """The slots, once the running root is judged."""
        wait = "while systemctl is-active --quiet strongroom-trial strongroom-update-report; do sleep 1; done"
        self.does(f"systemctl is-system-running --wait > /dev/null; {wait}; true")
        return self.slots()

    def is_at_work(self) -> None:
        self.does("systemctl is-active strongroom-director strongroom-storage strongroom-console ssh")
        self.does("HOME=/root strongroom status")
        assert self.does("systemctl --failed --no-legend --plain") == ""


@pytest.fixture(scope="module")
def life(new_machine, key):
    machine = new_machine(data_gib=4)
    public = key.with_suffix(".pub").read_text().strip()
    answers = ANSWERS.format(card=machine.card, key=public)
    given = {"strongroom.answers": answers, "systemd.unit-dropin.strongroom-trial.service": JUDGEMENT}
    machine.start_by_firmware("bios", key=public, given=given)
    machine.wait_for_console("this machine is set up|strongroom-firstboot.*error")
    found = Life(machine, key)
    found.restarted()
    return found


@pytest.fixture(scope="module")
def before(life):
    """What is there after setup."""
    life.does("echo mine > /etc/kept; echo mine > /var/lib/kept; sync")
    return life.kept()


def test_an_answer_file_sets_the_appliance_up(life):
    state = json.loads(life.does("strongroom-installer state --json"))
    assert state["is_ready"], state
    assert {step["result"] for step in state["steps"].values()} == {"done"}
    life.does("systemctl is-system-running --wait > /dev/null; true")
    life.is_at_work()
    assert life.does("hostname").strip() == "vault"
    assert "192.0.2.10/24" in life.does("ip -oneline address show")
    assert life.does("findmnt --noheadings --output FSTYPE /srv/strongroom").strip() == "xfs"
    assert life.does("test -s /var/lib/strongroom/appliance/tokens/servers-1; echo $?").strip() == "0"
    assert life.does("systemctl is-active strongroom-update.timer").strip() == "active"


def test_the_administrator_logs_in_and_may_do_everything(life):
    done = subprocess.run(
        [*life.machine.ssh_words(life.key, "ann"), "sudo id -un"], capture_output=True, text=True, check=False
    )
    assert done.stdout == "root\n", done.stderr


def test_only_what_is_documented_answers_from_outside(life):
    """As docs/guides/image.md says: secure shell, director, storage daemon, packages for the fleet."""
    assert life.machine.scan() <= {22, 9101, 9103, 9105}
    assert life.machine.scan() >= {22, 9101, 9103}


def test_after_a_restart_everything_is_there(life, before):
    life.does("systemctl reboot --no-block; true")
    life.restarted()
    assert life.settled()["states"] == {"a": "good", "b": "0"}
    assert life.kept() == before
    life.is_at_work()


def test_an_update_that_was_changed_is_refused(life, before, new_update, tmp_path):
    data = bytearray(new_update("changed.update", seconds=5).read_bytes())
    data[600:603] = b"!!!"
    (tmp_path / "changed.update").write_bytes(data)
    with life.machine.serving(tmp_path) as place:
        life.does(f"strongroom-installer update {place}/changed.update", code=9)
    assert life.slots()["states"] == {"a": "good", "b": "0"}


def test_the_daily_update_is_tried_found_good_and_keeps_everything(life, before, new_update):
    """By the service of the timer, from where the answers say."""
    update = new_update("good.update", seconds=10)
    with life.machine.serving(update.parent):
        life.does("systemctl start strongroom-update.service")
    assert life.slots()["states"] == {"a": "good", "b": "3"}
    life.does("systemctl reboot --no-block; true")
    life.restarted()
    found = life.settled()
    assert found["running"] == "b"
    assert found["states"] == {"a": "good", "b": "good"}, life.does("journalctl -b -u strongroom-trial --no-pager")
    assert found["update"]["result"] == "good"
    assert life.kept() == before
    life.is_at_work()


def test_an_update_whose_director_does_not_start_is_given_up(life, before, new_update):
    broken = {f"{UNITS}/strongroom-director.service": BROKEN_DIRECTOR}
    update = new_update("broken.update", seconds=20, files=broken)
    with life.machine.serving(update.parent) as place:
        life.does(f"strongroom-installer update {place}/broken.update --restart")
    tried = life.machine.wait_for_ssh(life.key, life.boot)
    assert life.does("cat /proc/cmdline").count("strongroom.slot=a strongroom.trial=2")
    life.boot = tried
    life.restarted()
    found = life.settled()
    assert found["running"] == "b"
    assert found["states"] == {"a": "0", "b": "good"}
    assert found["update"]["result"] == "failed"
    assert "strongroom-director.service is not active" in found["update"]["reasons"]
    assert life.kept() == before
    life.is_at_work()


def test_an_update_that_does_not_start_at_all_is_left_after_three_tries(life, before, new_update):
    update = new_update("dead.update", seconds=30, remove=("/usr/lib/systemd/systemd",))
    with life.machine.serving(update.parent) as place:
        life.does(f"strongroom-installer update {place}/dead.update --restart")
    life.restarted()
    found = life.settled()
    assert found["running"] == "b"
    assert found["states"] == {"a": "0", "b": "good"}
    assert found["update"]["result"] == "failed"
    assert life.kept() == before
    life.is_at_work()
