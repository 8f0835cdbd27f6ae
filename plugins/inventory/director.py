# Copyright: Strongroom
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The clients of a director as an inventory."""

from __future__ import annotations

DOCUMENTATION = r"""
name: director
short_description: The clients of a director
version_added: 0.9.0
author: Strongroom (@strongroom)
description:
  - Reads hosts from a director's API, or from its configuration (C(director.d), or C(bareos-dir.d) of Bareos).
  - The inventory file ends in C(strongroom.yml) or C(strongroom.yaml).
  - Each client is a host, with what is known of it in C(strongroom_client). Its C(ansible_host) is the address that its
    agent is connected from, and otherwise the one that is configured; O(compose) can say another. Anyone who has an
    agent's key chooses that address, so leave Ansible's check of host keys on.
  - Hosts are in a group for each Client Group of their jobs, C(group_NAME), and in C(tls_off), C(tls_tls), C(tls_ktls)
    or C(tls_ktls_required); from a tree in C(tls_auto) where the agent decides.
  - From the API they are in C(connected) or C(offline) too, in C(late) if a job is missing, overdue or late, and in
    C(failed) if one failed and has not succeeded since.
  - A tree is read with the engine's own grammar (C(strongroom config show)), which must be on the controller. It tells
    what is configured, and not what is connected.
extends_documentation_fragment:
  - constructed
  - inventory_cache
