#!/usr/bin/python
# Copyright: Strongroom
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)

from __future__ import annotations

DOCUMENTATION = r"""
module: configuration_files
short_description: Put files of the configuration in place that are right together
version_added: 0.9.0
description:
  - Tries files out together with all others of the configuration, by C(strongroom config check) on a copy. Only if it
    finds no error are they put in place. So a value that the check refuses reaches no daemon, and neither does a
    name that no file defines.
  - With O(reload) the daemon then reads them again. If it refuses them, or does not answer, the files of before are put
    back, the daemon reads those, and the task fails with the reason.
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
  reload:
    description:
      - The daemon that works with the files. Without it, no one is notified that they have changed.
      - V(director) is the one that C(strongroom reload) reaches, V(agent) the service C(strongroom-agent), which is
        started if it does not run.
    type: str
    choices: [director, agent]
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
    reload: director
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

import json
import os
import re
import shutil
import tempfile
import time

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.common.text.converters import to_bytes, to_text

MODE = 0o644
AGENT = "strongroom-agent.service"
# A reload takes a moment; on a machine that swaps, some seconds.
PATIENCE_SECONDS = 20
PAUSE_SECONDS = 0.2


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
    code, output, error = module.run_command([program, "--quiet", "config", "check", planned])
    if code != 0:
        shown = (output + error).replace(planned, top).strip()
        module.fail_json(msg="nothing was changed, for the configuration would not be right: " + shown)


def put(module, top, texts):
    """Write these files, and remove those that have no text."""
    for name, text in texts.items():
        path = os.path.join(top, name)
        if text is not None:
            write(module, path, text)
        elif os.path.lexists(path):
            os.unlink(path)


def reason(output, error):
    """The first error that a command reported, without its id."""
    lines = [line for line in (error + output).splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("strongroom: error ")]
    line = (errors or lines or ["it gave no reason"])[0]
    return re.sub(r"^strongroom: error \[[^]]*\]: ", "", line)


def reload_director(module, program):
    """Have it read its files; why it does not, or nothing."""
    code, output, error = module.run_command([program, "--json", "reload"])
    return "" if code == 0 else reason(output, error) + "; see `systemctl status strongroom-director`"


def last_reading(shown):
    """When the agent last read its files, or tried to. An agent of an older version says only the first."""
    return shown.get("configuration_tried", shown.get("configuration_read", ""))


def reload_agent(module, program, top):
    """Have it read its files; why it does not, or nothing."""

    def ask():
        code, output, error = module.run_command([program, "--json", "agent", "--config", top, "show"])
        return (json.loads(output), "") if code == 0 else ({}, reason(output, error))

    before = last_reading(ask()[0])
    systemctl = module.get_bin_path("systemctl", required=True)
    code, output, error = module.run_command([systemctl, "reload-or-restart", AGENT])
    if code != 0:
        return reason(output, error)
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        shown, why = ask()
        if last_reading(shown) not in ("", before):
            return shown.get("configuration_refused", "")
        time.sleep(PAUSE_SECONDS)
    return (why or "it has not read them after %d s" % PATIENCE_SECONDS) + "; see `systemctl status %s`" % AGENT


def reload(module, top):
    """Have the daemon read its files; why it does not, or nothing."""
    program = module.get_bin_path(module.params["command"], required=True)
    if module.params["reload"] == "director":
        return reload_director(module, program)
    return reload_agent(module, program, top)


def main():
    """Run as Ansible runs it."""
    # Folders that are missing can be entered by daemons, whatever the host has for its users.
    os.umask(0o022)
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "default": "/etc/strongroom"},
            "files": {"type": "dict", "default": {}},
            "absent": {"type": "list", "elements": "str", "default": []},
            "reload": {"type": "str", "choices": ["director", "agent"]},
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
    if changes and not module.check_mode:
        put(module, top, changes)
        why = reload(module, top) if module.params["reload"] else ""
        if why:
            put(module, top, {name: before[name] for name in changes})
            reload(module, top)
            module.fail_json(
                msg="the files of before were put back, for the %s did not take the new ones: %s"
                % (module.params["reload"], why)
            )
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
