# Copyright: Strongroom
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A token with which clients join."""

from __future__ import annotations

DOCUMENTATION = r"""
name: enrolment_token
short_description: Make an enrolment token
version_added: 0.9.0
author: Strongroom (@strongroom)
description:
  - Makes a token with C(strongroom ca token) where the authority is, and gives its text, with which C(strongroom agent
    join) makes a machine a client.
  - One token is made for a run of Ansible and the same arguments, however often and by however many hosts it is asked
    for. Until the run has ended it is in a file in Ansible's temporary folder of that run, which only its owner may
    read.
  - In check mode no token is made, and the text is V(none-in-check-mode).
options:
  _terms:
    description: Names of clients, each of which gets its own token. Without any, give O(names) or O(any_name).
    type: list
    elements: str
  group:
    description: The group whose jobs a client gets when it joins (Client Group of JobDefs).
    type: str
  names:
    description: A pattern of names, such as V(web*), that the token is good for.
    type: str
  any_name:
    description: The token is good for any name.
    type: bool
    default: false
  uses:
    description: For how many names it is good.
    type: int
    default: 1
  lifetime:
    description: How long it is good, such as V(15min), V(1h) or V(2d).
    type: str
    default: 1h
  ca:
    description: The authority's folder, where the command runs.
    type: str
    default: /var/lib/strongroom/ca
  password_file:
    description: A file with the passphrase of the authority's key, if it has one, where the command runs.
    type: str
  command:
    description:
      - The words that the engine's command begins with. It runs on the controller, so a command that reaches the
        appliance is needed where the authority is not on the controller.
      - If the first word is C(ssh), what follows these words is quoted for the shell at the other end.
    type: list
    elements: str
    default: [strongroom]
notes:
  - The text is a secret. This plugin writes it to no log and to no message, but Ansible shows arguments of tasks, so
    give the task that uses it C(no_log=true), and hand it to the command on standard input.
seealso:
  - module: strongroom.backup.strongroom_client
"""

EXAMPLES = r"""
- name: Join with a token that is for 20 machines
  ansible.builtin.command:
    argv: [strongroom, agent, join, https://vault.example.org, --token-file, "-"]
    stdin: "{{ lookup('strongroom.backup.enrolment_token', names='web*', uses=20, group='servers', command=at_vault) }}"
    creates: /etc/strongroom/agent.d
  vars:
    at_vault: [ssh, root@vault.example.org, strongroom]
  no_log: true
"""

RETURN = r"""
_raw:
  description: The text of each token.
  type: list
  elements: str
"""

import fcntl
import hashlib
import json
import os
import shlex
import subprocess

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase
from ansible_collections.strongroom.backup.plugins.module_utils.authority import (
    Authority,
    AuthorityError,
    token_options,
)
from ansible_collections.strongroom.backup.plugins.plugin_utils.untrusted import untrusted

from ansible import constants

NONE = "none-in-check-mode"
TIMEOUT_SECONDS = 120


def run_command(words, command):
    """Run a command of the controller, whose first words are `command`; exit code, output, messages."""
    if os.path.basename(command[0]) == "ssh":
        # A shell at the other end splits them again.
        words = [*command, *[shlex.quote(word) for word in words[len(command) :]]]
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
        )
    except OSError as error:
        raise AuthorityError(
            "%s cannot be run on this machine: %s; say with command= how the engine's command is run where the "
            "authority is" % (words[0], error.strerror)
        ) from error
    except subprocess.TimeoutExpired as error:
        raise AuthorityError("%s did not end within %d s" % (words[0], TIMEOUT_SECONDS)) from error
    return done.returncode, done.stdout, done.stderr


def once(arguments, make):
    """What `make` gives, made once for a run of Ansible and these arguments: its workers are their own processes."""
    digest = hashlib.sha256(json.dumps(arguments, sort_keys=True).encode("utf-8")).hexdigest()
    # The folder is made anew for each run, for its owner only, and removed at its end.
    path = os.path.join(constants.DEFAULT_LOCAL_TMP, "strongroom-token-" + digest)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with open(descriptor, "r+", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        text = file.read()
        if not text:
            text = make()
            file.write(text)
        return text


class LookupModule(LookupBase):
    """The lookup."""

    def run(self, terms, variables=None, **kwargs):
        """The texts of the tokens."""
        self.set_options(var_options=variables, direct=kwargs)
        options = self.get_options()
        if bool(terms) + bool(options["names"]) + bool(options["any_name"]) != 1:
            raise AnsibleError("enrolment_token: give names of clients, or names=PATTERN, or any_name=true")
        if terms and options["uses"] != 1:
            raise AnsibleError("enrolment_token: uses is for tokens of names=PATTERN or any_name=true")
        if (variables or {}).get("ansible_check_mode"):
            return [NONE for _term in terms or [None]]
        return untrusted([self.token(options, str(term) if term else None) for term in terms or [None]])

    def token(self, options, name):
        """The text of one token."""
        chosen = {key: options[key] for key in ("names", "any_name", "group", "uses", "lifetime")}
        place = [options["command"], options["ca"], options["password_file"]]
        authority = Authority(lambda words: run_command(words, options["command"]), *place)
        try:
            return once([name, chosen, place], lambda: authority.token(token_options(name=name, **chosen))["token"])
        except AuthorityError as error:
            raise AnsibleError("enrolment_token: %s" % error) from error
