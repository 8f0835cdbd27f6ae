# Copyright (c) Strongroom contributors
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What is in force for each variable of the inventory, from what the roles' tasks `report` found on a host.

A value that nothing on the host or at the director shows by itself is NOT_SHOWN.
"""

from __future__ import annotations

import json

from ansible_collections.strongroom.backup.plugins.module_utils import forms
from ansible_collections.strongroom.backup.plugins.module_utils.inventory_checks import truth

NOT_SHOWN = object()
AS_WANTED = "as wanted"
OWN = {
    "strongroom_cpu_weight": "CPUWeight",
    "strongroom_io_weight": "IOWeight",
    "strongroom_memory_high": "MemoryHigh",
    "strongroom_memory_max": "MemoryMax",
}
# Directives of the director's Client and Job, and of the Options of the FileSet.
CLIENT = {
    "strongroom_workers": "Maximum Workers Per Job",
    "strongroom_scan_threads": "Scan Threads",
    "strongroom_shards": "Shards",
    "strongroom_upload_queue_size": "Upload Queue Size",
    "strongroom_lru_size": "Lru Size",
    "strongroom_nice": "Nice",
    "strongroom_tls_enable": "TLS Enable",
    "strongroom_ktls": "Enable kTLS",
    "strongroom_tls_cipher_suites": "TLS Cipher Suites",
    "strongroom_maximum_bandwidth_per_job": "Maximum Bandwidth Per Job",
}
JOB = {"strongroom_agent_group": "JobDefs", "strongroom_maximum_bandwidth": "Maximum Bandwidth"}
OPTIONS = {
    "strongroom_compression": "Compression",
    "strongroom_signature": "Signature",
    "strongroom_acls": "ACL Support",
    "strongroom_xattrs": "XAttr Support",
    "strongroom_one_filesystem": "One FS",
}
# Arguments of Prometheus.
PROMETHEUS = {
    "strongroom_monitoring_listen": "web.listen-address",
    "strongroom_monitoring_retention": "storage.tsdb.retention.time",
    "strongroom_monitoring_retention_size": "storage.tsdb.retention.size",
}
GRAFANA_UNPACKED = "/opt/strongroom-grafana"
# The one that the role made.
GRAFANA_PASSWORD = "/etc/grafana/strongroom/admin.password"
# Roles whose settings are compared one by one, and the fact with the comparison.
COMPARED = {
    "hardening": "strongroom_hardening_report",
    "kernel_tuning": "strongroom_kernel_report",
    "disk_tuning": "strongroom_disk_report",
    "ktls": "strongroom_ktls_report",
}


def in_force(role, facts, options):
    """Variable -> value for the variables of a role, from the facts of a host."""
    if role in COMPARED:
        rows = facts.get(COMPARED[role])
        return {} if rows is None else _compared(rows, options)
    found = facts.get("strongroom_%s_in_force" % role)
    return (
        {}
        if found is None
        else {"agent": _agent, "appliance": _appliance, "engine": _engine, "monitoring": _monitoring}[role](found)
    )


def same(variable, option, wanted, effective):
    """Whether a value in force is the one that is wanted."""
    if effective == AS_WANTED or (variable == "strongroom_maximum_workers" and not wanted):
        # 0 is one process a core, which is what the agent shows.
        return True
    if option.get("form") == "rate":
        return (forms.bytes_per_second(str(wanted)) or 0) == (effective or 0)
    if option.get("form") == "unit_size":
        size = forms.unit_bytes(str(wanted)) if wanted else None
        return str(effective) in ("infinity", "") if not wanted else size is None or str(int(size)) == str(effective)
    if option["type"] == "bool":
        return truth(wanted) == truth(effective)
    if option["type"] == "list":
        return list(wanted) == list(effective or [])
    if variable == "strongroom_ktls" and isinstance(wanted, bool):
        wanted = "yes" if wanted else "no"
    return str(wanted or "") == str(effective or "") or str(wanted) == str(effective)


def _compared(rows, options):
    """All variables are in force where all settings are; else the variable of the state names those that are not."""
    differ = [one["setting"] for one in rows if one["state"] not in (AS_WANTED, "")]
    if not differ:
        return dict.fromkeys(options, AS_WANTED)
    return {next(iter(options)): "differs: " + ", ".join(differ[:3]) + (" ..." if len(differ) > 3 else "")}


def _first(value, name):
    """The first block of that name within a resource, or an empty one."""
    blocks = (value or {}).get(name)
    return blocks[0] if isinstance(blocks, list) and blocks and isinstance(blocks[0], dict) else {}


def _agent(found):
    try:
        agent = json.loads(found["agent"]) if isinstance(found["agent"], str) else found["agent"]
    except ValueError:
        agent = {}
    unit = dict(line.split("=", 1) for line in found["unit"])
    director, name = found["director"], found["name"]
    client, job = director.get("Client", {}).get(name, {}), director.get("Job", {}).get(name, {})
    fileset = director.get("FileSet", {}).get(name, {})
    include = _first(fileset, "Include")
    values = {variable: unit.get(key, "") for variable, key in OWN.items()}
    values["strongroom_agent_state"] = "present" if agent else "absent"
    if agent:
        values["strongroom_agent_name"] = agent.get("name")
        values["strongroom_metrics_file"] = agent.get("metrics_file")
        values["strongroom_maximum_workers"] = agent.get("knobs", {}).get("maximum_workers", {}).get("value")
    if client:
        values.update({variable: client.get(key) for variable, key in CLIENT.items()})
        values.update({variable: job.get(key) for variable, key in JOB.items()})
        values.update({variable: _first(include, "Options").get(key) for variable, key in OPTIONS.items()})
        values["strongroom_files"] = include.get("File", [])
        values["strongroom_exclude"] = _first(fileset, "Exclude").get("File", [])
        limit = agent.get("knobs", {}).get("nice", {})
        if limit.get("source", "default") != "default":
            # The owner of the host goes first.
            values["strongroom_nice"] = max(limit["value"], values["strongroom_nice"] or 0)
    return values


def _appliance(found):
    answers = {}
    for line in found["answers"].splitlines():
        name, is_one, value = line.partition(" = ")
        if is_one and not name.startswith("#"):
            try:
                answers[name] = json.loads(value)
            except ValueError:
                continue
    values = {"strongroom_appliance_state": "present" if found["director"] else "absent"}
    for name in (
        "further_addresses",
        "organisation",
        "repository",
        "plain_clients",
        "backup_time",
        "minimum_retention",
    ):
        if name in answers:
            values["strongroom_appliance_" + name] = answers[name]
    return values


def _engine(found):
    packages = [one.partition("=")[0] for one in found["packages"]]
    values = {"strongroom_engine_state": "present" if packages else "absent"}
    if found["packages"]:
        values["strongroom_engine_version"] = found["packages"][0].partition("=")[2]
    if found["repository"]:
        values["strongroom_engine_repository"] = found["repository"]
    return values


def _monitoring(found):
    missing = sorted(set(found["wanted"]) - set(found["units"]))
    state = "differs: %s not running" % ", ".join(missing) if missing else AS_WANTED
    values = {"strongroom_monitoring_state": state, "strongroom_monitoring_parts": state}
    given = {}
    for line in found["lines"]:
        what, _blank, rest = line.partition(" ")
        given.setdefault(what, []).append(rest)
    arguments = _arguments(" ".join(given.get("prometheus", ())))
    values.update({variable: arguments[key] for variable, key in PROMETHEUS.items() if key in arguments})
    if "interval" in given:
        values["strongroom_monitoring_interval"] = given["interval"][0]
    node = _arguments(" ".join(given.get("node", ())))
    if "web.listen-address" in node:
        values["strongroom_monitoring_node_address"] = node["web.listen-address"]
    if "grafana" in given:
        values.update(_grafana(given))
    if found["exported"]:
        folder = found["exported"]["folder"]
        is_there = found["exported"]["there"]
        values["strongroom_monitoring_export"] = folder if is_there else "differs: nothing was written to %s" % folder
    return values


def _arguments(text):
    """The options of a program, as name -> value."""
    return dict(one[2:].split("=", 1) for one in text.split() if one.startswith("--") and "=" in one)


def _grafana(given):
    """What Grafana was set up with."""
    settings = dict(one.split("=", 1) for one in given["grafana"] if "=" in one)
    address, port = settings.get("GF_SERVER_HTTP_ADDR", ""), settings.get("GF_SERVER_HTTP_PORT", "")
    places = " ".join(given.get("there", ()))
    repository = given.get("repository", [""])[0]
    sources = {"repository": repository, "deb": places.endswith(".deb"), "tarball": GRAFANA_UNPACKED in places.split()}
    password = settings.get("GF_SECURITY_ADMIN_PASSWORD", "").removeprefix("$__file{").removesuffix("}")
    return {
        "strongroom_monitoring_grafana_source": next((name for name, is_it in sources.items() if is_it), "installed"),
        "strongroom_monitoring_grafana_repository": repository,
        "strongroom_monitoring_grafana_listen": "%s:%s" % ("[%s]" % address if ":" in address else address, port),
        "strongroom_monitoring_grafana_password_file": "" if password == GRAFANA_PASSWORD else password,
        "strongroom_monitoring_grafana_user": json.loads(given["user"][0]) if "user" in given else "",
    }
