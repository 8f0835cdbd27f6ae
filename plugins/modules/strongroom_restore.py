#!/usr/bin/python
# Copyright: Strongroom
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)

from __future__ import annotations

DOCUMENTATION = r"""
module: strongroom_restore
short_description: Restore files of a client's backup to a client
version_added: 0.9.0
description:
  - Chooses a snapshot of a client by its date or id, has an agent restore it by the director's API, and returns the
    result.
  - What is there already as the snapshot has it is left alone, so a task that is given again is not changed.
    O(overwrite) and O(creates) decide about the rest.
author:
  - Strongroom (@strongroom)
extends_documentation_fragment:
  - strongroom.backup.director
  - strongroom.backup.director.run
options:
  client:
    description: Whose backup. Not needed if O(snapshot) is an id.
    type: str
  job:
    description: Only backups of this job.
    type: str
  snapshot:
    description: V(latest), or the id of a snapshot or its beginning.
    type: str
    default: latest
  date:
    description:
      - With O(snapshot=latest), the newest backup that began at this time or before.
      - C(YYYY-MM-DD) is the end of that day, C(YYYY-MM-DD HH:MM[:SS]) a moment; UTC unless an offset such as C(+02:00)
        follows.
    type: str
  path:
    description: One absolute path of the snapshot. What is in it goes right into O(target).
    type: str
  paths:
    description: Absolute paths of the snapshot. They keep their whole path below O(target).
    type: list
    elements: str
    default: []
  onto:
    description: The client that the files go to. Without it, the one they came from.
    type: str
  target:
    description: The folder on that client, absolute. It is created where it is missing.
    type: str
  in_place:
    description: Put every path where it was.
    type: bool
    default: false
  restore_job:
    description: The Restore job to use, where the director has several.
    type: str
  overwrite:
    description:
      - What happens to files that are there.
      - With V(always) contents are compared and differences written, with V(if-changed) files of the same size and
        time are taken for equal, with V(if-newer) only older ones are written, with V(never) only what is missing is
        made.
      - Without it, as set by Replace of the Restore job.
    type: str
    choices: [always, if-changed, if-newer, never]
    aliases: [replace]
  delete:
    description: Remove what the snapshot does not contain, in folders that were backed up.
    type: bool
    default: false
  creates:
    description:
      - Restore nothing if this path exists on the host that the task runs on. Useful where that host is the one that is
        restored to.
    type: path
  keep_privileges:
    description:
      - Keep set-id bits, device nodes, file capabilities, trusted attributes and the flags immutable and append-only
        also below a target and on another client. Without it, what the Restore job says.
    type: bool
  workers:
    description: Processes that write files; V(0) leaves the choice to the agent.
    type: int
    default: 0
attributes:
  check_mode:
    description: The agent makes a dry run, which changes nothing and is in the director's list of runs. RV(entries) has
      what would be restored.
    support: full
  diff_mode:
    description: Shows what is created, updated and deleted. Without check mode this needs a dry run first.
    support: full
seealso:
  - module: strongroom.backup.strongroom_job
"""

EXAMPLES = r"""
- name: Bring yesterday's configuration back, beside the present one
  strongroom.backup.strongroom_restore:
    client: web1
    date: "2026-11-21"
    path: /etc
    target: /var/tmp/etc-of-yesterday
  delegate_to: vault

- name: Move data to a new machine, once
  strongroom.backup.strongroom_restore:
    director: https://vault.example.org
    token: "{{ vault_strongroom_token }}"
    authority: /etc/ssl/strongroom-authority.pem
    client: old-db
    paths: [/var/lib/postgresql]
    onto: "{{ inventory_hostname }}"
    in_place: true
    creates: /var/lib/postgresql/17
"""

