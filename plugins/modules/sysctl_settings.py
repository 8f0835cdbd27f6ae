#!/usr/bin/python
# Copyright: Strongroom
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)

from __future__ import annotations

DOCUMENTATION = r"""
module: sysctl_settings
short_description: Keep a group of kernel settings in one file, and in effect
version_added: 0.9.0
description:
  - Writes one file in C(/etc/sysctl.d) and brings the kernel in line with it, in one step.
  - The value that the kernel had before is kept. It is put back when a setting is no longer wanted, so going back to an
    earlier inventory needs no restart.
  - The kernel itself checks the values. If it says that one is not valid, all are put back and no file is changed.
  - A setting that a later file makes is left to that file, and reported as such.
author:
  - Strongroom (@strongroom)
options:
  name:
    description: Name of the file, with the number that decides its place and without C(.conf).
    type: str
    required: true
  settings:
    description: The settings and their values. Values are compared number by number, so blanks and tabs are alike.
    type: dict
    default: {}
  comment:
    description: First line of the file.
    type: str
    default: Managed by Ansible (strongroom.backup).
  state:
    description:
      - V(present) makes the file hold exactly O(settings).
      - V(absent) removes it, and puts back what the kernel had before.
    type: str
    choices: [present, absent]
    default: present
  root:
    description: Work on the system below this folder, such as a mounted image.
    type: path
    default: /
attributes:
  check_mode:
    description: Can run without changing anything, and says what would change.
    support: full
  diff_mode:
    description: Shows the file and the effective values before and after.
    support: full
"""

EXAMPLES = r"""
- name: Large TCP buffers
  strongroom.backup.sysctl_settings:
    name: 95-strongroom-tuning
    settings:
      net.ipv4.tcp_rmem: 4096 131072 16777216
      net.ipv4.tcp_wmem: 4096 16384 16777216

- name: As it was before
  strongroom.backup.sysctl_settings:
    name: 95-strongroom-tuning
    state: absent
"""

RETURN = r"""
report:
  description: Each setting, wanted beside effective.
  returned: always
  type: list
  elements: dict
  contains:
    setting:
      description: Name of the setting.
      type: str
    wanted:
      description: The value asked for.
      type: str
    effective:
      description: The value in the kernel now; empty if the kernel has no such setting.
      type: str
    state:
      description:
        - C(as wanted), C(to change) in check mode, C(overridden) by a later file, C(refused) by the kernel (in a
          container, most settings are the host's), or C(unknown) to the kernel.
      type: str
    note:
      description: The later file, or the kernel's reason.
      type: str
path:
  description: The file.
  returned: always
  type: str
"""

import errno
import json
import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.strongroom.backup.plugins.module_utils import sysctl

MEMORY = "var/lib/strongroom-tuning"


