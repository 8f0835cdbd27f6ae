# Copyright: Strongroom
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What a director knows of its clients, each in one place: state, group, jobs, last backup, what is wrong."""

from __future__ import annotations

from ansible_collections.strongroom.backup.plugins.module_utils.director import DirectorError, kernel_tls

LATE = ("job-missing", "job-overdue", "job-late")
FAILED = ("job-failed",)


def resources(director):
    """The configuration in force as type to name to directives; empty if we may not see it."""
    found = {}
    try:
        for one in director.pages("/config"):
            directives = {name: directive["value"] for name, directive in one["directives"].items()}
            found.setdefault(one["type"], {})[one["name"]] = directives
    except DirectorError as error:
        if error.error_id != "not-permitted":
            raise
    return found


def groups_of_jobs(configuration):
    """Job to the groups of the JobDefs that it is made of."""
    found = {}
    definitions = configuration.get("JobDefs", {})
    for name, directives in configuration.get("Job", {}).items():
        seen, groups, parent = set(), [], directives.get("JobDefs")
        while parent in definitions and parent not in seen:
            seen.add(parent)
            groups = definitions[parent].get("Client Group") or []
            if groups:
                break
            parent = definitions[parent].get("JobDefs")
        found[name] = [groups] if isinstance(groups, str) else list(groups)
    return found


def by_client(items):
    """Items of the API by the client that they are of."""
    found = {}
    for one in items:
        found.setdefault(one["client"], []).append(one)
    return found


def clients(director):
    """Every client that we may see, as the API shows it and with more; by name."""
    jobs = list(director.pages("/jobs"))
    problems = director.get("/status")["problems"]
    groups = groups_of_jobs(resources(director))
    found = {}
    jobs_of, problems_of = by_client(jobs), by_client(problems)
    for client in director.pages("/clients"):
        name = client["name"]
        own = [one for one in jobs_of.get(name, []) if one["kind"] == "backup"]
        wrong = problems_of.get(name, [])
        runs = [one["last_run"] for one in own if one["last_run"]]
        last = max(runs, key=lambda run: run["started"] or run["scheduled"] or "", default=None)
        events = {one["event"] for one in wrong}
        found[name] = {
            **client,
            "groups": sorted({group for one in own for group in groups.get(one["name"], [])}),
            "jobs": [one["name"] for one in own],
            "next_backup": min((one["next_due"] for one in own if one["next_due"]), default=None),
            "last_run": last,
            "ktls_proven": kernel_tls(last) if last else False,
            "late": bool(events & set(LATE)),
            "failed": bool(events & set(FAILED)) or (last is not None and last["state"] == "failed"),
            "problems": wrong,
        }
    return found
