"""What is in effect on this host, as one JSON object: run on the host itself, by its own Python.

    effective_tree.py [JOB]

`files` is what roles may write, by path. The rest is asked of what works with it: the running agent, its last run of
the job, systemd, the kernel, and on the appliance the running director. What changes by itself is left out: times,
numbers of runs, places in files.
"""

from __future__ import annotations

import glob
import json
import os
import ssl
import subprocess
import sys
import urllib.request

FOLDERS = (
    "/etc/strongroom",
    "/etc/systemd/system",
    "/etc/sysctl.d",
    "/etc/udev/rules.d",
    "/etc/modules-load.d",
    "/etc/ssh/sshd_config.d",
    "/etc/nftables.d",
)
UNIT = "strongroom-agent.service"
PROPERTIES = ("CPUWeight", "IOWeight", "MemoryHigh", "MemoryMax")
# Those of its own network, which a container has.
KERNEL = ("net/ipv4/tcp_*",)
CONSOLE = "/root/.config/strongroom/console.toml"


def said_by(*command):
    """What a program prints; None where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def files():
    """The text of each file that a role may write."""
    found = {}
    for folder in FOLDERS:
        for place, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(place, name)
                if os.path.isfile(path) and not os.path.islink(path):
                    with open(path, encoding="utf-8", errors="replace") as file:
                        found[path] = file.read()
    return found


def values_of(knobs):
    """Their values, without where each comes from."""
    return {name: knob["value"] for name, knob in knobs.items()}


def agent(job):
    """What the running agent works with, and what it did for the newest run of the job."""
    told = said_by("strongroom", "--json", "agent", "show", "--effective")
    if told is None:
        return {}
    told = json.loads(told)
    found = {
        "knobs": values_of(told["knobs"]),
        "maximum_concurrent_jobs": told["maximum_concurrent_jobs"],
        "directors": {
            one["name"]: {name: one[name] for name in ("address", "port", "maximum_bandwidth_per_job")}
            for one in told["directors"]
        },
    }
    runs = [run for run in told["ended"] if run["job"] == job]
    if runs:
        last = runs[-1]
        found["last run"] = {name: last.get(name) for name in ("status", "fileset", "maximum_bandwidth", "tls")}
        found["last run"]["knobs"] = values_of(last.get("knobs", {}))
    return found


def unit():
    """Limits of the agent, as systemd has them in force, and the kernel for its process."""
    told = said_by("systemctl", "show", UNIT, "--property=MainPID", *("--property=" + name for name in PROPERTIES))
    found = dict(line.split("=", 1) for line in (told or "").splitlines())
    process = int(found.pop("MainPID", 0))
    if process:
        found["process nice"] = os.getpriority(os.PRIO_PROCESS, process)
    return found


def kernel():
    """The kernel's settings."""
    found = {}
    for pattern in KERNEL:
        for path in glob.glob("/proc/sys/" + pattern):
            try:
                with open(path, encoding="ascii") as file:
                    found[path[len("/proc/sys/") :].replace("/", ".")] = " ".join(file.read().split())
            except OSError:
                pass  # it can only be written
    return found


def director():
    """The resources that the running director works with."""
    if not os.path.exists(CONSOLE):
        return {}
    with open(CONSOLE, encoding="utf-8") as file:
        said = dict(line.replace('"', "").split(" = ", 1) for line in file.read().splitlines() if " = " in line)
    context = ssl.create_default_context(cafile=os.path.join(said["identity"], "authority.pem"))
    context.load_cert_chain(
        os.path.join(said["identity"], "certificate.pem"), os.path.join(said["identity"], "key.pem")
    )
    request = urllib.request.Request(said["director"] + "/api/v1/config")
    with urllib.request.urlopen(request, context=context, timeout=60) as answer:
        items = json.load(answer)["items"]
    return {
        "%s %s" % (one["type"], one["name"]): {
            name: value["value"] for name, value in one["directives"].items() if name != "Name"
        }
        for one in items
    }


def main():
    """Print it."""
    job = sys.argv[1] if len(sys.argv) > 1 else ""
    tree = {"files": files(), "agent": agent(job), "unit": unit(), "kernel": kernel(), "director": director()}
    json.dump(tree, sys.stdout)


main()
