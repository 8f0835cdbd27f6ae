"""What auditors say of an appliance that is set up, seen from inside and from outside."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from conftest import PROJECT

LEAST_INDEX = 85
# Tests of Lynis that are left out, each with its reason.
LEFT_OUT = Path(__file__).parent / "lynis.prf"
# Warnings of Lynis that are not right here, each with its reason.
WAIVED: dict[str, str] = {}
DAEMONS = ("strongroom-director", "strongroom-storage")


def in_tools_outside(machine, *command):
    """A program of the tools' root, in the network outside."""
    words = [*machine.outside(), PROJECT / "packer/in_tools.sh", *command]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_lynis_finds_it_hardened(life, tell):
    tools = subprocess.check_output([PROJECT / "packer/tools.sh"], text=True).strip()
    packed = subprocess.check_output(["tar", "-C", tools, "-c", "usr/share/lynis", "usr/sbin/lynis", "etc/lynis"])
    subprocess.run(
        [*life.machine.ssh_words(life.key), "mkdir /run/audit && tar -C /run/audit -xf -"], input=packed, check=True
    )
    life.does(f"cat >> /run/audit/etc/lynis/default.prf <<'END'\n{LEFT_OUT.read_text()}END")
    options = "--quick --no-colors --quiet --profile /run/audit/etc/lynis/default.prf --report-file /run/report"
    options += " --plugindir /run/audit/etc/lynis/plugins"
    life.does(f"cd /run/audit/usr/share/lynis && sh ../../sbin/lynis audit system {options}")
    report = life.does("cat /run/report")
    index = int(re.search(r"^hardening_index=(\d+)", report, re.MULTILINE)[1])
    warnings = [
        line for line in re.findall(r"^warning\[\]=(.*)$", report, re.MULTILINE) if line.split("|")[0] not in WAIVED
    ]
    left_out = LEFT_OUT.read_text().count("\nskip-test=")
    tell(f"Lynis: hardening index {index}, {len(warnings)} warnings; {left_out} tests are left out")
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


def test_no_program_is_started_where_users_and_backups_are(life):
    for folder in ("/home", "/srv", "/srv/strongroom", "/tmp", "/dev/shm"):
        life.does(f"cp /usr/bin/true {folder}/program")
        life.does(f"{folder}/program", code=126)
        life.does(f"rm {folder}/program")


def test_the_time_comes_from_the_server_of_the_answers(life):
    wait = "for i in $(seq 120); do timedatectl show -P NTPSynchronized | grep -q yes && break; sleep 1; done"
    life.does(wait)
    assert life.does("timedatectl show -P NTPSynchronized").strip() == "yes"
    assert life.does("timedatectl show-timesync -P ServerName").strip() == "192.0.2.1"


def test_apparmor_keeps_the_storage_daemon_from_the_keys_even_as_their_owner(life):
    """What the rights of files permit is refused all the same."""
    passphrase = "/var/lib/strongroom/director/passphrase"
    for user, place, profiles in (
        ("strongroom-director", passphrase, ["strongroom-storage"]),
        ("root", "/etc/shadow", ["strongroom-storage", "strongroom-director"]),
        ("root", "/etc/ssh/ssh_host_ed25519_key", ["strongroom-storage", "strongroom-director"]),
    ):
        life.does(f"runuser -u {user} -- cat {place} > /dev/null")
        for profile in profiles:
            life.does(f"runuser -u {user} -- aa-exec -p {profile} -- cat {place}", code=1)
    life.does(f"runuser -u strongroom-director -- aa-exec -p strongroom-director -- cat {passphrase} > /dev/null")
    life.does("aa-exec -p strongroom-storage -- touch /etc/written", code=1)


def test_apparmor_lets_the_agent_read_everything(life):
    """The engine backs up in the agent's profile, with its one capability, what only root can read."""
    profile = (PROJECT / "appliance/apparmor/strongroom-agent").read_bytes()
    words = [*life.machine.ssh_words(life.key), "apparmor_parser --replace --skip-cache"]
    subprocess.run(words, input=profile, check=True)
    life.does("install -d -o nobody -m 0700 /var/tmp/agent; mkdir -p -m 0700 /root/own; echo mine > /root/own/file")
    run = (
        "systemd-run --quiet --wait --pipe -p User=nobody -p AppArmorProfile=strongroom-agent -p NoNewPrivileges=yes "
        "-p AmbientCapabilities=CAP_DAC_READ_SEARCH -p CapabilityBoundingSet=CAP_DAC_READ_SEARCH "
        "--setenv=STRONGROOM_PASSWORD=only-for-this-test --setenv=HOME=/var/tmp/agent "
        "--setenv=STRONGROOM_REPOSITORY=/var/tmp/agent/repository /opt/strongroom/bin/strongroom "
    )
    life.does(run + "init")
    life.does(run + "backup /etc /root /var/lib/strongroom/director")
    listed = life.does(run + "ls -R latest")
    for place in ("etc/shadow", "etc/ssh/ssh_host_ed25519_key", "root/own/file", "director/passphrase"):
        assert place in listed
    life.does("aa-exec -p strongroom-agent -- touch /etc/written", code=1)
    life.does("rm -r /var/tmp/agent")
