"""Who may read each secret of a host: given to python3 on it, as root. Prints them as JSON; fails if others read one.

A secret is whatever below the folders of Strongroom, and of what watches it, has a private key, a passphrase, a token
or a password in it. It belongs to root or to the daemon that needs it, and only a group of that daemon reads it.
"""

from __future__ import annotations

import grp
import json
import os
import pwd
import re
import stat
import sys

FOLDERS = (
    "/etc/strongroom",
    "/var/lib/strongroom",
    "/var/lib/strongroom-appliance",
    "/root/.config/strongroom",
    "/etc/prometheus/strongroom",
    "/etc/grafana/strongroom",
    "/etc/grafana/provisioning",
)
# By the name, and by what is in it.
NAMED = re.compile(r"(passphrase|console\.toml|.*\.(key|token|password))$")
HOLDS = re.compile(rb"PRIVATE KEY-----|\bsrt_[0-9a-f]{48}|secureJsonData")
# Anyone who may own one, or be the group that reads it, by folder; root may anywhere.
DAEMONS = {
    "/var/lib/strongroom/director": "strongroom-director",
    "/var/lib/strongroom/ca": "strongroom-director",
    "/var/lib/strongroom/storage": "strongroom-storage",
    "/var/lib/strongroom/agent": "strongroom-agent",
    "/etc/prometheus/strongroom": "prometheus",
    "/etc/grafana": "grafana",
}


def secrets():
    """Paths of all of them."""
    for top in FOLDERS:
        for folder, _, names in os.walk(top):
            for name in names:
                path = os.path.join(folder, name)
                if "/repository/" in path or not stat.S_ISREG(os.lstat(path).st_mode):
                    continue
                with open(path, "rb") as file:
                    if NAMED.match(name) or HOLDS.search(file.read(1 << 20)):
                        yield path


def fault(path):
    """Why others read a secret; empty if none does."""
    found = os.lstat(path)
    daemon = next((name for folder, name in DAEMONS.items() if path.startswith(folder + "/")), "root")
    owner = pwd.getpwuid(found.st_uid).pw_name
    group = grp.getgrgid(found.st_gid).gr_name
    mode = stat.S_IMODE(found.st_mode)
    if owner not in ("root", daemon):
        return f"{path} belongs to {owner}"
    if mode & 0o137 or (mode & 0o040 and group not in ("root", daemon)):
        return f"{path} has the mode {mode:04o} and the group {group}"
    return ""


def main():
    """Print them, and what is wrong."""
    found = {
        path: f"{pwd.getpwuid(os.lstat(path).st_uid).pw_name} {os.lstat(path).st_mode & 0o7777:04o}"
        for path in secrets()
    }
    faults = [text for text in map(fault, found) if text]
    print(json.dumps(found))
    sys.exit("\n".join(faults) if faults else 0)


main()
