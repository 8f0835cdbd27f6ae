"""What Ansible costs a host: rolled out from nothing, run again unchanged, and retuned, over 1 to 16 hosts.

    molecule/run.sh --command python molecule/speed.py [--hosts 16] [--repeats 3]
        [--into appliance/engine/bench/results/fleet.md]

`make bench-fleet` runs it. Hosts are containers of this machine, so they and Ansible share its processors; beside the
time it says the processor time of both. The figures and the picture are written between the marks of the page. With
`--hosts 0` only the fleet is measured of which no one but the appliance is there, and only its table is written.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent
LABORATORY = Path(os.environ["LABORATORY"])
CGROUPS = Path("/sys/fs/cgroup/unified" if Path("/sys/fs/cgroup/unified").is_dir() else "/sys/fs/cgroup")
FIRST_NUMBER = 101
BEGIN, END = "<!-- figures: written by make bench-fleet -->\n", "<!-- end of figures -->\n"
BEGIN_MANY, END_MANY = "<!-- many: written by make bench-fleet -->\n", "<!-- end of many -->\n"
ESTIMATED_HOSTS = 1000


@dataclass(frozen=True)
class Measured:
    """One run of a playbook. Times are seconds; those of processors are over all of them."""

    what: str
    hosts: int
    seconds: float
    controller_cpu: float
    hosts_cpu: float
    load: float


def names(count):
    return [f"h{number:02}" for number in range(1, count + 1)]


def start(name, number):
    subprocess.run([HERE / "host.sh", "up", name, str(number), "trixie"], check=True, stdout=subprocess.DEVNULL)


def write_inventory(folder, count, shards=1):
    """One appliance, and so many clients that work with so many shards."""
    clients = {name: {"ansible_host": f"10.88.0.{FIRST_NUMBER + place}"} for place, name in enumerate(names(count), 1)}
    inventory = {
        "all": {
            "vars": {
                "ansible_user": "root",
                "ansible_ssh_private_key_file": str(LABORATORY / "key"),
                "strongroom_engine_repository": "http://10.88.0.1:8000",
                "strongroom_engine_repository_key": str(PROJECT / "build/packages/apt/strongroom.asc"),
            },
            "children": {
                "appliance": {
                    "hosts": {"vault": {"ansible_host": f"10.88.0.{FIRST_NUMBER}"}},
                    "vars": {
                        "strongroom_hardening_allow": [
                            {"name": "director", "port": 9101},
                            {"name": "storage daemon", "port": 9103},
                        ]
                    },
                },
                "agents": {
                    "hosts": clients,
                    "vars": {
                        "strongroom_agent_group": "servers",
                        "strongroom_files": ["/etc"],
                        "strongroom_shards": shards,
                    },
                },
            },
        }
    }
    (folder / "hosts.yml").write_text(yaml.safe_dump(inventory))


def hosts_cpu(hosts):
    """The processor time that hosts have had."""
    total = 0.0
    for host in hosts:
        text = (CGROUPS / f"{os.environ['LABORATORY_NETWORK']}-{host}/cpu.stat").read_text()
        total += int(re.search(r"usage_usec (\d+)", text)[1]) / 1e6
    return total


def played(what, playbook, count, inventory, forks=50, hosts=None, pipelining=True):
    """Run a playbook, and measure it. hosts: those of the inventory that are not started here, as a limit."""
    started = ["vault", *(names(count) if hosts is None else [])]
    limit = ":".join(started) if hosts is None else hosts
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(PROJECT / "ansible/ansible.cfg"),
        "ANSIBLE_HOST_KEY_CHECKING": "false",
        "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(LABORATORY / "facts"),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_PIPELINING": str(pipelining),
    }
    command = ["ansible-playbook", "-i", str(inventory), "--forks", str(forks), "--limit", limit]
    own, theirs, began = resource.getrusage(resource.RUSAGE_CHILDREN), hosts_cpu(started), time.monotonic()
    done = subprocess.run(
        [*command, playbook],
        cwd=PROJECT / "ansible",
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.monotonic() - began
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    is_changed = re.search(r"changed=[1-9]", done.stdout) is not None
    if is_changed == what.startswith("unchanged"):
        sys.exit(f"{what} with {count} hosts is not what it is called:\n{done.stdout}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    measured = Measured(
        what,
        count,
        round(seconds, 1),
        round(after.ru_utime + after.ru_stime - own.ru_utime - own.ru_stime, 1),
        round(hosts_cpu(started) - theirs, 1),
        round(os.getloadavg()[0], 1),
    )
    print(measured, flush=True)
    return measured


def middle(runs):
    """The run with the median time."""
    return sorted(runs, key=lambda one: one.seconds)[(len(runs) - 1) // 2]


def measure(most, repeats):
    """All runs over hosts that are there."""
    folder = LABORATORY / "speed"
    folder.mkdir()
    found = []
    start("vault", FIRST_NUMBER)
    reached = 0
    counts = sorted({1, 2, 4, 8, 16, most} & set(range(1, most + 1)))
    # From nothing: one appliance and three clients; then the others join.
    for count in sorted({3, *counts} - {1, 2} if most >= 3 else set(counts)):
        for place, name in enumerate(names(count), 1):
            if place > reached:
                start(name, FIRST_NUMBER + place)
        reached, joined = count, count - reached
        write_inventory(folder, count)
        what = "from nothing, with the appliance" if joined == count else f"{joined} more from nothing"
        found.append(played(what, "site.yml", count, folder))
    for count in counts:
        found.append(middle([played("unchanged", "site.yml", count, folder) for _ in range(repeats)]))
        retunes = []
        # There and back again, so that the inventory is as it was for the other hosts.
        for turn in range(2 * repeats):
            write_inventory(folder, most, shards=2 - turn % 2)
            retunes.append(played("retune", "retune.yml", count, folder))
        found.append(middle(retunes))
    for forks in (1, 5, 20):
        found.append(played(f"unchanged, {forks} forks", "site.yml", most, folder, forks=forks))
    return found


def make_appliance():
    """The appliance alone, where no other host is measured."""
    folder = LABORATORY / "alone"
    folder.mkdir()
    start("vault", FIRST_NUMBER)
    write_inventory(folder, 0)
    played("from nothing", "site.yml", 0, folder)


def measure_many(count):
    """Retunes of a fleet of which only the appliance is there: no one else is to be reached."""
    folder = LABORATORY / "many"
    folder.mkdir()
    found = []
    clients = [f"m{number:03}" for number in range(1, count + 1)]
    for what, codec, pipelining in (
        ("", "auto", True),
        ("unchanged", "auto", True),
        ("one variable", "zstd3", True),
        ("one variable, without pipelining", "zstd9", False),
    ):
        write_inventory(folder, 0)
        known = yaml.safe_load((folder / "hosts.yml").read_text())
        agents = known["all"]["children"]["agents"]
        # Of networks for documentation: no one answers there.
        agents["hosts"] = {name: {"ansible_host": f"192.0.2.{place % 250 + 1}"} for place, name in enumerate(clients)}
        agents["vars"]["strongroom_compression"] = codec
        (folder / "hosts.yml").write_text(yaml.safe_dump(known))
        if not what:
            played("unchanged: prime", HERE / "prime.yml", count, folder, hosts="all")
            played("first retune", "retune.yml", count, folder, hosts="all", forks=20)
            continue
        found.append(played(what, "retune.yml", count, folder, hosts="all", forks=20, pipelining=pipelining))
    return found


def line_through(points):
    """Intercept and slope of the line nearest to the points."""
    slope, intercept = statistics.linear_regression(*zip(*points, strict=True))
    return intercept, slope


def points_of(found, what):
    return [(one.hosts, one.seconds) for one in found if one.what == what]


WIDTH, HEIGHT, LEFT, BOTTOM = 640, 360, 60, 45
SERIES = (("unchanged", "#1b6ca8"), ("retune", "#b3541e"))


def picture(found):
    """Seconds over hosts, as SVG."""
    series = [(what, colour, points_of(found, what)) for what, colour in SERIES]
    most_hosts = max(x for _, _, points in series for x, _ in points)
    most_seconds = max(y for _, _, points in series for _, y in points) * 1.1

    def place(hosts, seconds):
        return (
            round(LEFT + (WIDTH - LEFT - 20) * hosts / most_hosts, 1),
            round(HEIGHT - BOTTOM - (HEIGHT - BOTTOM - 20) * seconds / most_seconds, 1),
        )

    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        "<title>Seconds of a run, over the number of hosts</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for share in range(5):
        seconds = most_seconds * share / 4
        x, y = place(0, seconds)
        drawn.append(f'<line x1="{x}" y1="{y}" x2="{WIDTH - 20}" y2="{y}" stroke="#ddd"/>')
        drawn.append(f'<text x="{x - 8}" y="{y + 4}" text-anchor="end">{seconds:.0f} s</text>')
    for hosts in sorted({x for x, _ in series[0][2]}):
        x, y = place(hosts, 0)
        drawn.append(f'<text x="{x}" y="{y + 18}" text-anchor="middle">{hosts}</text>')
    drawn.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}" text-anchor="middle">clients, beside one appliance</text>')
    for number, (what, colour, points) in enumerate(series):
        intercept, slope = line_through(points)
        (x1, y1), (x2, y2) = place(0, max(intercept, 0)), place(most_hosts, intercept + slope * most_hosts)
        drawn.append(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}" stroke-dasharray="4 3"/>')
        for point in points:
            x, y = place(*point)
            drawn.append(f'<circle cx="{x}" cy="{y}" r="4" fill="{colour}"/>')
        drawn.append(
            f'<text x="{LEFT + 20}" y="{36 + 18 * number}" fill="{colour}">{what}: {slope:.1f} s a host</text>'
        )
    return "\n".join([*drawn, "</svg>", ""])


def figures(found, image):
    """What is on the page."""
    lines = [
        "| run | clients | time | a host | processor time of Ansible | of all hosts | load of the machine |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for one in found:
        lines.append(
            f"| {one.what} | {one.hosts} | {one.seconds:.1f} s | {one.seconds / (one.hosts + 1):.1f} s "
            f"| {one.controller_cpu:.1f} s | {one.hosts_cpu:.1f} s | {one.load:.1f} |"
        )
    lines += ["", f"![Seconds of a run, over the number of hosts]({image})", ""]
    for what, _ in SERIES:
        intercept, slope = line_through(points_of(found, what))
        cpu = line_through([(one.hosts, one.controller_cpu) for one in found if one.what == what])[1]
        lines.append(
            f"- {what}: {intercept:.1f} s, and {slope:.2f} s for each client. **Estimated**, not measured, for "
            f"{ESTIMATED_HOSTS:,} clients: {(intercept + slope * ESTIMATED_HOSTS) / 60:.0f} minutes where hosts and "
            f"Ansible share {os.cpu_count()} processors; Ansible's own part is {cpu:.2f} s of a processor for each "
            f"client, which are {cpu * ESTIMATED_HOSTS / 60:.0f} minutes on one and less on more."
        )
    return "\n".join([*lines, ""])


def figures_of_many(found):
    """The table of the fleet that is tuned at the appliance alone."""
    core = subprocess.run(["ansible", "--version"], check=True, capture_output=True, text=True).stdout
    lines = [
        f"With ansible-core {re.search('core ([0-9.]+)', core)[1]} and `--forks 20`:",
        "",
        "| retune | clients | time | a client | processor time of Ansible | of the appliance | load of the machine |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for one in found:
        lines.append(
            f"| {one.what} | {one.hosts} | {one.seconds:.1f} s | {one.seconds / one.hosts:.2f} s "
            f"| {one.controller_cpu:.1f} s | {one.hosts_cpu:.1f} s | {one.load:.1f} |"
        )
    return "\n".join([*lines, ""])


def put(page, begin, end, text):
    """The page with other text between two marks."""
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n{text}\n{end}{rest.partition(end)[2]}"


def main():
    """Run as a program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--many", type=int, default=100, help="clients of the fleet that is retuned at the appliance alone"
    )
    parser.add_argument("--into", type=Path, help="the page whose figures are written, with a picture beside it")
    chosen = parser.parse_args()
    if shutil.disk_usage(LABORATORY).free < chosen.hosts << 28:
        sys.exit(f"{LABORATORY} has no room for {chosen.hosts} hosts")
    found = measure(chosen.hosts, chosen.repeats) if chosen.hosts else make_appliance() or []
    many = measure_many(chosen.many) if chosen.many else []
    told = [asdict(one) for one in found + many]
    (PROJECT / "build/fleet-speed.json").write_text(json.dumps(told, indent=1) + "\n")
    if chosen.into is None:
        print("\n".join(([figures(found, "fleet.svg")] if found else []) + ([figures_of_many(many)] if many else [])))
        return
    page = chosen.into.read_text()
    if found:
        image = chosen.into.with_suffix(".svg")
        image.write_text(picture(found))
        page = put(page, BEGIN, END, figures(found, image.name))
    if many:
        page = put(page, BEGIN_MANY, END_MANY, figures_of_many(many))
    chosen.into.write_text(page)


main()