RETURN = r"""
snapshot:
  description: Id of the snapshot that was chosen.
  returned: when there is one
  type: str
snapshot_time:
  description: When that backup began.
  returned: when there is one
  type: str
actions:
  description: How many entries were C(created), C(updated), C(deleted), C(unchanged) and C(kept).
  returned: when the run has ended
  type: dict
entries:
  description: What would be done with each entry, without those that stay as they are.
  returned: in check mode, and in diff mode
  type: list
  elements: dict
  contains:
    action:
      description: C(created), C(updated) or C(deleted).
      type: str
    path:
      description: Path below the target; what cannot be printed is escaped.
      type: str
entries_left_out:
  description: How many entries more there are; the director's log of a run is bounded.
  returned: in check mode, and in diff mode
  type: int
state:
  description: C(done), C(incomplete), C(failed) or C(cancelled).
  returned: when a run was started
  type: str
files:
  description: Entries that the restore was about.
  returned: when a run was started
  type: int
bytes:
  description: Bytes that were written.
  returned: when a run was started
  type: int
errors:
  description: What could not be restored or set.
  returned: when a run was started
  type: int
seconds:
  description: How long it took.
  returned: when a run was started
  type: float
tls:
  description: How the agent was connected to the storage daemon, as M(strongroom.backup.strongroom_job) returns it.
  returned: when a run was started
  type: dict
run:
  description: The run, as the director's API shows it.
  returned: when a run was started
  type: dict
log:
  description: Warnings and errors of the run's log.
  returned: when it is not done
  type: list
  elements: str
error_id:
  description: The id of the error, as the reference of exit codes has it.
  returned: on failure
  type: str
"""

import datetime
import os
import re

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.strongroom.backup.plugins.module_utils.director import (
    ONE_CREDENTIAL,
    Director,
    DirectorError,
    director_arguments,
    moment,
    named,
    result_of,
    settle,
)

CHANGES = ("created", "updated", "deleted")
DATE = re.compile(
    r"^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d))?)?\s*(Z|[+-]\d\d:\d\d)?$",
)
MORE = re.compile(r"^\.\.\. and (\d+) more entries$")


def end_of(text):
    """The last moment that a date means."""
    found = DATE.match(text.strip())
    try:
        if not found:
            raise ValueError("it is written otherwise")
        numbers = [int(one) for one in found.groups()[:6] if one is not None]
        zone = found[7] if found[7] not in (None, "Z") else "+00:00"
        sign = -1 if zone[0] == "-" else 1
        offset = datetime.timedelta(hours=sign * int(zone[1:3]), minutes=sign * int(zone[4:]))
        begin = datetime.datetime(*numbers, tzinfo=datetime.timezone(offset))
    except ValueError as error:
        raise DirectorError(
            "date: %r is no time (%s); write 2026-11-21, 2026-11-21 18:00 or 2026-11-21 18:00:00+02:00" % (text, error),
            "usage",
        ) from error
    unit = {3: datetime.timedelta(days=1), 5: datetime.timedelta(minutes=1)}.get(
        len(numbers), datetime.timedelta(seconds=1)
    )
    return begin + unit


def chosen(module, director):
    """The snapshot that is meant."""
    parameters = module.params
    if parameters["snapshot"] != "latest":
        return director.get("/snapshots/%s" % named(parameters["snapshot"]))
    client, job = parameters["client"], parameters["job"]
    if not client and not job:
        raise DirectorError("say whose backup: client=NAME, or give the id of a snapshot", "usage")
    end = end_of(parameters["date"]) if parameters["date"] else None
    if end is None:
        refuse_set_back(director, client, job)
    for copies in (False, True):
        query = {"client": client, "job": job, "copies": copies, "false": False}
        for one in director.pages("/snapshots", **query):
            if end is None or moment(one["time"]) < end:
                return one
    when = " of %s or before" % parameters["date"] if end else ""
    raise DirectorError("there is no snapshot of %s%s that you may see" % (client or job, when), "snapshot-not-found")


def refuse_set_back(director, client, job):
    """Fail where the store shows less than the director knows, as the command of the engine does."""
    for missed in director.get("/missed-snapshots"):
        if client in (None, missed["client"]) and job in (None, missed["job"]):
            raise DirectorError(
                "snapshot %s of %s, the newest known of job %s, is missing from storage %s: it was deleted there, or "
                "the storage was set back to an earlier state; give a date, or the id of a snapshot"
                % (missed["id"][:8], missed["client"], missed["job"], missed["storage"]),
                "set-back",
            )


