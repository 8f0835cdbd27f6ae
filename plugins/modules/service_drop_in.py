#!/usr/bin/python
# Copyright: Strongroom
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)

from __future__ import annotations

DOCUMENTATION = r"""
module: service_drop_in
short_description: Put a drop-in of a daemon in place that the daemon comes up with
version_added: 0.9.0
description:
  - Writes a drop-in of the unit of a daemon of Strongroom, such as its priority and limits of memory, has systemd read
    it, and has the daemon restarted when no job of it runs.
  - If the daemon does not come up with it, the drop-in of before is put back, the daemon is started with that, and the
    task fails with the reason. While a job runs the task does not wait; the host itself puts it back then, if it must.
author:
  - Strongroom (@strongroom)
options:
  daemon:
    description: Whose drop-in it is.
    type: str
    choices: [agent, director]
    required: true
  name:
    description: Name of the drop-in, without C(.conf).
    type: str
    default: 50-inventory
  content:
    description: Its whole text.
    type: str
    required: true
  folder:
    description: Folder of units.
    type: path
    default: /etc/systemd/system
attributes:
  check_mode:
    description: Can run without changing anything, and says what would change.
    support: full
  diff_mode:
    description: Shows the drop-in before and after.
    support: full
"""

EXAMPLES = r"""
- name: Not more than half a gigabyte for the agent
  strongroom.backup.service_drop_in:
    daemon: agent
    content: |
      [Service]
      MemoryMax=512M
"""

RETURN = r"""
waiting:
  description: Whether a job runs, so that the daemon is restarted later.
  returned: always
  type: bool
"""

import os
import tempfile
import time

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.common.text.converters import to_bytes, to_text

BUSY = "/usr/libexec/strongroom/restart-when-idle"
# A daemon that cannot start is tried for a while, and started once more with what it had.
PATIENCE_SECONDS = 120
PAUSE_SECONDS = 0.5
JOURNAL_LINES = "40"


def text_of(path):
    """The text of a file; None where there is none."""
    try:
        with open(path, "rb") as file:
            return to_text(file.read())
    except FileNotFoundError:
        return None


def put(module, path, text):
    """Write a file in one step."""
    os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
    descriptor, part = tempfile.mkstemp(dir=module.tmpdir)
    with os.fdopen(descriptor, "wb") as file:
        file.write(to_bytes(text))
    os.chmod(part, 0o644)
    module.atomic_move(part, path)


class Daemon:
    """A daemon with its unit, and the unit that restarts it when no job runs."""

    def __init__(self, module):
        self.module = module
        self.name = module.params["daemon"]
        self.unit = "strongroom-%s.service" % self.name
        self.restart_unit = "strongroom-restart@%s.service" % self.name
        self.systemctl = module.get_bin_path("systemctl", required=True)

    def state(self, unit):
        """Its state in one word, such as active."""
        _code, output, _error = self.module.run_command(
            [self.systemctl, "show", "--property=ActiveState", "--value", unit]
        )
        return output.strip()

    def read_units(self):
        """Have systemd read its files."""
        self.module.run_command([self.systemctl, "daemon-reload"], check_rc=True)

    def has_job(self):
        """Whether a job runs; an older package cannot say, and would restart the daemon."""
        if "is-busy" not in (text_of(BUSY) or ""):
            return False
        return self.module.run_command([BUSY, self.name, "is-busy"])[0] == 0

    def restart(self):
        """Have it restarted when no job runs, and wait for that; False if a job runs."""
        is_busy = self.has_job()
        self.module.run_command([self.systemctl, "restart", "--no-block", self.restart_unit], check_rc=True)
        end = time.monotonic() + PATIENCE_SECONDS
        while not is_busy and time.monotonic() < end:
            time.sleep(PAUSE_SECONDS)
            if self.state(self.restart_unit) in ("inactive", "failed"):
                return True
        return False

    def reason(self):
        """Why it did not come up, as systemd says."""
        words = [
            "journalctl",
            "--no-pager",
            "--quiet",
            "--output=cat",
            "--lines=" + JOURNAL_LINES,
            "--unit=" + self.unit,
        ]
        _code, output, _error = self.module.run_command(words)
        lines = [
            line
            for line in output.splitlines()
            if "Failed with result" in line or line.startswith("strongroom: error ")
        ]
        return lines[-1] if lines else "it gave no reason"


def main():
    """Run as Ansible runs it."""
    module = AnsibleModule(
        argument_spec={
            "daemon": {"type": "str", "choices": ["agent", "director"], "required": True},
            "name": {"type": "str", "default": "50-inventory"},
            "content": {"type": "str", "required": True},
            "folder": {"type": "path", "default": "/etc/systemd/system"},
        },
        supports_check_mode=True,
    )
    wanted, name = module.params["content"], module.params["name"]
    path = os.path.join(module.params["folder"], "strongroom-%s.service.d" % module.params["daemon"], name + ".conf")
    before = text_of(path)
    result = {
        "changed": before != wanted,
        "waiting": False,
        "diff": {"before_header": path, "after_header": path, "before": before or "", "after": wanted},
    }
    if before == wanted or module.check_mode:
        module.exit_json(**result)
    daemon = Daemon(module)
    was_running = daemon.state(daemon.unit) == "active"
    # One that waits since an earlier change knows what the daemon last came up with.
    if was_running and not os.path.exists(path + ".before"):
        put(module, path + ".before", before or "")
    put(module, path, wanted)
    daemon.read_units()
    if was_running:
        result["waiting"] = not daemon.restart()
    if text_of(path) != wanted:
        module.fail_json(
            msg="the limits of before were put back, for the %s did not come up with the new ones: %s; see "
            "`journalctl -u %s`" % (daemon.name, daemon.reason(), daemon.unit)
        )
    module.exit_json(**result)


if __name__ == "__main__":
    main()