class Group:
    """One run: what the file says, what the kernel has, and what it had before."""

    def __init__(self, module):
        self.module = module
        self.host = sysctl.Settings(module.params["root"])
        name = module.params["name"]
        self.path = os.path.join(module.params["root"], "etc/sysctl.d", name + ".conf")
        self.memory_path = os.path.join(module.params["root"], MEMORY, name + ".json")
        self.wanted = wanted_of(module)
        self.changed = False
        self.before, self.after = {}, {}
        self.refused = {}
        self.not_valid = []

    def run(self):
        """Do it; what the task returns."""
        old_text = self._read(self.path)
        new_text = ""
        if self.module.params["state"] == "present":
            new_text = sysctl.render(self.wanted, self.module.params["comment"])
        remembered = json.loads(self._read(self.memory_path) or "{}")
        overridden = self.host.overrides(self.path)
        self._remember(remembered)
        self._give_back(remembered, overridden)
        self._apply(overridden)
        self._fail_if_not_valid()
        if old_text != new_text:
            self.changed = True
            self._put(self.path, new_text)
        # Only now: had a step before failed, the next run would still know the values of before.
        if self.refused and not self.in_container():
            listed = ", ".join("%s: %s" % pair for pair in sorted(self.refused.items()))
            self.module.warn("the kernel refused " + listed)
        kept = {name: value for name, value in remembered.items() if name in self.wanted}
        self._put(self.memory_path, json.dumps(kept, sort_keys=True) + "\n" if kept else "")
        return {
            "changed": self.changed,
            "path": self.path,
            "report": [self._report(name, overridden) for name in sorted(self.wanted)],
            "diff": [
                {"before_header": self.path, "before": old_text, "after": new_text},
                {
                    "before_header": "effective",
                    "before": sysctl.render(self.before, ""),
                    "after": sysctl.render(self.after, ""),
                },
            ],
        }

    def in_container(self):
        """Whether most settings are those of another host, as systemd says."""
        return os.path.exists(os.path.join(self.module.params["root"], "run/systemd/container"))

    def _remember(self, remembered):
        """Keep the values of before, and write them down before anything is changed."""
        for name in self.wanted:
            value = self.host.read(name)
            if name in remembered or value is None:
                continue
            ratio = sysctl.RATIO_OF.get(name)
            remembered[name] = [name, value]
            if ratio and value == "0":
                remembered[name] = [ratio, self.host.read(ratio)]
        self._put(self.memory_path, json.dumps(remembered, sort_keys=True) + "\n" if remembered else "")

    def _give_back(self, remembered, overridden):
        for name, (place, value) in sorted(remembered.items()):
            if name not in self.wanted and name not in overridden and value is not None:
                self._set(place, value)

    def _apply(self, overridden):
        for name, value in sorted(self.wanted.items()):
            if name not in overridden and self.host.read(name) is not None:
                self._set(name, value)

    def _set(self, name, value):
        effective = self.host.read(name)
        if effective == value:
            return
        if self.module.check_mode and not os.access(self.host.value_path(name), os.W_OK):
            self.refused[name] = "it cannot be written"
            return
        if not self.module.check_mode:
            try:
                self.host.write(name, value)
            except OSError as error:
                self.refused[name] = error.strerror or str(error)
                if error.errno == errno.EINVAL:
                    self.not_valid.append(name)
                return
            if self.host.read(name) != value:
                self.refused[name] = "the kernel made it %s" % self.host.read(name)
                return
        self.before[name], self.after[name] = effective, value
        self.changed = True

    def _fail_if_not_valid(self):
        if not self.not_valid:
            return
        for name, value in self.before.items():
            self.host.write(name, value)
        listed = ", ".join("%s = %s" % (name, self.wanted[name]) for name in self.not_valid)
        self.module.fail_json(msg="the kernel does not take %s; nothing was changed, correct the inventory" % listed)

    def _report(self, name, overridden):
        wanted, effective = self.wanted[name], self.host.read(name)
        state, note = "as wanted", ""
        if effective is None:
            state, note = "unknown", "the kernel has no such setting"
        elif name in overridden and overridden[name][1] != wanted:
            state, note = "overridden", overridden[name][0]
        elif self.module.check_mode and name in self.after:
            state = "to change"
        elif effective != wanted:
            state, note = "refused", self.refused.get(name, "")
        return {
            "setting": name,
            "wanted": wanted,
            "effective": effective or "",
            "state": state,
            "note": note,
        }

    def _read(self, path):
        try:
            with open(path, encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def _put(self, path, text):
        """Make the file hold this text; no text, no file."""
        if self.module.check_mode or self._read(path) == text:
            return
        if not text:
            os.unlink(path)
            return
        os.makedirs(os.path.dirname(path), exist_ok=True)
        temporary = path + ".new"
        with open(temporary, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o644)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)


def wanted_of(module):
    """The settings asked for, checked."""
    if module.params["state"] == "absent":
        return {}
    wanted = {}
    for name, value in module.params["settings"].items():
        if not sysctl.NAME.match(name):
            module.fail_json(msg="%r is not a name of a kernel setting; one is net.core.rmem_max" % name)
        if isinstance(value, (dict, list, bool)) or value is None or "\n" in str(value):
            module.fail_json(msg="%s: %r is not a value of a kernel setting; give numbers or words" % (name, value))
        wanted[name.replace("/", ".")] = sysctl.normal(value)
    return wanted


def main():
    """Run as Ansible runs it."""
    # Folders that are missing can be entered by daemons, whatever the host has for its users.
    os.umask(0o022)
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "settings": {"type": "dict", "default": {}},
            "comment": {"type": "str", "default": "Managed by Ansible (strongroom.backup)."},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    if "/" in module.params["name"]:
        module.fail_json(msg="name: give the name of a file without its folder and without .conf")
    module.exit_json(**Group(module).run())


if __name__ == "__main__":
    main()
