# Copyright (c) Strongroom contributors
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Lays what is wanted of every variable of every host beside what is in force, as a table, JSON or a page."""

from __future__ import annotations

import html
import json
from pathlib import Path

import yaml
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars
from ansible_collections.strongroom.backup.plugins.module_utils.in_force import COMPARED, NOT_SHOWN, in_force, same
from ansible_collections.strongroom.backup.plugins.module_utils.inventory_checks import UNKNOWN
from ansible_collections.strongroom.backup.plugins.plugin_utils.inventory_places import Places, variables_of

TABLE = Path(__file__).parents[2] / "meta/variables.yml"
FORMATS = ("table", "json", "html")
COLUMNS = ("host", "variable", "wanted", "in_force", "state", "from")
HEADINGS = ("HOST", "VARIABLE", "WANTED", "IN FORCE", "STATE", "FROM")
WIDEST = 44
# Roles by group; of all hosts, of appliances, of clients.
ROLES = {
    "all": ("hardening", "kernel_tuning", "disk_tuning", "ktls"),
    "appliance": ("engine", "appliance", "monitoring"),
    "agents": ("engine", "agent", "monitoring"),
}
SECRET = ("password", "token", "secret")


class ActionModule(ActionBase):
    """Shows the table, or writes a file."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _VALID_ARGS = frozenset(("format", "into", "differences"))

    def run(self, tmp=None, task_vars=None):
        """Compare; the result has the rows, and clients that no host of the inventory is."""
        result = super().run(tmp, task_vars)
        given = self._task.args
        form, into = given.get("format", "table"), given.get("into") or ""
        if form not in FORMATS or (form == "html" and not into):
            result.update(failed=True, msg="format is one of %s; html needs into=FILE" % ", ".join(FORMATS))
            return result
        roles = yaml.safe_load(TABLE.read_text(encoding="utf-8"))["roles"]
        rows = rows_of(roles, task_vars, load_extra_vars(self._loader))
        unknown = unlisted(roles, task_vars)
        shown = (
            [row for row in rows if row["state"].startswith("differs")]
            if boolean(given.get("differences") or False)
            else rows
        )
        text = {"table": as_table, "json": as_json, "html": as_page}[form](shown, unknown)
        if into:
            Path(into).write_text(text, encoding="utf-8")
            Display().display("written: %s" % into)
        else:
            Display().display(text)
        result["differences"] = sum(row["state"].startswith("differs") for row in rows)
        result["unlisted"] = unknown
        return result


def rows_of(roles, task_vars, extra):
    """A row for each variable of each host that was asked."""
    hostvars, groups = task_vars["hostvars"], task_vars["groups"]
    places = Places(task_vars, hostvars, set(extra))
    rows = []
    for host in task_vars["ansible_play_hosts_all"]:
        names = dict.fromkeys(
            role for group, members in ROLES.items() if host in groups.get(group, ()) for role in members
        )
        variables = variables_of(hostvars, host)
        facts = hostvars[host]
        for role in names:
            options = roles[role]["options"]
            found = in_force(role, facts, options)
            for name, option in options.items():
                rows.append(row_of(host, role, name, option, variables, found, places))
    return rows


def row_of(host, role, name, option, variables, found, places):
    """One row."""
    is_set = name in variables
    wanted = variables[name] if is_set else option.get("default", "")
    computed = wanted is UNKNOWN or isinstance(wanted, Exception) or (isinstance(wanted, str) and "{{" in wanted)
    effective = found.get(name, NOT_SHOWN)
    if effective is NOT_SHOWN:
        state = "" if found or role in COMPARED else "not asked"
    elif isinstance(effective, str) and effective.startswith("differs"):
        effective, state = effective.partition(": ")[2], "differs"
    elif computed or (not is_set and wanted in ("", [])):
        state = "default" if not is_set else ""
    else:
        state = "as wanted" if same(name, option, wanted, effective) else "differs"
    wanted, effective = without_secrets(name, wanted), without_secrets(name, effective)
    return {
        "host": host,
        "variable": name,
        "wanted": "(computed)" if computed else wanted,
        "in_force": "" if effective is NOT_SHOWN else effective,
        "state": state,
        "from": (places.of(host, name) or "inventory") if is_set else "default",
    }


def without_secrets(name, value):
    """A value that others may see. A file of a secret is none."""
    if isinstance(value, dict):
        return {key: without_secrets(str(key), one) for key, one in value.items()}
    if isinstance(value, list):
        return [without_secrets(name, one) for one in value]
    lowered = name.lower()
    is_secret = any(word in lowered for word in SECRET) and not lowered.endswith("file")
    return "(secret)" if is_secret and value and isinstance(value, str) else value


def unlisted(roles, task_vars):
    """Clients that a director knows and that no host of the inventory is."""
    hostvars = task_vars["hostvars"]
    listed = set()
    known = set()
    for host in task_vars["groups"].get("agents", ()):
        listed.add(str(hostvars[host].get("strongroom_agent_name", host)))
    for host in task_vars["groups"].get("appliance", ()):
        found = hostvars[host].get("strongroom_appliance_in_force") or {}
        known.update(found.get("clients", ()))
    return sorted(known - listed)


def shown(value):
    """A value in a cell."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= WIDEST else text[: WIDEST - 3] + "..."


def as_table(rows, unknown):
    """Lines with columns as wide as what is in them."""
    lines = [HEADINGS, *(tuple(shown(row[column]) for column in COLUMNS) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    if not rows:
        table = ["Everything is as wanted."]
    if unknown:
        table.append("Clients of the director that are not in the inventory: %s" % ", ".join(unknown))
        table.append(
            "To remove them, with their certificates; backups stay: ansible-playbook retune.yml -e prune_clients=true"
        )
    return "\n".join(table)


def as_json(rows, unknown):
    """One object."""
    return json.dumps({"variables": rows, "unlisted_clients": unknown}, default=str, indent=1) + "\n"


def as_page(rows, unknown):
    """A page that needs nothing else."""
    cells = "".join(
        '<tr class="%s">%s</tr>\n'
        % (
            "differs" if row["state"].startswith("differs") else "",
            "".join("<td>%s</td>" % html.escape(shown(row[column])) for column in COLUMNS),
        )
        for row in rows
    )
    more = (
        "<p>Clients of the director that are not in the inventory: %s</p>" % html.escape(", ".join(unknown))
        if unknown
        else ""
    )
    style = (
        "body{font:14px sans-serif;margin:2em}table{border-collapse:collapse}td,th{padding:.2em .8em;text-align:left;"
        "border-bottom:1px solid #ddd}.differs td{background:#fdd}"
    )
    heads = "".join("<th>%s</th>" % heading.capitalize() for heading in HEADINGS)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Wanted and in force</title><style>%s</style>'
        "<h1>Wanted and in force</h1>%s<table><thead><tr>%s</tr></thead><tbody>\n%s</tbody></table></html>\n"
    ) % (style, more, heads, cells)
