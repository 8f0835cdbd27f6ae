"""Four hosts that no one prepared, from a check to the last removal, as a user runs the playbooks.

Tests run in the order of this file, and each finds the hosts as the one before it left them. Run by verify.yml.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

HERE = Path(__file__).resolve().parent
PLAYBOOKS = HERE.parents[1] / "ansible"
LABORATORY = Path(os.environ["LABORATORY"])
# Address, port, user; anyone who is not root has a password for sudo.
HOSTS = {
    "vault": ("10.88.0.61", 22, "root"),
    "plain": ("10.88.0.62", 22, "root"),
    "kernel": ("10.88.0.63", 22, "root"),
    "strict": ("fd88::64", 2222, "ann"),
}
PASSWORD = "sesam"
CLIENTS = ("plain", "strict")
RECAP = re.compile(r"^(\w+) +: ok=\d+ +changed=(\d+) +unreachable=(\d+) +failed=(\d+)", re.MULTILINE)
MOST_LINES = 60
# What a connection of Ansible or a login leaves by itself.
PASSING = "/proc /sys /dev /run /tmp /var/tmp /var/log /root/.ansible /home/ann/.ansible /var/lib/systemd /var/lib/sudo"


def kernel_does_tls() -> bool:
    """Whether the kernel, which all hosts here share, takes TLS over."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as one:
        try:
            one.setsockopt(socket.IPPROTO_TCP, 31, b"tls")
        except OSError:
            return False
    return True


# The host that requires it.
REFUSED = set() if kernel_does_tls() else {"kernel"}
WELL = set(HOSTS) - REFUSED


@dataclass(frozen=True)
class Run:
    """How a playbook ended."""

    code: int
    output: str

    @property
    def changed(self) -> dict[str, int]:
        """The number of changes of each host."""
        return {name: int(changed) for name, changed, _, _ in RECAP.findall(self.output)}

    @property
    def failed(self) -> set[str]:
        """The hosts that failed or were not reached."""
        return {name for name, _, gone, failed in RECAP.findall(self.output) if (gone, failed) != ("0", "0")}

    def row(self, host: str) -> str:
        """The line of a host in the last table."""
        rows = re.findall(rf"^{host} +(?:ok|changed|failed|unreachable) .*$", self.output, re.MULTILINE)
        assert len(rows) == 1, self.output
        return rows[0]


