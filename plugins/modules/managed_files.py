#!/usr/bin/python
# Copyright: Strongroom
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)

from __future__ import annotations

DOCUMENTATION = r"""
module: managed_files
short_description: Put several files in place, or away, in one step
version_added: 0.9.0
description:
  - Brings all files of a role in line with one connection, where a task a file would take one each. A fleet of many
    hosts is done sooner.
  - Every file that differs is validated before the first is written, so a value that is refused changes nothing.
  - Files belong to root. Folders that are missing are made.
author:
  - Strongroom (@strongroom)
options:
  files:
    description: What is to be there.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Where it is.
        type: path
        required: true
      content:
        description: The whole text.
        type: str
        required: true
      mode:
        description: Its permissions, as an octal number in quotes.
        type: str
        default: "0644"
      validate:
        description: >-
          A command that checks the text first, with C(%s) for the name of a file that holds it. In check mode it is
          left out where its program is not installed yet.
        type: str
        default: ""
  absent:
    description: Files that are not to be there.
    type: list
    elements: path
    default: []
attributes:
  check_mode:
    description: Can run without changing anything, and says what would change.
    support: full
  diff_mode:
    description: Shows each file before and after.
    support: full
"""

EXAMPLES = r"""
- name: Load the module at every start, and no longer the other
  strongroom.backup.managed_files:
    files:
      - path: /etc/modules-load.d/tls.conf
        content: "tls\n"
    absent:
      - /etc/modules-load.d/other.conf
"""

RETURN = r"""
written:
  description: Paths of the files that were written, or whose permissions were set.
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
import shlex
import stat
import tempfile

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.common.text.converters import to_bytes, to_text

FOLDER_MODE = 0o755


def state_of(path):
    """Text and permissions of a file; nothing of either where there is none."""
    try:
        with open(path, "rb") as file:
            return to_text(file.read()), stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    except FileNotFoundError:
        return None, None


def mode_of(module, wanted):
    """The permissions as a number."""
    try:
        return int(wanted["mode"], 8)
    except ValueError:
        return module.fail_json(
            msg="%s: mode %r is not an octal number; one is '0644'" % (wanted["path"], wanted["mode"])
        )


def prepare(module, wanted):
    """A file beside none, with the text, that was validated."""
    descriptor, part = tempfile.mkstemp(dir=module.tmpdir)
    with os.fdopen(descriptor, "wb") as file:
        file.write(to_bytes(wanted["content"]))
    command = wanted["validate"]
    if not command:
        return part
    if "%s" not in command:
        module.fail_json(msg="%s: validate has no %%s for the name of the file" % wanted["path"])
    words = shlex.split(command)
    if module.check_mode and module.get_bin_path(words[0]) is None:
        return part
    code, output, error = module.run_command([word.replace("%s", part) for word in words])
    if code != 0:
        messages = (error + output).replace(part, wanted["path"]).strip()
        module.fail_json(msg="nothing was changed, for %s would not be right: %s" % (wanted["path"], messages))
    return part


def put(module, part, wanted, mode):
    """Put a prepared file in place in one step."""
    os.makedirs(os.path.dirname(wanted["path"]), FOLDER_MODE, exist_ok=True)
    os.chmod(part, mode)
    module.atomic_move(part, wanted["path"])
    os.chmod(wanted["path"], mode)


def main():
    """Run as Ansible runs it."""
    # Folders that are missing can be entered by daemons, whatever the host has for its users.
    os.umask(0o022)
    module = AnsibleModule(
        argument_spec={
            "files": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "path": {"type": "path", "required": True},
                    "content": {"type": "str", "required": True},
                    "mode": {"type": "str", "default": "0644"},
                    "validate": {"type": "str", "default": ""},
                },
            },
            "absent": {"type": "list", "elements": "path", "default": []},
        },
        supports_check_mode=True,
    )
    written, removed, diff, prepared = [], [], [], []
    for wanted in module.params["files"]:
        mode = mode_of(module, wanted)
        text, before = state_of(wanted["path"])
        if (text, before) != (wanted["content"], mode):
            prepared.append((prepare(module, wanted), wanted, mode))
            written.append(wanted["path"])
            diff.append(
                {
                    "before_header": wanted["path"],
                    "after_header": wanted["path"],
                    "before": text or "",
                    "after": wanted["content"],
                }
            )
    for path in module.params["absent"]:
        text, before = state_of(path)
        if before is not None:
            removed.append(path)
            diff.append({"before_header": path, "after_header": path, "before": text, "after": ""})
    if not module.check_mode:
        for part, wanted, mode in prepared:
            put(module, part, wanted, mode)
        for path in removed:
            os.unlink(path)
    module.exit_json(changed=bool(written or removed), written=written, removed=removed, diff=diff)


if __name__ == "__main__":
    main()
