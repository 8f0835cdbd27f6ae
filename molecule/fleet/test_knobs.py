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
INVENTORY = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"]) / "inventory"
# A restart of the agent waits until no job runs.
WAIT_SECONDS = 120

MYSELF = "/etc/strongroom/agent.d/client/myself.conf"
LIMITS = "/etc/systemd/system/strongroom-agent.service.d/50-inventory.conf"
CLIENT = "/etc/strongroom/director.d/client/{host}.conf"
SYSCTL = "/etc/sysctl.d/95-strongroom-tuning.conf"
UDEV = "/etc/udev/rules.d/95-strongroom-tuning.rules"


@dataclass(frozen=True)
class Edit:
    """A variable of a host with another value, and all that is to differ then.

    `own`: on the host itself; `director`: at the running director. Keys are the way to a value, with dots. {host} is
    the name of the host, in files and keys.
    """

    variable: str
    value: Any
    file: str
    own: dict[str, Any] = field(default_factory=dict)
    director: dict[str, Any] = field(default_factory=dict)


def knob(name: str, value: Any, directive: str, *, shown: Any = None) -> Edit:
    """A knob that comes with each run from the director's Client."""
    return Edit(
        "strongroom_" + name,
        value,
        CLIENT,
        {f"agent.last run.knobs.{name}": value if shown is None else shown},
        {f"Client {{host}}.{directive}": value},
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


def run(command: list[str]) -> str:
    """What a program prints."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=PLAYBOOKS)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


LISTED = json.loads(run(["ansible-inventory", "-i", str(INVENTORY), "--list"]))
VARIABLES = LISTED["_meta"]["hostvars"]
(APPLIANCE,) = LISTED["appliance"]["hosts"]
AGENTS = sorted(set(VARIABLES) - {APPLIANCE})
HOSTS = (APPLIANCE, *AGENTS)

AGENT_EDITS = [
    option("compression", "none", "Compression"),
    option("compression", "zstd7", "Compression"),
    option("compression", "lz4", "Compression"),
    option("signature", "blake3", "Signature"),
    option("acls", False, "ACL Support"),
    option("xattrs", False, "XAttr Support"),
    knob("workers", 3, "Maximum Workers Per Job"),
    knob("scan_threads", 7, "Scan Threads"),
    knob("shards", 3, "Shards"),
    knob("upload_queue_size", 33, "Upload Queue Size"),
    knob("lru_size", 24576, "Lru Size", shown=3),
    Edit("strongroom_maximum_workers", 5, MYSELF, {"agent.knobs.maximum_workers": 5}),
    Edit(
        "strongroom_maximum_bandwidth_per_job",
        "20 mb/s",
        CLIENT,
        {"agent.last run.maximum_bandwidth": 20_000_000},
        {"Client {host}.Maximum Bandwidth Per Job": 20_000_000},
    ),
    Edit(
        "strongroom_maximum_bandwidth",
        "500 kb/s",
        CLIENT,
        {"agent.last run.maximum_bandwidth": 500_000},
        {"Job {host}.Maximum Bandwidth": 500_000},
    ),
    Edit(
        "strongroom_tls_enable",
        False,
        CLIENT,
        {"agent.last run.tls.mode": "off"},
        {"Client {host}.TLS Enable": False},
    ),
    # Containers may have a kernel that cannot: then `yes` continues without, and `require` fails, as it is for.
    Edit("strongroom_ktls", "yes", CLIENT, {"agent.last run.tls.mode": "ktls"}, {"Client {host}.Enable kTLS": "yes"}),
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
    Edit("strongroom_one_filesystem", False, CLIENT, {}, {"FileSet {host}.Include.0.Options.0.One FS": False}),
    Edit(
        "strongroom_agent_group",
        "others",
        CLIENT,
        {},
        {"Job {host}.JobDefs": "others", "Job {host}.Pool": "Usual", "Job {host}.Priority": None},
    ),
    knob("nice", 17, "Nice"),
    limit("strongroom_cpu_weight", 6, CPUWeight="6"),
    limit("strongroom_io_weight", 7, IOWeight="7"),
    limit("strongroom_memory_high", "3G", MemoryHigh=str(3 << 30)),
    limit("strongroom_memory_max", "2G", MemoryMax=str(2 << 30)),
    # Twice 100,000 Mbit/s times 1 ms, in whole 64 KiB.
    Edit(
        "strongroom_kernel_bandwidth_mbit",
        100_000,
        SYSCTL,
        {
            "kernel.net.ipv4.tcp_rmem": "4096 131072 24969216",
            "kernel.net.ipv4.tcp_wmem": "4096 16384 24969216",
        },
    ),
    Edit(
        "strongroom_kernel_settings", {"net.ipv4.tcp_mtu_probing": 2}, SYSCTL, {"kernel.net.ipv4.tcp_mtu_probing": "2"}
    ),
    # What these change is the machine's, not the container's: the scenario `kernel` looks in a virtual machine.
    Edit("strongroom_kernel_profile", "nfs", SYSCTL),
    Edit("strongroom_disk_ssd_read_ahead_kib", 256, UDEV),
]


def of_appliance(variable: str, value: Any, kind: str, **director: Any) -> Edit:
    """A variable of the appliance."""
    name = "standard" if kind == "messages" else "inventory"
    return Edit(variable, value, f"/etc/strongroom/director.d/{kind}/{name}.conf", {}, dict(director))


def base_and(variable: str, *further: Any) -> list[Any]:
    """What the inventory of the scenario has, and more."""
    return [*VARIABLES[APPLIANCE].get(variable, []), *further]


APPLIANCE_EDITS = [
    of_appliance(
        "strongroom_schedules",
        [{"name": "Hourly", "runs": ["Full hourly at 0:15"]}],
        "schedule",
        **{
            "Schedule Hourly.Run.0.level": "Full",
            "Schedule Hourly.Run.0.hours": list(range(24)),
            "Schedule Hourly.Run.0.minute": 15,
        },
    ),
    of_appliance(
        "strongroom_retention",
        base_and("strongroom_retention", {"name": "Short", "daily": 3, "weekly": 1, "monthly": 0}),
        "pool",
        **{
            "Pool Short.Pool Type": "Backup",
            "Pool Short.Keep Daily": 3,
            "Pool Short.Keep Weekly": 1,
            "Pool Short.Keep Monthly": 0,
            "Pool Short.Minimum Retention": 604800,
        },
    ),
    of_appliance(
        "strongroom_filesets",
        [{"name": "Etc", "files": ["/etc"], "exclude": ["/etc/x"], "options": {"Compression": "lz4"}}],
        "fileset",
        **{
            "FileSet Etc.Include.0.File": ["/etc"],
            "FileSet Etc.Include.0.Options.0.Compression": "lz4",
            "FileSet Etc.Exclude.0.File": ["/etc/x"],
        },
    ),
    of_appliance(
        "strongroom_notices",
        [{"name": "chat", "type": "Command", "directives": {"Command": "/usr/bin/true"}}],
        "messages",
        **{
            "Messages Standard.Notify.0.Name": "chat",
            "Messages Standard.Notify.0.Type": "Command",
            "Messages Standard.Notify.0.Command": "/usr/bin/true",
        },
    ),
    of_appliance(
        "strongroom_mail",
        {"SMTP Server": "mail.example.org", "Mail From": "backup@example.org"},
        "messages",
        **{
            "Messages Standard.SMTP Server": "mail.example.org",
            "Messages Standard.Mail From": "backup@example.org",
        },
    ),
    of_appliance(
        "strongroom_groups",
        base_and("strongroom_groups", {"name": "more", "schedule": "Nightly", "retention": "Long"}),
        "jobdefs",
        **{
            "JobDefs more.Type": "Backup",
            "JobDefs more.Level": "Incremental",
            "JobDefs more.Messages": "Standard",
            "JobDefs more.Storage": [APPLIANCE],
            "JobDefs more.Pool": "Long",
            "JobDefs more.FileSet": "Machine",
            "JobDefs more.Schedule": "Nightly",
            "JobDefs more.JobDefs": "Usual",
            "JobDefs more.Client Group": ["more"],
        },
    ),
    Edit(
        "strongroom_kernel_settings",
        {"net.ipv4.tcp_fin_timeout": 31},
        SYSCTL,
        {"kernel.net.ipv4.tcp_fin_timeout": "31"},
    ),
]


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
        self.folder = folder
        (folder / "host_vars").mkdir()
        (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": {name: {} for name in HOSTS}}}))

    def on(self, host: str, *command: str, text: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command on a host."""
        known = VARIABLES[host]
        ssh = ["ssh", "-q", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
        ssh += [
            "-o",
            "IdentitiesOnly=yes",
            "-i",
            os.environ["LABORATORY"] + "/key",
            "root@" + known["ansible_host"],
        ]
        return subprocess.run([*ssh, *command], input=text, capture_output=True, text=True, check=False)

    def retune(self, edits: dict[str, Edit]) -> str:
        """Edit the inventory, and run the playbook."""
        for host in HOSTS:
            file = self.folder / "host_vars" / f"{host}.yml"
            said = {edits[host].variable: edits[host].value} if host in edits else {}
            file.write_text(yaml.safe_dump(said))
        return run(["ansible-playbook", "-i", str(INVENTORY), "-i", str(self.folder), "retune.yml"])

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
    fleet.retune({})
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


def settled(fleet: Fleet, base: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """What differs, once it is as wanted, or after a while: the agent restarts only when no job runs."""
    until = time.monotonic() + WAIT_SECONDS
    while True:
        after = fleet.trees()
        found = {host: split(base[host], after[host]) for host in HOSTS}
        if found == wanted or time.monotonic() > until:
            return found
        time.sleep(1)


def told(found: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """What is otherwise than wanted, a line each."""
    lines = []
    for host in HOSTS:
        (files, values), (wanted_files, wanted_values) = found[host], wanted[host]
        lines += [f"{host}: {path} should differ" for path in sorted(wanted_files - files)]
        lines += [f"{host}: {path} should not differ" for path in sorted(files - wanted_files)]
        for way in sorted(values.keys() | wanted_values.keys()):
            if values.get(way, "as before") != wanted_values.get(way, "as before"):
                is_, should = (one.get(way, "as before") for one in (values, wanted_values))
                lines.append(f"{host}: {way} is {is_!r}, should be {should!r}")
    return lines


@pytest.mark.parametrize("edits", rounds(), ids=lambda edits: "+".join(edit.variable for edit in edits.values()))
def test_an_edit_changes_its_file_and_what_works_with_it_and_nothing_else(fleet, base, edits):
    fleet.retune(edits)
    wanted = {host: (files_of(edits)[host], expected(edits)[host]) for host in HOSTS}
    assert told(settled(fleet, base, wanted), wanted) == []


def test_the_inventory_as_it_was_gives_back_everything(fleet, base):
    fleet.retune({})
    wanted = {host: (set(), {}) for host in HOSTS}
    assert told(settled(fleet, base, wanted), wanted) == []
