"""Every variable is live: an edit of the inventory changes its file and what works with it, and nothing else.

Run by verify.yml on the hosts of the scenario, which molecule has made. The whole tree of what is in effect
(effective_tree.py) is taken of each host before and after. A round is one run of retune.yml with an edit for each
host; the next one has other edits and none of these, so that each round also proves that the way back is the same run
with the inventory as it was.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

HERE = Path(__file__).resolve().parent
PLAYBOOKS = HERE.parents[1] / "ansible"
APPLIANCE, AGENTS = "vault", ("db1", "files1", "web1")
HOSTS = (APPLIANCE, *AGENTS)
# A restart of the agent waits until no job runs.
WAIT_SECONDS = 300

MYSELF = "/etc/strongroom/agent.d/client/myself.conf"
LIMITS = "/etc/systemd/system/strongroom-agent.service.d/50-inventory.conf"
CLIENT = "/etc/strongroom/director.d/client/{host}.conf"
SYSCTL = "/etc/sysctl.d/95-strongroom-tuning.conf"
ANSWERS = "/etc/strongroom/appliance.toml"


@dataclass(frozen=True)
class Edit:
    """A variable of a host with another value, and all that is to differ then.

    `own`: on the host itself; `director`: at the running director. Keys are the way to a value, with dots. {host} is the
    name of the host, in files and keys.
    """

    variable: str
    value: Any
    file: str
    own: dict[str, Any] = field(default_factory=dict)
    director: dict[str, Any] = field(default_factory=dict)
    further: dict[str, Any] = field(default_factory=dict)


def knob(name: str, value: Any, *, variable: str = "", shown: Any = None) -> Edit:
    """A knob that the agent has of itself, and so its next run."""
    shown = value if shown is None else shown
    return Edit(
        variable or "strongroom_" + name,
        value,
        MYSELF,
        {f"agent.knobs.{name}": shown, f"agent.last run.knobs.{name}": shown},
    )


def option(name: str, value: Any, directive: str) -> Edit:
    """A knob of the FileSet, which comes with each run."""
    return Edit(
        "strongroom_" + name,
        value,
        CLIENT,
        {f"agent.last run.knobs.{name}": value},
        {f"FileSet {{host}}.Include.0.Options.0.{directive}": value},
    )


def limit(variable: str, value: Any, **own: Any) -> Edit:
    """A limit of the unit."""
    return Edit(variable, value, LIMITS, {"unit." + name.replace("_", " "): shown for name, shown in own.items()})


AGENT_EDITS = [
    option("compression", "none", "Compression"),
    option("compression", "zstd7", "Compression"),
    option("compression", "lz4", "Compression"),
    option("signature", "blake3", "Signature"),
    option("acls", False, "ACL Support"),
    option("xattrs", False, "XAttr Support"),
    knob("workers", 3),
    knob("scan_threads", 7),
    knob("shards", 3),
    knob("upload_queue_size", 33),
    knob("lru_size", 24576, shown=3),
    Edit("strongroom_maximum_workers", 5, MYSELF, {"agent.knobs.maximum_workers": 5}),
    Edit(
        "strongroom_maximum_bandwidth_per_job",
        "20 mb/s",
        MYSELF,
        {"agent.directors.vault-dir.maximum_bandwidth_per_job": 20_000_000},
    ),
    Edit(
        "strongroom_maximum_bandwidth",
        "30 mb/s",
        CLIENT,
        {"agent.last run.maximum_bandwidth": 30_000_000},
        {"Job {host}.Maximum Bandwidth": 30_000_000},
    ),
    Edit(
        "strongroom_tls_enable",
        False,
        CLIENT,
        {"agent.last run.tls.mode": "off"},
        {"Client {host}.TLS Enable": False},
    ),
    Edit(
        "strongroom_ktls", "no", CLIENT, {"agent.last run.tls.mode": "tls"}, {"Client {host}.Enable kTLS": "no"}
    ),
    # Containers have a kernel that cannot: the run fails, and that is what `require` is for.
    Edit(
        "strongroom_ktls",
        "require",
        CLIENT,
        {"agent.last run.tls.mode": "ktls-required", "agent.last run.status": "failed"},
        {"Client {host}.Enable kTLS": "require"},
    ),
    Edit(
        "strongroom_tls_cipher_suites",
        "TLS_CHACHA20_POLY1305_SHA256",
        CLIENT,
        {"agent.last run.tls.cipher_suites": "TLS_CHACHA20_POLY1305_SHA256"},
        {"Client {host}.TLS Cipher Suites": "TLS_CHACHA20_POLY1305_SHA256"},
    ),
    Edit("strongroom_files", ["/srv", "/etc"], CLIENT, {}, {"FileSet {host}.Include.0.File": ["/srv", "/etc"]}),
    Edit("strongroom_exclude", ["/srv/x"], CLIENT, {}, {"FileSet {host}.Exclude.0.File": ["/srv/x"]}),
    Edit("strongroom_one_filesystem", False, CLIENT, {}, {"FileSet {host}.Include.0.Options.0.OneFS": False}),
    Edit("strongroom_agent_group", "others", CLIENT, {}, {"Job {host}.Job Defs": "others"}),
    limit("strongroom_nice", 17, Nice="17", process_nice=17),
    limit("strongroom_cpu_weight", 6, CPUWeight="6"),
    limit("strongroom_io_weight", 7, IOWeight="7"),
    limit("strongroom_memory_high", "1G", MemoryHigh=str(1 << 30)),
    limit("strongroom_memory_max", "2G", MemoryMax=str(2 << 30)),
    Edit(
        "strongroom_kernel_bandwidth_mbit",
        100_000,
        SYSCTL,
        {},
    ),
    Edit("strongroom_kernel_settings", {"net.ipv4.tcp_mtu_probing": 2}, SYSCTL, {"kernel.net.ipv4.tcp_mtu_probing": "2"}),
]


def appliance_file(kind: str, name: str = "inventory") -> str:
    return f"/etc/strongroom/director.d/{kind}/{name}.conf"


APPLIANCE_EDITS: list[Edit] = []


def flat(tree: Any, way: str = "") -> dict[str, Any]:
    """The leaves of a tree, by their ways. A list of plain values is a leaf."""
    if isinstance(tree, dict):
        parts = tree.items()
    elif isinstance(tree, list) and any(isinstance(one, (dict, list)) for one in tree):
        parts = enumerate(tree)
    else:
        return {way: tree}
    found = {}
    for name, part in parts:
        found |= flat(part, f"{way}.{name}" if way else str(name))
    return found


def differences(before: Any, after: Any) -> dict[str, Any]:
    """What a tree has now where it differs; None where it has nothing any more."""
    old, new = flat(before), flat(after)
    return {way: new.get(way) for way in sorted(old.keys() | new.keys()) if old.get(way) != new.get(way)}


class Fleet:
    """The hosts of the scenario, and an inventory that is edited."""

    def __init__(self, folder: Path) -> None:
        molecule = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"])
        self.folder = folder
        self.made = molecule / "inventory"
        listed = self._run(["ansible-inventory", "-i", str(self.made), "--list"])
        self.variables = json.loads(listed)["_meta"]["hostvars"]
        (folder / "host_vars").mkdir()
        (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": dict.fromkeys(HOSTS, {})}}))

    def _run(self, command: list[str]) -> str:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=PLAYBOOKS)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def on(self, host: str, *command: str, text: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command on a host."""
        known = self.variables[host]
        ssh = ["ssh", "-q", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
        ssh += ["-i", known["ansible_ssh_private_key_file"], "root@" + known["ansible_host"]]
        return subprocess.run([*ssh, *command], input=text, capture_output=True, text=True, check=False)

    def retune(self, edits: dict[str, Edit]) -> str:
        """Edit the inventory, and run the playbook."""
        for host in HOSTS:
            file = self.folder / "host_vars" / f"{host}.yml"
            said = {edits[host].variable: edits[host].value, **edits[host].further} if host in edits else {}
            file.write_text(yaml.safe_dump(said))
        return self._run(["ansible-playbook", "-i", str(self.made), "-i", str(self.folder), "retune.yml"])

    def tree(self, host: str) -> dict[str, Any]:
        """What is in effect on a host."""
        done = self.on(host, "python3", "-", host, text=(HERE / "effective_tree.py").read_text())
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def trees(self) -> dict[str, dict[str, Any]]:
        """What is in effect everywhere, after one more backup of each client."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda host: self.on(APPLIANCE, "strongroom", "run", host, "--watch"), AGENTS))
            return dict(zip(HOSTS, pool.map(self.tree, HOSTS), strict=True))


def rounds() -> list[dict[str, Edit]]:
    """The edits, one a host in each round."""
    queues = {APPLIANCE: list(APPLIANCE_EDITS)}
    for number, host in enumerate(AGENTS):
        queues[host] = AGENT_EDITS[number :: len(AGENTS)]
    made = []
    while any(queues.values()):
        made.append({host: queue.pop(0) for host, queue in queues.items() if queue})
    return made


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return Fleet(tmp_path_factory.mktemp("inventory"))


@pytest.fixture(scope="module")
def base(fleet: Fleet) -> dict[str, Any]:
    return fleet.trees()


def expected(edits: dict[str, Edit]) -> dict[str, dict[str, Any]]:
    """What is to differ on each host."""
    found: dict[str, dict[str, Any]] = {host: {} for host in HOSTS}
    for host, edit in edits.items():
        for way, value in edit.own.items():
            found[host][way] = value
        for way, value in edit.director.items():
            found[APPLIANCE]["director." + way.format(host=host)] = value
    return found


def files_of(edits: dict[str, Edit]) -> dict[str, set[str]]:
    """Which files are to differ on each host."""
    found: dict[str, set[str]] = {host: set() for host in HOSTS}
    for host, edit in edits.items():
        where = APPLIANCE if "director.d" in edit.file else host
        found[where].add(edit.file.format(host=host))
    return found


def split(before: dict[str, Any], after: dict[str, Any]) -> tuple[set[str], dict[str, Any]]:
    """The files that differ between two trees, and the other differences."""
    files = {path for path in before["files"] | after["files"] if before["files"].get(path) != after["files"].get(path)}
    without = [{name: part for name, part in tree.items() if name != "files"} for tree in (before, after)]
    return files, differences(*without)


@pytest.mark.parametrize("edits", rounds(), ids=lambda edits: "+".join(f"{edit.variable}" for edit in edits.values()))
def test_an_edit_changes_its_file_and_what_works_with_it_and_nothing_else(fleet, base, edits):
    fleet.retune(edits)
    until = time.monotonic() + WAIT_SECONDS
    while True:
        after = fleet.trees()
        found = {host: split(base[host], after[host]) for host in HOSTS}
        wanted = {host: (files_of(edits)[host], expected(edits)[host]) for host in HOSTS}
        if found == wanted or time.monotonic() > until:
            break
        time.sleep(1)
    assert found == wanted


def test_the_inventory_as_it_was_gives_back_everything(fleet, base):
    fleet.retune({})
    after = fleet.trees()
    assert {host: split(base[host], after[host]) for host in HOSTS} == {host: (set(), {}) for host in HOSTS}
