# Copyright (c) Strongroom contributors
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The variables of hosts with our prefix, and where the inventory sets them; for plugins on the controller."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from ansible.errors import AnsibleError
from ansible_collections.strongroom.backup.plugins.module_utils.inventory_checks import PREFIX, UNKNOWN

# Variables besides ours that checks look at.
ADDRESS = "ansible_host"
SUFFIXES = ("", ".yml", ".yaml", ".json")
# What only a connection to the host can tell.
FACTS = re.compile(r"\bansible_|\bhostvars\b|\blookup\b|\bquery\b")


def variables_of(hostvars, host):
    """The variables of a host that are checked.

    One that cannot be computed is the error; UNKNOWN where that is no fault.
    """
    raw = hostvars.raw_get(host)
    found = {}
    for name in raw:
        if not (name.startswith(PREFIX) or name == ADDRESS):
            continue
        try:
            found[name] = hostvars[host][name]
            # ansible-core 2.17 leaves a template as it is where it cannot fill it in.
            if isinstance(found[name], str) and "{{" in found[name]:
                raise AnsibleError("it uses a variable that is not set")
        except AnsibleError as error:
            found[name] = UNKNOWN if FACTS.search(str(raw[name])) else error
    address = found.pop(ADDRESS, None)
    return Variables(found, address)


class Variables(dict):
    """Variables of a host, of which those with our prefix are listed, and the address is there."""

    def __init__(self, found, address):
        super().__init__(found)
        self._address = address

    def get(self, name, default=None):
        """A value, or the default."""
        if name == ADDRESS:
            return self._address
        return super().get(name, default)


class Places:
    """Where the inventory sets a variable: file and line, as Ansible's order of precedence finds it."""

    def __init__(self, task_vars, hostvars, extra):
        self._extra = extra
        self._hostvars = hostvars
        self._groups = task_vars["groups"]
        self._playbooks = Path(task_vars.get("playbook_dir", "."))
        self._sources = [Path(one) for one in task_vars.get("ansible_inventory_sources") or () if Path(one).exists()]
        self._keys = {}

    def of(self, host, variable):
        """FILE:LINE, or nothing where it is not found."""
        if variable in self._extra:
            return "-e on the command line"
        raw = self._hostvars.raw_get(host)
        bases, inventories = self._places(raw)
        same = [self._playbooks] if self._playbooks.resolve() not in [base.resolve() for base in bases] else []
        folders = [*same, *bases]
        for folder in folders:
            found = self._in_folder(folder / "host_vars", host, variable)
            if found:
                return self._place_text(*found, bases)
        in_inventory = [(file, *one) for file in inventories for one in self._keys_of(file).get(variable, [])]
        own = [(file, line) for file, path, line in in_inventory if host in path]
        if own:
            return self._place_text(*own[0], bases)
        # A group within another has fewer hosts.
        groups = sorted((name for name in self._groups if host in self._groups[name]), key=self._order)
        for group in groups:
            for folder in folders:
                found = self._in_folder(folder / "group_vars", group, variable)
                if found:
                    return self._place_text(*found, bases)
            inline = [(file, line) for file, path, line in in_inventory if path[-2:] == (group, "vars")]
            if inline:
                return self._place_text(*inline[0], bases)
        return self._place_text(in_inventory[0][0], in_inventory[0][2], bases) if in_inventory else ""

    def _places(self, raw):
        """Folders beside which variables are, and files of hosts, of all inventories; the last one given wins."""
        bases, files = [], []
        for source in reversed(self._sources):
            bases.append(source if source.is_dir() else source.parent)
            files += sorted(source.iterdir(), reverse=True) if source.is_dir() else [source]
        own = raw.get("inventory_file"), raw.get("inventory_dir")
        files += [Path(own[0])] if own[0] and Path(own[0]) not in files else []
        bases += [Path(own[1])] if own[1] and not bases else []
        return list(dict.fromkeys(bases)), files

    def _order(self, group):
        return (group == "all", len(self._groups[group]), group)

    def _in_folder(self, folder, name, variable):
        for suffix in SUFFIXES:
            path = folder / (name + suffix)
            files = sorted(path.rglob("*"), reverse=True) if path.is_dir() else [path]
            for file in files:
                found = self._keys_of(file).get(variable)
                if found:
                    return file, found[-1][1]
        return None

    def _keys_of(self, file):
        """Key -> pairs of the keys above it and its line."""
        if file not in self._keys:
            self._keys[file] = keys_with_lines(file)
        return self._keys[file]

    def _place_text(self, file, line, bases):
        """Within the inventory, where there is one."""
        if len(bases) == 1 and file.is_relative_to(bases[0]):
            file = file.relative_to(bases[0])
        return "%s:%d" % (file, line)


def keys_with_lines(file):
    """Keys of a file of variables with our prefix, of YAML or INI. A file that cannot be read has none."""
    try:
        text = file.read_text(encoding="utf-8") if file.is_file() else ""
    except (OSError, UnicodeDecodeError):
        return {}
    found = {}
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        root = None
    if isinstance(root, yaml.MappingNode):
        note_keys(root, (), found)
    else:
        for line, content in enumerate(text.splitlines(), 1):
            for match in re.finditer(r"\b(%s\w+|%s)\s*=" % (PREFIX, ADDRESS), content):
                found.setdefault(match.group(1), []).append(((content.split()[0],), line))
    return found


def note_keys(node, path, found):
    """Enter the keys below a node."""
    for key, value in node.value:
        name = str(key.value)
        if name.startswith(PREFIX) or name == ADDRESS:
            found.setdefault(name, []).append((path, key.start_mark.line + 1))
        elif isinstance(value, yaml.MappingNode) and len(path) < 40:
            note_keys(value, (*path, name), found)