def body_of(parameters, snapshot):
    """The request, without dry_run."""
    body = {
        "snapshot": snapshot["id"],
        "client": parameters["onto"] or "",
        "in_place": parameters["in_place"],
        "delete": parameters["delete"],
        "overwrite": parameters["overwrite"] or "",
        "keep_privileges": parameters["keep_privileges"],
        "workers": parameters["workers"],
        "job": parameters["restore_job"] or "",
        "target": "",
    }
    if parameters["target"]:
        body["target"] = os.path.normpath(parameters["target"])
    if parameters["path"]:
        body["subpath"] = parameters["path"]
    if parameters["paths"]:
        body["paths"] = parameters["paths"]
    for name in ("target", "path"):
        if parameters[name] and not parameters[name].startswith("/"):
            raise DirectorError("%s: %r is not absolute" % (name, parameters[name]), "usage")
    return body


def entries_of(lines):
    """What the log of a dry run says of each entry, and of how many more it does not."""
    found, more = [], 0
    for line in lines:
        action, _space, path = line.partition(" ")
        if action in CHANGES and path.startswith("/"):
            found.append({"action": action, "path": path})
        elif MORE.match(line):
            more = int(MORE.match(line)[1])
    return found, more


def ended(module, director, body):
    """Have it done; the result."""
    run = settle(module, director, director.post("/restores", body))
    actions = (run.get("summary") or {}).get("actions") or {}
    return run, actions


def tried(module, director, body):
    """What a dry run tells."""
    run, actions = ended(module, director, {**body, "dry_run": True})
    entries, more = entries_of(director.log(run))
    lines = ["%s %s\n" % (one["action"], one["path"]) for one in entries]
    lines += ["... and %d more\n" % more] if more else []
    listed = {"entries": entries, "entries_left_out": more, "diff": {"before": "", "after": "".join(lines)}}
    return run, actions, listed


def is_changed(run, actions):
    """Whether anything is other than before; as long as the run continues, that is to be expected."""
    return bool(sum(actions.get(name, 0) for name in CHANGES)) if run["ended"] else True


def restore(module):
    """Restore, or in check mode say what would be; the result."""
    parameters = module.params
    if parameters["creates"] and os.path.lexists(parameters["creates"]):
        return {"changed": False, "msg": "%s exists, so nothing was restored" % parameters["creates"]}
    director = Director(parameters)
    snapshot = chosen(module, director)
    body, listed = body_of(parameters, snapshot), {}
    dry = {"wait": True} if module.check_mode or module._diff else {}
    asked = module.params
    module.params = {**asked, **dry}
    if dry:
        run, actions, listed = tried(module, director, body)
    module.params = asked
    if not module.check_mode:
        run, actions = ended(module, director, body)
    return {
        **result_of(run),
        **listed,
        "changed": is_changed(run, actions),
        "actions": actions,
        "snapshot": snapshot["id"],
        "snapshot_time": snapshot["time"],
    }


def main():
    """Run as Ansible runs it."""
    module = AnsibleModule(
        argument_spec={
            **director_arguments(),
            "client": {"type": "str"},
            "job": {"type": "str"},
            "snapshot": {"type": "str", "default": "latest"},
            "date": {"type": "str"},
            "path": {"type": "str"},
            "paths": {"type": "list", "elements": "str", "default": []},
            "onto": {"type": "str"},
            "target": {"type": "str"},
            "in_place": {"type": "bool", "default": False},
            "restore_job": {"type": "str"},
            "overwrite": {
                "type": "str",
                "choices": ["always", "if-changed", "if-newer", "never"],
                "aliases": ["replace"],
            },
            "delete": {"type": "bool", "default": False},
            "creates": {"type": "path"},
            "keep_privileges": {"type": "bool"},
            "workers": {"type": "int", "default": 0},
            "wait": {"type": "bool", "default": True},
            "timeout": {"type": "int", "default": 0},
            "accept_incomplete": {"type": "bool", "default": False},
        },
        mutually_exclusive=[*ONE_CREDENTIAL, ("path", "paths"), ("target", "in_place")],
        supports_check_mode=True,
    )
    if not module.params["target"] and not module.params["in_place"]:
        module.fail_json(msg="say where to: target=FOLDER, or in_place=true")
    try:
        result = restore(module)
    except DirectorError as error:
        module.fail_json(msg=str(error), error_id=error.error_id)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
