#!/usr/bin/python
# Copyright: Strongroom
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)

from __future__ import annotations

DOCUMENTATION = r"""
module: configuration_files
short_description: Put files of the configuration in place that are right together
version_added: 0.1.0
description:
  - Tries files out together with all others of the configuration, by C(strongroom config check) on a copy. Only if it
    finds no error are they put in place. So a value that the check refuses reaches no daemon, and neither does a
    name that no file defines.
  - Reloading is left to a handler.
author:
  - Strongroom (@strongroom)
options:
  path:
    description: Folder of the configuration.
    type: path
    default: /etc/strongroom
  files:
    description: Text of each file, by its path in the folder, such as C(director.d/jobdefs/groups.conf).
    type: dict
    default: {}
  absent:
    description: Files that are not to be there, by their paths in the folder.
    type: list
    elements: str
    default: []
  command:
    description: The command of Strongroom. In check mode nothing is tried out where it is not installed yet.
    type: str
    default: strongroom
attributes:
  check_mode:
    description: Can run without changing anything, and says what would change.
    support: full
  diff_mode:
    description: Shows each file before and after.
    support: full
"""

EXAMPLES = r"""
- name: When backups begin
  strongroom.backup.configuration_files:
    files:
      director.d/schedule/nightly.conf: |
        Schedule { Name = Nightly; Run = Incremental daily at 21:00; }
  notify: Reload the director
"""

RETURN = r"""
written:
  description: Paths of the files that were written.
  returned: always
  type: list
  elements: str
removed:
  description: Paths of the files that were removed.
  returned: always
  type: list
  elements: str
"""

import os
import shutil
import tempfile

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.common.text.converters import to_bytes, to_text

MODE = 0o644


def inside(module, name):
    """A path in the folder, refused if it leads out of it."""
    if os.path.isabs(name) or ".." in name.split("/") or not name.endswith(".conf"):
        module.fail_json(msg="%s: name a file ending with .conf by its path in the folder" % name)
    return name


def text_of(path):
    """The text of a file; None where there is none."""
    try:
        with open(path, "rb") as file:
            return to_text(file.read())
    except FileNotFoundError:
        return None


def write(module, path, text):
    """Write a file in one step."""
    os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
    descriptor, part = tempfile.mkstemp(dir=module.tmpdir)
    with os.fdopen(descriptor, "wb") as file:
        file.write(to_bytes(text))
    module.atomic_move(part, path)
    os.chmod(path, MODE)


def try_out(module, top, changes):
    """Check a copy of the configuration with the changes; fail on what is found."""
    copy = tempfile.mkdtemp(dir=module.tmpdir)
    planned = os.path.join(copy, os.path.basename(top) or "strongroom")
    if os.path.isdir(top):
        shutil.copytree(top, planned, symlinks=True)
    for name, text in changes.items():
        path = os.path.join(planned, name)
        if text is None:
            os.unlink(path)
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(to_bytes(text))
    program = module.get_bin_path(module.params["command"])
    if program is None:
        if module.check_mode:
            return
        module.fail_json(msg="%s is not installed here" % module.params["command"])
    code, said, error = module.run_command([program, "--quiet", "config", "check", planned])
    if code != 0:
        told = (said + error).replace(planned, top).strip()
        module.fail_json(msg="nothing was changed, for the configuration would not be right: " + told)


def main():
    """Run as Ansible runs it."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "default": "/etc/strongroom"},
            "files": {"type": "dict", "default": {}},
            "absent": {"type": "list", "elements": "str", "default": []},
            "command": {"type": "str", "default": "strongroom"},
        },
        supports_check_mode=True,
    )
    top = module.params["path"].rstrip("/")
    wanted = {inside(module, name): None for name in module.params["absent"]}
    wanted.update({inside(module, name): to_text(text) for name, text in module.params["files"].items()})
    before = {name: text_of(os.path.join(top, name)) for name in wanted}
    changes = {name: text for name, text in sorted(wanted.items()) if text != before[name]}
    if changes:
        try_out(module, top, changes)
    if not module.check_mode:
        for name, text in changes.items():
            if text is None:
                os.unlink(os.path.join(top, name))
            else:
                write(module, os.path.join(top, name), text)
    module.exit_json(
        changed=bool(changes),
        written=[os.path.join(top, name) for name, text in changes.items() if text is not None],
        removed=[os.path.join(top, name) for name, text in changes.items() if text is None],
        diff=[
            {
                "before_header": os.path.join(top, name),
                "after_header": os.path.join(top, name),
                "before": before[name] or "",
                "after": text or "",
            }
            for name, text in changes.items()
        ],
    )


if __name__ == "__main__":
    main()
