# Copyright (c) Strongroom contributors
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Checks the variables of all hosts on the machine that runs Ansible, before any host is reached."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import yaml
from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars
from ansible_collections.strongroom.backup.plugins.module_utils.inventory_checks import Inventory
from ansible_collections.strongroom.backup.plugins.plugin_utils.inventory_places import Places, variables_of

TABLE = Path(__file__).parents[2] / "meta/variables.yml"
MOST_LINES = 40
NAMED_HOSTS = 3
# The roles whose work on a host is one part: what was last done of it is noted at the appliance.
PARTS = {"tuning": ("kernel_tuning", "disk_tuning", "ktls"), "agent": ("agent",)}


class ActionModule(ActionBase):
    """Shows each fault as a line, and fails if there is one.

    The result has no list of them: as data it would only hide the lines.
    """

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        """Check; the result has the faults as data too."""
        result = super().run(tmp, task_vars)
        hostvars = task_vars["hostvars"]
        roles = yaml.safe_load(TABLE.read_text(encoding="utf-8"))["roles"]
        names = task_vars["groups"]["all"]
        hosts = {host: variables_of(hostvars, host) for host in names}
        directives = yaml.safe_load(TABLE.with_name("directives.yml").read_text(encoding="utf-8"))
        inventory = Inventory(roles, directives, hosts, task_vars["groups"])
        faults = inventory.check()
        asked = {role: roles[role]["options"] for role in self._task.args.get("sources") or ()}
        inventory.sources(asked, self._is_there)
        places = Places(task_vars, hostvars, set(load_extra_vars(self._loader)))
        faults = joined(faults, places)
        for line in lines(faults):
            Display().display(line, color="red")
        if faults:
            result["failed"] = True
            count = "1 fault" if len(faults) == 1 else "%d faults" % len(faults)
            result["msg"] = "%s in the inventory; nothing was changed" % count
        else:
            result["digests"] = digests(roles, hostvars, names)
        return result

    def _is_there(self, path, kind):
        try:
            found = Path(self._find_needle("files", os.path.expanduser(path)))
        except AnsibleError:
            return False
        return found.is_dir() if kind == "folder" else found.is_file()


def digests(roles, hostvars, names):
    """Host -> part -> a digest of all that the part's roles make of the host: their files and its variables.

    Templates are digested as they are written. What comes with each job from the director is left out.
    """
    found = {}
    for part, members in PARTS.items():
        base = hashlib.sha256()
        for role in members:
            for file in sorted((TABLE.parents[1] / "roles" / role).rglob("*")):
                if file.is_file() and file.name != "README.md":
                    base.update(file.read_bytes())
        options = {name: one for role in members for name, one in roles[role]["options"].items()}
        bound = sorted(name for name, option in options.items() if not option.get("travels"))
        for host in names:
            raw = hostvars.raw_get(host)
            own = base.copy()
            own.update(json.dumps({name: raw[name] for name in bound if name in raw}, default=str).encode())
            found.setdefault(host, {})[part] = own.hexdigest()[:32]
    return found


def joined(faults, places):
    """(variable, text, place) -> the hosts that have this fault, in the order of the inventory."""
    found = {}
    for fault in faults:
        key = (fault.variable, fault.text, places.of(fault.host, fault.variable))
        found.setdefault(key, [])
        if fault.host not in found[key]:
            found[key].append(fault.host)
    return found


def lines(faults):
    """A line a fault, at most MOST_LINES."""
    shown_lines = []
    for (_variable, text, place), hosts in faults.items():
        more = len(hosts) - NAMED_HOSTS
        named = ", ".join(hosts[:NAMED_HOSTS]) + (" and %d more" % more if more > 0 else "")
        shown_lines.append("%s: %s%s" % (named, text, " (%s)" % place if place else ""))
    if len(shown_lines) > MOST_LINES:
        shown_lines = [*shown_lines[: MOST_LINES - 1], "and %d more faults" % (len(shown_lines) - MOST_LINES + 1)]
    return shown_lines
