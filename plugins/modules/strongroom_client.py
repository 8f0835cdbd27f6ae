#!/usr/bin/python
# Copyright: Strongroom
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)

from __future__ import annotations

DOCUMENTATION = r"""
module: strongroom_client
short_description: Let a client join, wait for it, revoke or remove it
version_added: 0.9.0
description:
  - Brings a client to a state at the director. Clients are asked for and removed by the director's API.
  - Enrolment tokens and revocation are the authority's, so V(present) of a client that is not known yet and V(revoked)
    run C(strongroom ca) on the host of the task, which must have the authority. That is the appliance.
author:
  - Strongroom (@strongroom)
extends_documentation_fragment:
  - strongroom.backup.director
options:
  name:
    description: Name of the client.
    type: str
    required: true
  state:
    description:
      - With V(present) the director knows the client, or there is an unused enrolment token for just this name. If
        neither is so, a token is made, with which C(strongroom agent join) on the machine makes it a client.
      - With V(enrolled) the task waits until the client has got its certificate, and with O(connected) until its agent
        is connected, which proves that the certificate is still good. It changes nothing.
      - With V(revoked) its certificates are revoked, which ends open connections, and unused tokens for just its name
        are withdrawn. Its configuration and backups stay.
      - With V(absent) it is removed too. Its certificates are revoked, its runs are cancelled, its file in the
        director's configuration is removed, and its backups stay. Unused tokens for just its name are withdrawn if the
        host of the task has the authority.
    type: str
    choices: [present, enrolled, revoked, absent]
    default: present
  group:
    description:
      - With V(present), the group whose jobs the client gets when it joins (Client Group of JobDefs).
      - A client that is known already and is not of this group fails, because its group is in its file, which the
        role P(strongroom.backup.agent#role) writes.
    type: str
  lifetime:
    description: How long a new token is good, such as V(15min), V(1h) or V(2d).
    type: str
    default: 1h
  output:
    description:
      - A new file, which only its owner may read, that a new token is written to. Without it the token is returned.
    type: path
  new_client:
    description: After a compromise. Once it has joined, the name is another client, with other keys.
    type: bool
    default: false
  connected:
    description: With V(enrolled), wait until its agent is connected too.
    type: bool
    default: false
  timeout:
    description: With V(enrolled), how many seconds to wait.
    type: int
    default: 60
  ca:
    description: The authority's folder.
    type: path
    default: /var/lib/strongroom/ca
  password_file:
    description: A file with the passphrase of the authority's key, if it has one.
    type: path
  command:
    description: The engine's command.
    type: path
    default: strongroom
attributes:
  check_mode:
    description: Says what would be done. No token is made.
    support: full
  diff_mode:
    description: Shows state and groups before and after.
    support: full
notes:
  - A token that is returned is in the result of the task. Give the task C(no_log=true), or use O(output).
seealso:
  - plugin: strongroom.backup.enrolment_token
    plugin_type: lookup
"""

EXAMPLES = r"""
- name: Let web7 join the group servers
  strongroom.backup.strongroom_client:
    name: web7
    group: servers
  delegate_to: vault
  register: joining
  no_log: true

- name: Join
  ansible.builtin.command:
    argv: [strongroom, agent, join, https://vault.example.org, --token-file, "-"]
    stdin: "{{ joining.enrolment_token }}"
  when: joining.enrolment_token is defined

- name: Wait for it
  strongroom.backup.strongroom_client:
    name: web7
    state: enrolled
    connected: true
  delegate_to: vault

- name: It has left
  strongroom.backup.strongroom_client:
    name: web7
    state: absent
  delegate_to: vault
"""

RETURN = r"""
client:
  description: The client as the director shows it, with its groups; empty if the director does not know it.
  returned: always
  type: dict
enrolment_token:
  description: The token's text. It is a secret, and cannot be read again.
  returned: when a token was made, and O(output) is not given
  type: str
token:
  description: Id, names, group, uses and end of the token that was made or is still unused.
  returned: when there is one
  type: dict
done:
  description: What was done, in words.
  returned: when something was
  type: list
  elements: str
"""

import os
import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.strongroom.backup.plugins.module_utils.authority import (
    DEFAULT_FOLDER,
    Authority,
    AuthorityError,
    token_options,
)
from ansible_collections.strongroom.backup.plugins.module_utils.director import (
    ONE_CREDENTIAL,
    Director,
    DirectorError,
    director_arguments,
    named,
)
from ansible_collections.strongroom.backup.plugins.module_utils.fleet import clients

PAUSE_SECONDS = 1
TOKEN_FIELDS = ("id", "name", "group", "uses", "uses_left", "expires")


class Task:
    """One task; its module, the director, the authority, and the client as it is."""

    def __init__(self, module):
        self.module = module
        self.name = module.params["name"]
        self.director = Director(module.params)
        self.authority = Authority(
            module.run_command,
            [module.params["command"]],
            module.params["ca"],
            module.params["password_file"],
        )
        self.client = self.known()
        self.withdrawn = []

    def known(self):
        """The client, empty if the director does not know it."""
        named(self.name)
        return clients(self.director).get(self.name, {})

    def certificates(self, entries):
        """Its good certificates; fails where the name is somebody else's too, because they would be revoked as well."""
        own = [one for one in entries if one["type"] == "certificate" and one["name"] == self.name]
        roles = sorted({one["role"] for one in own} - {"agent"})
        if roles:
            raise AuthorityError(
                "%s is the name of a certificate of the role %s too; revoke it by hand" % (self.name, ", ".join(roles))
            )
        return own

    def tokens(self, entries):
        """Unused tokens for just its name."""
        return [one for one in entries if one["type"] == "enrolment_token" and one["name"] == self.name]

    def withdraw(self, entries):
        """Withdraw these; what is done."""
        done = []
        for one in self.tokens(entries):
            if not self.module.check_mode:
                self.authority.withdraw(one["id"])
            self.withdrawn.append(one["group"] or "none")
            done.append("withdrew the enrolment token %s" % one["id"])
        return done