options:
  plugin:
    description: This plugin.
    type: str
    required: true
    choices: [strongroom.backup.director]
  director:
    description:
      - Where the director is, C(https://NAME) or C(https://NAME:PORT), by a name that is in its certificate.
      - Without it and without O(tree), director, credential and authority are what
        C(~/.config/strongroom/console.toml) says.
    type: str
    env:
      - name: STRONGROOM_DIRECTOR
  token:
    description: A token of the API, as C(strongroom token create) makes it.
    type: str
    env:
      - name: STRONGROOM_TOKEN
  token_file:
    description: A file with such a token.
    type: path
  identity:
    description: A folder with C(certificate.pem), C(key.pem) and C(authority.pem), of the role operator.
    type: path
  authority:
    description: A file with the certificate of the authority that the director must be of.
    type: path
  tree:
    description: A folder C(director.d) or C(bareos-dir.d), or one such as C(/etc/bareos), instead of an API.
    type: path
  command:
    description: The engine's command, for O(tree).
    type: str
    default: strongroom
  parent:
    description: A group that all hosts are in. With V(agents) the collection's playbooks find them.
    type: str
    default: agents
  only_enrolled:
    description: Leave out clients that never had a certificate of this director. From a tree this is not known.
    type: bool
    default: true
"""

EXAMPLES = r"""
# clients.strongroom.yml
plugin: strongroom.backup.director
director: https://vault.example.org
token_file: ~/.config/strongroom/token
authority: ~/.config/strongroom/authority.pem
compose:
  ansible_user: "'root'"
groups:
  old_agents: strongroom_client.version is version('0.2.0', '<')
keyed_groups:
  - key: strongroom_client.version
    prefix: version
cache: true
cache_plugin: ansible.builtin.jsonfile
cache_connection: ~/.cache/strongroom-ansible/inventory
cache_timeout: 60

# migrated.strongroom.yml
# plugin: strongroom.backup.director
# tree: /etc/bareos/bareos-dir.d
"""

import json
import os
import re
import shutil
import subprocess

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable
from ansible_collections.strongroom.backup.plugins.module_utils.director import PLACE, Director, DirectorError
from ansible_collections.strongroom.backup.plugins.module_utils.fleet import clients, groups_of_jobs
from ansible_collections.strongroom.backup.plugins.plugin_utils.untrusted import untrusted

from ansible import constants

ENDINGS = ("strongroom.yml", "strongroom.yaml")
TIMEOUT_SECONDS = 300
# What a name of a resource consists of. It is a host's name too, which Ansible takes for a template before 2.19.
NAME = re.compile(r"[A-Za-z0-9:._/ -]+")


def of_api(options):
    """Clients of a director by name."""
    try:
        return clients(Director(options))
    except DirectorError as error:
        raise AnsibleParserError(str(error)) from error


def of_tree(tree, command):
    """Clients of a configuration by name, as its engine reads it."""
    program = shutil.which(command)
    if program is None:
        raise AnsibleParserError(
            "%s is not in PATH here, and its grammar is needed to read %s: install the package strongroom on this "
            "machine, say where the command is with the option command, or ask the director's API" % (command, tree)
        )
    if not os.path.exists(tree):
        raise AnsibleParserError("tree: there is no %s" % tree)
    words = [program, "--json", "config", "show", "--set", "--config", tree, "director:"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    if done.returncode:
        raise AnsibleParserError("strongroom config show of %s: %s" % (tree, done.stderr.strip()[-2000:]))
    configuration = {}
    for line in done.stdout.splitlines():
        one = json.loads(line)
        values = {value["name"]: value["value"] for value in one.get("values", [])}
        configuration.setdefault(one["type"], {})[one["name"]] = values
    return clients_of(configuration)


def clients_of(configuration):
    """Clients of a configuration, with what it says of them."""
    groups = groups_of_jobs(configuration)
    found = {}
    for name, values in configuration.get("Client", {}).items():
        jobs = [
            job
            for job, directives in configuration.get("Job", {}).items()
            if directives.get("Client") == name and str(directives.get("Type", "")).lower() == "backup"
        ]
        found[name] = {
            "name": name,
            "address": values.get("Address", ""),
            "enabled": values.get("Enabled", True),
            "tls_mode": tls_mode_of(values),
            "jobs": jobs,
            "groups": sorted({group for job in jobs for group in groups.get(job, [])}),
        }
    return found


def tls_mode_of(values):
    """How a client is to be connected to storage, by its configuration; with `auto` that is the agent's matter."""
    if not values.get("TLS Enable", True):
        return "off"
    wanted = values.get("Enable kTLS", "auto")
    return {"require": "ktls-required", "yes": "ktls", "no": "tls"}.get(wanted, "auto")


def groups_of(client):
    """Names of the groups of a client, as they are before they are made fit for Ansible."""
    found = ["group_" + group for group in client["groups"]] + ["tls_" + client["tls_mode"]]
    if "connected" in client:
        found.append("connected" if client["connected"] else "offline")
        found += [name for name in ("late", "failed") if client[name]]
    return found


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    """The inventory."""

    NAME = "strongroom.backup.director"

    def verify_file(self, path):
        """Whether it is a file of this plugin."""
        return super().verify_file(path) and path.endswith(ENDINGS)

    def parse(self, inventory, loader, path, cache=True):
        """Add hosts and groups."""
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        self.load_cache_plugin()
        key = self.get_cache_key(path)
        caches = self.get_option("cache")
        found = self._cache.get(key) if caches and cache else None
        if found is None:
            found = self.ask()
            if caches:
                self._cache[key] = found
        # Not before: a cache does not keep the marks.
        known = untrusted(found)
        for name in sorted(found):
            client = known[name]
            if name in constants.LOCALHOST or not NAME.fullmatch(name):
                self.display.warning(
                    "the client %r is left out: tasks for a host of this name would run elsewhere; rename the client"
                    % name
                )
            elif client.get("enrolled") or "enrolled" not in client or not self.get_option("only_enrolled"):
                self.add(name, client)

    def ask(self):
        """Clients by name."""
        tree = self.get_option("tree")
        if not tree:
            return of_api({name: self.get_option(name) for name in (*PLACE, "token")})
        given = [name for name in ("token", "token_file", "identity") if self.get_option(name)]
        if given:
            raise AnsibleParserError("give either tree, or director with %s" % given[0])
        return of_tree(tree, self.get_option("command"))

    def add(self, name, client):
        """Add a host."""
        strict = self.get_option("strict")
        self.inventory.add_host(name)
        variables = {"strongroom_client": client, "ansible_host": client["address"] or name}
        for variable, value in variables.items():
            self.inventory.set_variable(name, variable, value)
        for group in [self.get_option("parent"), *groups_of(client)]:
            self.inventory.add_child(self.inventory.add_group(self._sanitize_group_name(group)), name)
        everything = {**self.inventory.get_host(name).get_vars(), **variables}
        self._set_composite_vars(self.get_option("compose"), everything, name, strict=strict)
        self._add_host_to_composed_groups(self.get_option("groups"), everything, name, strict=strict)
        self._add_host_to_keyed_groups(self.get_option("keyed_groups"), everything, name, strict=strict)
