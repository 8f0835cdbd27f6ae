#!/usr/bin/python
# Copyright: Strongroom
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)

from __future__ import annotations

DOCUMENTATION = r"""
module: strongroom_info
short_description: What a director knows of clients, jobs, backups and storage
version_added: 0.9.0
description:
  - Asks the director's API, and changes nothing. Everything is about what the credential may see.
author:
  - Strongroom (@strongroom)
extends_documentation_fragment:
  - strongroom.backup.director
options:
  gather:
    description: What to ask for.
    type: list
    elements: str
    choices: [status, clients, jobs, backups, expiries, storage, configuration]
    default: [status, clients, jobs, backups, expiries, storage]
  clients:
    description: Only these clients, and their jobs and backups. Without it, all.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Only looks, so check mode is the same.
    support: full
  diff_mode:
    description: Changes nothing, so there is nothing to show.
    support: none
"""

EXAMPLES = r"""
- name: Ask the director
  strongroom.backup.strongroom_info:
  delegate_to: vault
  run_once: true
  register: backups

- name: Stop where a client has no backup
  ansible.builtin.assert:
    that: backups.clients[inventory_hostname].last_backup is not none
"""

RETURN = r"""
status:
  description: The director's name, version, problems, runs under way, recent ones and those due within a day.
  returned: when gathered
  type: dict
clients:
  description: Clients by name, each as the API shows it, and with more.
  returned: when gathered
  type: dict
  contains:
    connected:
      description: Whether its agent is connected.
      type: bool
    enrolled:
      description: When it got its certificate; none without one.
      type: str
    tls_mode:
      description: C(off), C(tls) or C(ktls), as configured.
      type: str
    ktls_proven:
      description: Whether the kernel proved in the last run that it did TLS.
      type: bool
    groups:
      description: Names that JobDefs of its jobs give in Client Group. Empty if the credential may not see JobDefs.
      type: list
      elements: str
    jobs:
      description: Names of its backup jobs.
      type: list
      elements: str
    last_backup:
      description: When its last successful backup began.
      type: str
    last_run:
      description: The last run of its jobs, as the API shows it.
      type: dict
    next_backup:
      description: When the next one is due.
      type: str
    late:
      description: Whether a job is missing, overdue or late.
      type: bool
    failed:
      description: Whether a job failed and has not succeeded since.
      type: bool
    problems:
      description: What is wrong with it, as the API shows it.
      type: list
      elements: dict
jobs:
  description: Jobs, with their last run and when they are due.
  returned: when gathered
  type: list
  elements: dict
backups:
  description: The newest snapshot of each client, by client.
  returned: when gathered
  type: dict
expiries:
  description: When certificates and tokens end, the first one first.
  returned: when gathered
  type: list
  elements: dict
configuration:
  description: The resources that the director works with, by type and name, each with its directives.
  returned: when gathered
  type: dict
storage:
  description: Storage resources by name, with C(directives), and what is wrong with each in C(problems).
  returned: when gathered
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.strongroom.backup.plugins.module_utils.director import (
    ONE_CREDENTIAL,
    Director,
    DirectorError,
    director_arguments,
)
from ansible_collections.strongroom.backup.plugins.module_utils.fleet import clients, resources

USUAL = ["status", "clients", "jobs", "backups", "expiries", "storage"]
KINDS = [*USUAL, "configuration"]


def chosen_clients(director, names):
    """Clients by name; an error if one of those named is not there."""
    found = clients(director)
    missing = [name for name in names if name not in found]
    if missing:
        raise DirectorError("the director has no client %s that you may see" % ", ".join(missing), "unknown-name")
    return {name: one for name, one in found.items() if not names or name in names}


def newest(director, names):
    """The newest snapshot of each client."""
    found = {}
    for name in names:
        for one in director.get("/snapshots", client=name, false=False, limit=1)["items"]:
            found[name] = one
    return found


def storages(director, problems):
    """Storage resources, and what is wrong with each."""
    return {
        name: {"directives": directives, "problems": [one for one in problems if one["storage"] == name]}
        for name, directives in resources(director).get("Storage", {}).items()
    }


def gather(director, wanted, names):
    """What was asked for."""
    gathered = {}
    status = director.get("/status") if {"status", "expiries", "storage"} & wanted else {}
    found = chosen_clients(director, names) if {"clients", "backups"} & wanted or names else {}
    if "status" in wanted:
        gathered["status"] = {name: value for name, value in status.items() if name != "expiries"}
    if "clients" in wanted:
        gathered["clients"] = found
    if "jobs" in wanted:
        gathered["jobs"] = [one for one in director.pages("/jobs") if not names or one["client"] in names]
    if "backups" in wanted:
        gathered["backups"] = newest(director, found)
    if "expiries" in wanted:
        gathered["expiries"] = status["expiries"]
    if "storage" in wanted:
        gathered["storage"] = storages(director, status["problems"])
    if "configuration" in wanted:
        gathered["configuration"] = resources(director)
    return gathered


def main():
    """Run as Ansible runs it."""
    module = AnsibleModule(
        argument_spec={
            **director_arguments(),
            "gather": {"type": "list", "elements": "str", "choices": KINDS, "default": USUAL},
            "clients": {"type": "list", "elements": "str", "default": []},
        },
        mutually_exclusive=ONE_CREDENTIAL,
        supports_check_mode=True,
    )
    try:
        gathered = gather(Director(module.params), set(module.params["gather"]), module.params["clients"])
    except DirectorError as error:
        module.fail_json(msg=str(error), error_id=error.error_id)
    module.exit_json(changed=False, **gathered)


if __name__ == "__main__":
    main()
