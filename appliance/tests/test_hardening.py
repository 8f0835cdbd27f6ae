"""What auditors say of an appliance that is set up, seen from inside and from outside."""

from __future__ import annotations

import re
import subprocess

from conftest import PROJECT

LEAST_INDEX = 85
# Warnings of Lynis that are not right here, each with its reason.
WAIVED: dict[str, str] = {}
DAEMONS = ("strongroom-director", "strongroom-storage")


def in_tools_outside(machine, *command):
    """A program of the tools' root, in the network outside."""
    words = [*machine.outside(), PROJECT / "packer/in_tools.sh", *command]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_lynis_finds_it_hardened(life, record_property):
    tools = subprocess.check_output([PROJECT / "packer/tools.sh"], text=True).strip()
    packed = subprocess.check_output(["tar", "-C", tools, "-c", "usr/share/lynis", "usr/sbin/lynis", "etc/lynis"])
    words = [*life.machine.ssh_words(life.key), "mkdir -p /run/audit && tar -C /run/audit -x --strip-components=2 -f -"]
    subprocess.run(words, input=packed, check=True)
    life.does(
        "cd /run/audit/lynis && ../lynis audit system --quick --no-colors --quiet --report-file /run/report", code=0
    )
    report = life.does("cat /run/report")
    index = int(re.search(r"^hardening_index=(\d+)", report, re.MULTILINE)[1])
    warnings = [
        line for line in re.findall(r"^warning\[\]=(.*)$", report, re.MULTILINE) if line.split("|")[0] not in WAIVED
    ]
    record_property("lynis", index)
    assert warnings == []
    assert index >= LEAST_INDEX, report


def test_ssh_audit_finds_nothing_that_fails(life):
    done = in_tools_outside(life.machine, "ssh-audit", "--no-colors", "192.0.2.10")
    assert "(kex)" in done.stdout, done.stderr
    assert [line for line in done.stdout.splitlines() if "[fail]" in line] == []


def test_apparmor_confines_the_daemons_and_hinders_them_in_nothing(life):
    for daemon in DAEMONS:
        told = life.does(f"cat /proc/$(systemctl show -P MainPID {daemon})/attr/current").strip("\0\n")
        assert told == f"{daemon} (enforce)"
    assert life.does("journalctl --no-pager --output=cat -g 'apparmor=\"DENIED\"' | grep strongroom || true") == ""


def test_nothing_dumps_core(life):
    assert life.does("cat /proc/sys/kernel/core_pattern").strip() == "|/bin/false"
    assert life.does("cat /proc/sys/fs/suid_dumpable").strip() == "0"
    for daemon in DAEMONS:
        limits = life.does(f"cat /proc/$(systemctl show -P MainPID {daemon})/limits")
        assert re.search(r"^Max core file size +0 +0 ", limits, re.MULTILINE), limits


def test_the_time_comes_from_the_server_of_the_answers(life):
    wait = "for i in $(seq 120); do timedatectl show -P NTPSynchronized | grep -q yes && break; sleep 1; done"
    life.does(wait)
    assert life.does("timedatectl show -P NTPSynchronized").strip() == "yes"
    assert life.does("timedatectl show-timesync -P ServerName").strip() == "192.0.2.1"