class Fleet:
    """The hosts, and edits of their inventory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "host_vars").mkdir()
        (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": {name: {} for name in HOSTS}}}))

    def play(self, playbook: str, *words: str, edits: dict[str, dict[str, Any]] | None = None) -> Run:
        """Run a playbook, with variables of hosts that are otherwise than in the inventory."""
        for host in HOSTS:
            (self.folder / "host_vars" / f"{host}.yml").write_text(yaml.safe_dump((edits or {}).get(host, {})))
        done = subprocess.run(
            ["ansible-playbook", "-i", HERE / "inventory", "-i", self.folder, playbook, *words],
            cwd=PLAYBOOKS,
            env={
                **os.environ,
                "ANSIBLE_CONFIG": str(PLAYBOOKS / "ansible.cfg"),
                "ANSIBLE_HOST_KEY_CHECKING": "false",
                "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(LABORATORY / "facts"),
                "ANSIBLE_NOCOLOR": "true",
                "ANSIBLE_FORCE_COLOR": "false",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        (LABORATORY / "runs.log").open("a").write(f"==== {playbook} {words} {edits}\n{done.stdout}\n")
        return Run(done.returncode, done.stdout)

    def on(self, host: str, command: str, *, fails: bool = False) -> str:
        """What a shell command, given as root on a host, prints."""
        address, port, user = HOSTS[host]
        ssh = ["ssh", "-q", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-p", str(port)]
        ssh += ["-o", "IdentitiesOnly=yes", "-i", str(LABORATORY / "key"), f"{user}@{address}"]
        words = [] if user == "root" else ["sudo", "--stdin", "--prompt="]
        done = subprocess.run(
            [*ssh, shlex.join([*words, "bash", "-c", command])],
            input="" if user == "root" else PASSWORD + "\n",
            capture_output=True,
            text=True,
            check=False,
        )
        assert fails or done.returncode == 0, f"{host}: {command}: {done.stdout}{done.stderr}"
        return done.stdout

    def files(self, host: str, *places: str) -> set[str]:
        """Each file below places of a host, with mode, owner, size and time."""
        passing = " -o ".join(f"-path {path}" for path in PASSING.split())
        form = r"%p %m %u:%g %s %T@\n"
        found = self.on(
            host, f"find {' '.join(places or ['/'])} -xdev \\( {passing} \\) -prune -o -type f -printf '{form}'"
        )
        return set(found.splitlines())


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return Fleet(tmp_path_factory.mktemp("edits"))


def told_in_one_line(run: Run) -> None:
    """The host without TLS in the kernel failed early, for this reason, and no other did."""
    assert run.failed == REFUSED, run.output
    assert (run.code != 0) == bool(REFUSED)
    for host in REFUSED:
        assert re.match(rf"{host} +failed +0 .*TLS in the kernel is required .*Install a kernel", run.row(host))
    assert "Traceback" not in run.output
    assert "MODULE FAILURE" not in run.output


def test_a_check_says_what_would_change_and_changes_nothing(fleet):
    before = {host: fleet.files(host) for host in HOSTS}
    run = fleet.play("site.yml", "--check", "--diff")
    told_in_one_line(run)
    assert all(run.changed[host] > 0 for host in WELL), run.output
    for shown in ("+nftables newest", "+PermitRootLogin", "+address = ", "+Client {"):
        assert shown in run.output, f"{shown}: {run.output}"
    assert {host: sorted(before[host] ^ fleet.files(host)) for host in HOSTS} == {host: [] for host in HOSTS}


def test_the_first_run_holds_nobody_up(fleet):
    run = fleet.play("site.yml")
    told_in_one_line(run)
    assert re.search(r"^plain +connected .* off ", run.output, re.MULTILINE), run.output
    assert re.search(r"^strict +connected .* (tls|auto) ", run.output, re.MULTILINE), run.output
    assert run.output.rstrip().endswith("--limit kernel") == bool(REFUSED)


def test_a_second_run_changes_nothing(fleet):
    run = fleet.play("site.yml")
    told_in_one_line(run)
    assert set(run.changed.values()) == {0}, run.output


def secrets(fleet: Fleet, host: str) -> dict[str, str]:
    """The secrets of a host, with owner and mode; none is read by others."""
    text = (HERE.parent / "shared/secrets.py").read_text()
    return json.loads(fleet.on(host, f"python3 -c {shlex.quote(text)}"))


def all_secrets(fleet: Fleet) -> dict[str, dict[str, str]]:
    """Those of each host that is in the fleet."""
    return {host: secrets(fleet, host) for host in sorted(WELL)}


# A mistake in the inventory, and the beginning of the line that names it.
MISTAKES = [
    (
        "plain",
        {"strongroom_compresion": "none"},
        "strongroom_compresion is not a variable of any role; did you mean strongroom_comp",
    ),
    ("plain", {"strongroom_nice": 50}, "strongroom_nice: 50 is not between 0 and 19"),
    ("plain", {"strongroom_memory_max": "4 gigs"}, "strongroom_memory_max: 4 gigs "),
    ("plain", {"strongroom_compression": "foo"}, "strongroom_compression: foo "),
    ("plain", {"strongroom_workers": "many"}, "strongroom_workers: many "),
    ("strict", {"strongroom_files": "/etc"}, "strongroom_files: /etc is not a list; write [/etc]"),
    (
        "plain",
        {"strongroom_nice": 5, "strongroom_maximum_bandwidth_per_job": "fast"},
        "strongroom_maximum_bandwidth_per_job: fast ",
    ),
    ("strict", {"strongroom_tls_enable": False}, "strongroom_tls_enable: false needs the client's name"),
    ("strict", {"strongroom_agent_group": "server"}, "strongroom_agent_group: server is not one of strongroom_groups"),
    ("plain", {"strongroom_shards": 4, "strongroom_maximum_workers": 2}, "strongroom_shards: 4 is more than"),
]


@pytest.mark.parametrize(("host", "edit", "line"), MISTAKES, ids=[next(iter(edit)) for _, edit, _ in MISTAKES])
def test_a_mistake_is_named_with_its_place_and_nothing_is_reached(fleet, host, edit, line):
    run = fleet.play("site.yml", edits={host: edit})
    assert run.code != 0
    assert re.search(rf"^{host}: {re.escape(line)}.* \(.*host_vars/{host}.yml:\d+\)$", run.output, re.MULTILINE), (
        run.output
    )
    assert set(run.changed.values()) == {0}
    assert "Gathering Facts" not in run.output
    assert len(run.output.splitlines()) <= MOST_LINES


# What can be known only at the hosts: it fails before anything on them changes.
REFUSALS = [
    (
        "vault",
        {"strongroom_appliance_repository": "/srv/other"},
        "is /srv/other, and this appliance was made with /var/lib",
    ),
    ("vault", {"strongroom_appliance_organisation": "Other"}, "is Other, and this appliance was made with Strongroom"),
    ("strict", {"strongroom_agent_name": "other"}, "is other, and this host is the client strict"),
    # It has no address of that family.
    ("strict", {"strongroom_agent_director": "https://10.88.0.61:9101"}, "no way to the appliance at 10.88.0.61"),
    ("vault", {"strongroom_monitoring_parts": ["prometheus", "grafana"]}, "strongroom_monitoring_grafana"),
]


@pytest.mark.parametrize(("host", "edit", "line"), REFUSALS, ids=[next(iter(edit)) for _, edit, _ in REFUSALS])
def test_what_a_host_cannot_have_is_refused_before_it_changes(fleet, host, edit, line):
    before = fleet.files(host, "/etc", "/usr")
    run = fleet.play("site.yml", edits={host: edit})
    assert run.code != 0
    assert run.failed == REFUSED | {host}, run.output
    assert set(run.changed.values()) == {0}, run.output
    assert line in run.row(host)
    assert fleet.files(host, "/etc", "/usr") == before


def back_up(fleet: Fleet, client: str) -> dict[str, Any]:
    """One more backup of a client: what the agent worked with."""
    fleet.on("vault", f"strongroom run {client} --watch")
    return json.loads(fleet.on(client, "strongroom --json agent show --effective"))["ended"][-1]


def test_a_retune_is_counted_where_it_was_edited_and_the_next_job_has_it(fleet):
    for client in CLIENTS:
        fleet.on(
            client, "mkdir -p /srv/own && head -c 3000000 /dev/urandom > /srv/own/data && hostname > /srv/own/name"
        )
    before = back_up(fleet, "plain")["knobs"]
    assert (before["compression"]["value"], before["workers"]["value"]) == ("none", 1)
    run = fleet.play("retune.yml", "--diff", edits={"plain": {"strongroom_workers": 2, "strongroom_nice": 15}})
    told_in_one_line(run)
    assert run.changed["plain"] > 0
    assert run.changed["strict"] == run.changed["vault"] == 0, run.output
    assert "Maximum Workers Per Job = 2" in run.output
    assert "Nice = 15" in run.output
    # It comes with the job, so no host is visited.
    assert "Write the agent's limits" not in run.output
    after = back_up(fleet, "plain")["knobs"]
    assert (after["compression"]["value"], after["workers"]["value"]) == ("none", 2)
    assert after["nice"] == {"value": 15, "source": "director: Nice"}
    run = fleet.play("retune.yml", "--diff", edits={"strict": {"strongroom_cpu_weight": 15}})
    told_in_one_line(run)
    assert run.changed["strict"] > 0
    assert run.changed["vault"] == 0, run.output
    assert "CPUWeight=15" in run.output
    assert fleet.on("strict", "systemctl show --property=CPUWeight --value strongroom-agent").strip() == "15"
    # The way back is the same run with the inventory as it was.
    told_in_one_line(fleet.play("retune.yml"))
    assert back_up(fleet, "plain")["knobs"]["workers"]["value"] == 1


@pytest.mark.parametrize("client", CLIENTS)
def test_what_is_restored_is_the_same(fleet, client):
    back_up(fleet, client)
    words = ("-e", f"client={client}", "-e", "target=/srv/restored", "-e", "path=/srv/own")
    check = fleet.play("restore.yml", "--check", *words)
    assert check.code == 0, check.output
    assert "- created /data" in check.output
    fleet.on(client, "test ! -e /srv/restored")
    run = fleet.play("restore.yml", *words)
    assert run.code == 0, run.output
    fleet.on(client, "diff -r /srv/own /srv/restored")


def test_nobody_else_reads_a_secret(fleet):
    found = all_secrets(fleet)
    assert {"/var/lib/strongroom/director/passphrase", "/var/lib/strongroom/ca/root.key"} <= set(found["vault"])
    assert "/var/lib/strongroom/agent/identity/key.pem" in found["strict"]


def test_an_upgrade_to_the_same_version_changes_nothing_and_opens_nothing(fleet):
    before = all_secrets(fleet)
    run = fleet.play("upgrade.yml", "--limit", ",".join(sorted(WELL)))
    assert run.code == 0, run.output
    assert set(run.changed.values()) == {0}, run.output
    assert all_secrets(fleet) == before


def test_the_appliance_is_made_anew_around_its_repository(fleet):
    first = secrets(fleet, "vault")
    kept = LABORATORY / "kept.tar"
    fleet.on("vault", "systemctl stop strongroom-director strongroom-storage")
    with kept.open("wb") as file:
        ssh = ["ssh", "-q", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
        ssh += ["-i", str(LABORATORY / "key"), "root@" + HOSTS["vault"][0]]
        tar = "tar -C /var/lib/strongroom -cf - repository ca director/passphrase"
        subprocess.run([*ssh, tar], stdout=file, check=True)
    host = str(HERE.parent / "host.sh")
    subprocess.run([host, "down", "vault"], check=True)
    subprocess.run([host, "up", "vault", "61", "trixie", "bare"], check=True)
    with kept.open("rb") as file:
        # As an administrator brings them: root's, and anybody may read them.
        tar = "mkdir -p /var/lib/strongroom && tar -C /var/lib/strongroom --no-same-owner -xf -"
        tar += " && chmod -R u=rwX,go=rX /var/lib/strongroom && chown -R root:root /var/lib/strongroom"
        subprocess.run([*ssh, tar], stdin=file, check=True)
    run = fleet.play("site.yml")
    told_in_one_line(run)
    assert secrets(fleet, "vault") == first
    for client in CLIENTS:
        back_up(fleet, client)
    again = fleet.play("site.yml")
    told_in_one_line(again)
    assert set(again.changed.values()) == {0}, again.output


def test_a_client_that_leaves_leaves_no_secret(fleet):
    run = fleet.play("remove.yml", "-e", "client=strict")
    assert run.code == 0, run.output
    assert secrets(fleet, "strict") == {}
    assert set(secrets(fleet, "vault")) != {}
    clients = fleet.on("vault", "strongroom --json clients")
    assert '"strict"' not in clients
    assert '"plain"' in clients
    assert "strict" not in fleet.on("vault", "ls /etc/prometheus/strongroom/nodes")
