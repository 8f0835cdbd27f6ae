#!/usr/bin/python
# Copyright: Strongroom
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)

from __future__ import annotations

DOCUMENTATION = r"""
module: block_tunable
short_description: Set how the kernel queues and reads ahead on block devices
version_added: 0.9.0
description:
  - Sets scheduler, read-ahead and queue depth by kind of device, at once. A udev rule is what keeps them over a
    restart.
  - A value that is not given is left alone. Without any value the module only reports.
  - A value that the kernel does not take fails; where nothing can be written (in a container) that is reported.
author:
  - Strongroom (@strongroom)
options:
  kinds:
    description:
      - What to set, by kind of device.
      - Kinds are V(hdd) (rotating), V(ssd), V(nvme), V(virtual) (virtio, Xen) and V(array) (md, device mapper).
    type: dict
    default: {}
    suboptions: &kind
      hdd: &values
        description: Values of this kind.
        type: dict
        suboptions:
          scheduler:
            description: Name of the scheduler.
            type: str
          read_ahead_kib:
            description: Read-ahead in KiB.
            type: int
          queue_requests:
            description: Requests that the scheduler holds.
            type: int
      ssd: *values
      nvme: *values
      virtual: *values
      array: *values
  root:
    description: Work on the system below this folder.
    type: path
    default: /
attributes:
  check_mode:
    description: Can run without changing anything, and says what would change.
    support: full
  diff_mode:
    description: Shows the values before and after.
    support: full
"""

EXAMPLES = r"""
- name: Read ahead on rotating disks
  strongroom.backup.block_tunable:
    kinds:
      hdd:
        scheduler: mq-deadline
        read_ahead_kib: 4096

- name: What is in effect
  strongroom.backup.block_tunable:
  register: disks
"""

RETURN = r"""
devices:
  description: Every disk and array, with what is in effect after this task.
  returned: always
  type: list
  elements: dict
  contains:
    device:
      description: Name of the device.
      type: str
    kind:
      description: C(hdd), C(ssd), C(nvme), C(virtual) or C(array).
      type: str
    scheduler:
      description: Scheduler in effect.
      type: str
    schedulers:
      description: Schedulers that the kernel offers now.
      type: list
      elements: str
    read_ahead_kib:
      description: Read-ahead in KiB.
      type: int
    queue_requests:
      description: Requests that the scheduler holds.
      type: int
report:
  description: Each value asked for, wanted beside effective.
  returned: always
  type: list
  elements: dict
  contains:
    setting:
      description: Device and value, such as C(sda scheduler).
      type: str
    wanted:
      description: The value asked for.
      type: str
    effective:
      description: The value in the kernel now.
      type: str
    state:
      description: C(as wanted), C(to change) in check mode, or C(refused).
      type: str
    note:
      description: The kernel's reason.
      type: str
"""

import errno
import os
import re

from ansible.module_utils.basic import AnsibleModule

FILES = {
    "scheduler": "queue/scheduler",
    "read_ahead_kib": "queue/read_ahead_kb",
    "queue_requests": "queue/nr_requests",
}
KINDS = ("hdd", "ssd", "nvme", "virtual", "array")
# Loop devices, RAM disks and optical drives are not what data lies on.
DISK = re.compile(r"^(sd[a-z]+|nvme\d+n\d+|vd[a-z]+|xvd[a-z]+|md\d+|dm-\d+|mmcblk\d+)$")


def read(path):
    """The text of a file of the kernel; empty if it has none."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""


def kind_of(name, folder):
    """What kind of device it is."""
    if name.startswith("nvme"):
        return "nvme"
    if name.startswith(("vd", "xvd")):
        return "virtual"
    if name.startswith(("md", "dm-")):
        return "array"
    return "hdd" if read(os.path.join(folder, "queue/rotational")) == "1" else "ssd"


def describe(name, folder):
    """A device as it is returned."""
    offered = read(os.path.join(folder, FILES["scheduler"]))
    chosen = re.search(r"\[(\S+)\]", offered)
    return {
        "device": name,
        "kind": kind_of(name, folder),
        "scheduler": chosen[1] if chosen else offered,
        "schedulers": offered.replace("[", "").replace("]", "").split(),
        "read_ahead_kib": int(read(os.path.join(folder, FILES["read_ahead_kib"])) or 0),
        "queue_requests": int(read(os.path.join(folder, FILES["queue_requests"])) or 0),
    }


def devices_below(root):
    """Name and folder of each disk and array."""
    folder = os.path.join(root, "sys/block")
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return [(name, os.path.join(folder, name)) for name in names if DISK.match(name)]


def not_valid(name, folder, value, wanted):
    """What to say of a value that the kernel does not take."""
    text = "%s: the kernel does not take %s = %s" % (name, value, wanted)
    if value == "scheduler":
        text += "; it offers %s" % ", ".join(describe(name, folder)["schedulers"])
    return text


def settle(module, name, folder, wanted):
    """Bring one device in line; its entries of the report, and whether anything changed."""
    entries, changed = [], {}
    for value, path in FILES.items():
        if wanted.get(value) is None:
            continue
        before, refused = describe(name, folder)[value], ""
        if before != wanted[value]:
            if module.check_mode and not os.access(os.path.join(folder, path), os.W_OK):
                refused = "it cannot be written"
            else:
                changed[value] = (before, wanted[value])
            if not module.check_mode:
                try:
                    with open(os.path.join(folder, path), "w", encoding="utf-8") as file:
                        file.write("%s\n" % wanted[value])
                except OSError as error:
                    refused = error.strerror or str(error)
                    del changed[value]
                    if error.errno == errno.EINVAL:
                        module.fail_json(msg=not_valid(name, folder, value, wanted[value]))
        effective = describe(name, folder)[value]
        state = "as wanted" if effective == wanted[value] else "refused"
        if module.check_mode and value in changed:
            state = "to change"
        entries.append(
            {
                "setting": "%s %s" % (name, value),
                "wanted": str(wanted[value]),
                "effective": str(effective),
                "state": state,
                "note": refused,
            }
        )
    return entries, changed


def main():
    """Run as Ansible runs it."""
    values = {
        "scheduler": {"type": "str"},
        "read_ahead_kib": {"type": "int"},
        "queue_requests": {"type": "int"},
    }
    kinds = {kind: {"type": "dict", "options": values} for kind in KINDS}
    module = AnsibleModule(
        argument_spec={
            "kinds": {"type": "dict", "default": {}, "options": kinds},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    wanted = module.params["kinds"] or {}
    report, before, after = [], [], []
    for name, folder in devices_below(module.params["root"]):
        entries, changed = settle(module, name, folder, wanted.get(kind_of(name, folder)) or {})
        report += entries
        for value, (old, new) in changed.items():
            before.append("%s %s = %s\n" % (name, value, old))
            after.append("%s %s = %s\n" % (name, value, new))
    module.exit_json(
        changed=bool(after),
        report=report,
        devices=[describe(*device) for device in devices_below(module.params["root"])],
        diff={"before": "".join(before), "after": "".join(after)},
    )


if __name__ == "__main__":
    main()