def present(task):
    """See the documentation."""
    parameters = task.module.params
    group = parameters["group"]
    if task.client:
        groups = task.client["groups"]
        if group and groups and group not in groups:
            raise DirectorError(
                "%s is in the group %s already; its file in the configuration of the director says so, and the role "
                "strongroom.backup.agent writes that" % (task.name, ", ".join(groups)),
                "conflict",
            )
        return {"changed": False}
    entries = task.authority.list()
    unused = task.tokens(entries)
    fitting = [one for one in unused if one["group"] == (group or "")]
    if fitting:
        return {"changed": False, "token": brief(fitting[0])}
    done = task.withdraw(entries)
    text = "made an enrolment token for %s%s" % (task.name, ", group " + group if group else "")
    result = {"changed": True, "done": [*done, text]}
    if not task.module.check_mode:
        options = token_options(
            name=task.name, group=group, lifetime=parameters["lifetime"], new_client=parameters["new_client"]
        )
        made = task.authority.token(options, parameters["output"] or "-")
        result["token"] = brief(made)
        if not parameters["output"]:
            result["enrolment_token"] = made["token"]
    return result


def brief(token):
    """A token without its text."""
    return {name: token[name] for name in TOKEN_FIELDS}


def enrolled(task):
    """See the documentation."""
    parameters = task.module.params
    end = time.monotonic() + parameters["timeout"]
    while True:
        if task.client.get("enrolled") and (task.client["connected"] or not parameters["connected"]):
            return {"changed": False}
        if task.module.check_mode or time.monotonic() >= end:
            break
        time.sleep(PAUSE_SECONDS)
        task.client = task.known()
    state = state_of(task.client)
    if task.module.check_mode:
        return {"changed": False, "msg": "%s is %s; without check mode this would wait" % (task.name, state)}
    raise DirectorError(
        "%s is %s after %d s; `strongroom agent show` on the machine says why"
        % (task.name, state, parameters["timeout"]),
        "conflict",
    )


def revoked(task):
    """See the documentation."""
    entries = task.authority.list()
    own = task.certificates(entries)
    done = task.withdraw(entries)
    if own:
        if not task.module.check_mode:
            task.authority.revoke(task.name)
        done += ["revoked the certificate %s" % one["serial"] for one in own]
    return {"changed": bool(done), "done": done}


def absent(task):
    """See the documentation."""
    done = []
    if os.path.isdir(task.module.params["ca"]):
        done = task.withdraw(task.authority.list())
    if task.module.check_mode:
        done += ["removed the client %s" % task.name] if task.client else []
        return {"changed": bool(done), "done": done}
    try:
        done += task.director.delete("/clients/%s" % named(task.name))["done"]
    except DirectorError as error:
        if error.error_id != "unknown-name":
            raise
    return {"changed": bool(done), "done": done}


STATES = {"present": present, "enrolled": enrolled, "revoked": revoked, "absent": absent}


def state_of(client):
    """The state of a client in a word or two."""
    if not client:
        return "not known to the director"
    if not client["enrolled"]:
        return "not enrolled"
    return "enrolled and connected" if client["connected"] else "enrolled and not connected"


def shown(state, groups):
    """State and groups, for the difference."""
    return "state: %s\ngroups: %s\n" % (state, ", ".join(groups) or "none")


def main():
    """Run as Ansible runs it."""
    module = AnsibleModule(
        argument_spec={
            **director_arguments(),
            "name": {"type": "str", "required": True},
            "state": {"type": "str", "choices": list(STATES), "default": "present"},
            "group": {"type": "str"},
            "lifetime": {"type": "str", "default": "1h"},
            "output": {"type": "path"},
            "new_client": {"type": "bool", "default": False},
            "connected": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 60},
            "ca": {"type": "path", "default": DEFAULT_FOLDER},
            "password_file": {"type": "path", "no_log": False},
            "command": {"type": "path", "default": "strongroom"},
        },
        mutually_exclusive=ONE_CREDENTIAL,
        supports_check_mode=True,
    )
    state = module.params["state"]
    try:
        task = Task(module)
        before = shown(state_of(task.client), task.client.get("groups", []))
        result = STATES[state](task)
        if not task.client and task.withdrawn:
            before = shown("may join by an enrolment token", task.withdrawn)
        if result["changed"] and not module.check_mode:
            task.client = task.known()
    except (DirectorError, AuthorityError) as error:
        module.fail_json(msg=str(error), error_id=error.error_id)
    after = before
    if result["changed"]:
        after = {
            "present": shown(
                "may join by an enrolment token", [module.params["group"]] if module.params["group"] else []
            ),
            "revoked": before.replace("state: ", "state: revoked, was "),
            "absent": shown(state_of({}), []),
        }[state]
    module.exit_json(client=task.client, diff={"before": before, "after": after}, **result)


if __name__ == "__main__":
    main()
