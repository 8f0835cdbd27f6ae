#!/usr/bin/python
# Copyright: Strongroom
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)

from __future__ import annotations

DOCUMENTATION = r"""
module: strongroom_job
short_description: Run a job of the director, and wait for its result
version_added: 0.9.0
description:
  - Starts a run of a Job resource by the director's API, and returns how it ended.
  - Every use starts a run, so the task is always changed.
author:
  - Strongroom (@strongroom)
extends_documentation_fragment:
  - strongroom.backup.director
  - strongroom.backup.director.run
options:
  job:
    description: Name of the Job resource.
    type: str
    required: true
    aliases: [name]
  level:
    description: Level in place of the job's.
    type: str
    choices: [full, differential, incremental]
  client:
    description: Client in place of the job's.
    type: str
  fileset:
    description: FileSet in place of the job's.
    type: str
  storage:
    description: Storage in place of the job's.
    type: str
  pool:
    description: Pool in place of the job's.
    type: str
  priority:
    description: Priority in place of the job's; a lower one starts first.
    type: int
  estimate:
    description:
      - In check mode, let the agent count what the job would back up, and wait for that. An estimate reads metadata,
        stores nothing, and is a run in the director's list of runs.
      - Without check mode this changes nothing.
    type: bool
    default: false
attributes:
  check_mode:
    description: No job is run. What would be run is reported, and with O(estimate) how many files and bytes it has.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
seealso:
  - module: strongroom.backup.strongroom_restore
  - module: strongroom.backup.strongroom_info
"""

EXAMPLES = r"""
- name: Back up the database before it is upgraded
  strongroom.backup.strongroom_job:
    job: db1
    timeout: 7200
  delegate_to: vault

- name: Begin a full backup from any machine, and do not wait
  strongroom.backup.strongroom_job:
    director: https://vault.example.org
    token: "{{ vault_strongroom_token }}"
    authority: /etc/ssl/strongroom-authority.pem
    job: web1
    level: full
    wait: false
  delegate_to: localhost
"""

RETURN = r"""
state:
  description: C(done), C(incomplete), C(failed) or C(cancelled); without O(wait) also C(queued), C(waiting),
    C(running).
  returned: when a run was started
  type: str
level:
  description: The level that it ran at, which may be another than the one asked for.
  returned: when a run was started
  type: str
files:
  description: Files in the snapshot; in check mode with O(estimate) those that it would have.
  returned: when a run was started
  type: int
bytes:
  description: Their bytes.
  returned: when a run was started
  type: int
stored_bytes:
  description: What was stored, after deduplication and compression.
  returned: when a run was started
  type: int
errors:
  description: Files that could not be read.
  returned: when a run was started
  type: int
seconds:
  description: How long it took.
  returned: when a run was started
  type: float
bytes_per_second:
  description: RV(bytes) by RV(seconds).
  returned: when a run was started
  type: int
snapshot:
  description: Id of the snapshot; empty without one.
  returned: when a run was started
  type: str
tls:
  description: How the agent was connected to the storage daemon.
  returned: when a run was started
  type: dict
  contains:
    mode:
      description: C(off), C(tls) or C(ktls); empty as long as the run has not ended.
      type: str
    cipher:
      description: The cipher suite.
      type: str
    ktls_proven:
      description: Whether the kernel did TLS for this very connection, and counted it.
      type: bool
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

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.strongroom.backup.plugins.module_utils.director import (
    ONE_CREDENTIAL,
    Director,
    DirectorError,
    director_arguments,
    result_of,
    settle,
)

OVERRIDES = ("level", "client", "fileset", "storage", "pool", "priority")


def say(module, director):
    """What would be run."""
    parameters = module.params
    job = next((one for one in director.pages("/jobs") if one["name"] == parameters["job"]), None)
    if job is None:
        raise DirectorError("the director has no job %r that you may see" % parameters["job"], "unknown-name")
    level, client = (parameters[name] or job[name] for name in ("level", "client"))
    text = "would run job %s on %s%s" % (job["name"], client, ", level " + level if level else "")
    if not parameters["estimate"]:
        module.exit_json(changed=True, msg=text + "; nothing was started")
    run = director.post("/estimates", {"job": job["name"]})
    run = director.await_run(run, parameters["timeout"])
    if run["state"] not in ("done", "incomplete"):
        why = run["error"] or run["reason"] or "it is still %s" % run["state"]
        module.fail_json(msg="the estimate of job %s: %s" % (job["name"], why), **result_of(run))
    text += ": %d files, %d bytes; nothing was stored" % (run["files"], run["bytes"])
    module.exit_json(changed=True, msg=text, **result_of(run))


def main():
    """Run as Ansible runs it."""
    module = AnsibleModule(
        argument_spec={
            **director_arguments(),
            "job": {"type": "str", "required": True, "aliases": ["name"]},
            "level": {"type": "str", "choices": ["full", "differential", "incremental"]},
            "client": {"type": "str"},
            "fileset": {"type": "str"},
            "storage": {"type": "str"},
            "pool": {"type": "str"},
            "priority": {"type": "int"},
            "estimate": {"type": "bool", "default": False},
            "wait": {"type": "bool", "default": True},
            "timeout": {"type": "int", "default": 0},
            "accept_incomplete": {"type": "bool", "default": False},
        },
        mutually_exclusive=ONE_CREDENTIAL,
        supports_check_mode=True,
    )
    try:
        director = Director(module.params)
        if module.check_mode:
            say(module, director)
        given = {name: module.params[name] for name in OVERRIDES if module.params[name] is not None}
        run = director.post("/runs", {"job": module.params["job"], **given})
        if run["state"] == "cancelled":
            module.fail_json(msg="the run is not started: %s" % run["reason"], error_id="conflict", **result_of(run))
        run = settle(module, director, run)
    except DirectorError as error:
        module.fail_json(msg=str(error), error_id=error.error_id)
    module.exit_json(changed=True, **result_of(run))


if __name__ == "__main__":
    main()
