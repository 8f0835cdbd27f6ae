#!/usr/bin/python
# Copyright: Strongroom
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)

from __future__ import annotations

DOCUMENTATION = r"""
module: data_disk
short_description: Make an XFS file system on a disk that is empty, and on no other
version_added: 0.9.0
description:
  - Makes a file system on a disk only where there is nothing - no signature of a file system, of a volume manager or
    of an encryption, no partition table, nothing that uses it, and only zeros in its first 16 MiB.
  - A disk that has a file system of the wanted kind is left as it is. Any other is refused.
    There is no option to force it.
author:
  - Strongroom (@strongroom)
options:
  device:
    description:
      - The disk or partition, best by a name that stays, such as one in C(/dev/disk/by-id). Or the file of an image.
    type: path
    required: true
  format:
    description: Whether an empty disk gets a file system. Without it, one is refused as well.
    type: bool
    default: false
  label:
    description: Label of a new file system.
    type: str
    default: strongroom
attributes:
  check_mode:
    description: Can run without changing anything, and says what would change.
    support: full
  diff_mode:
    description: Shows what the disk holds before and after.
    support: full
"""

EXAMPLES = r"""
- name: A file system for the repository
  strongroom.backup.data_disk:
    device: /dev/disk/by-id/wwn-0x5000c500a1b2c3d4
    format: true
"""

RETURN = r"""
uuid:
  description: The file system's; empty in check mode if there is none yet.
  returned: always
  type: str
"""

import os
import stat

from ansible.module_utils.basic import AnsibleModule

CHECKED_BYTES = 16 * 1024 * 1024
LABEL_LENGTH = 12


def tags(module, device):
    """What libblkid recognises, such as {"TYPE": "xfs"}; read from the disk, never from a cache."""
    program = module.get_bin_path("blkid", required=True)
    code, output, error = module.run_command([program, "--probe", "--output", "export", device])
    if code not in (0, 2):
        module.fail_json(msg="%s cannot be examined: %s" % (device, error.strip() or "ambivalent result"))
    return dict(line.split("=", 1) for line in output.splitlines() if "=" in line)


def used_by(device):
    """What uses a block device: its partitions, and what lies on it."""
    number = os.stat(device).st_rdev
    folder = "/sys/dev/block/%d:%d" % (os.major(number), os.minor(number))
    names = os.listdir(folder) if os.path.isdir(folder) else []
    partitions = [name for name in names if os.path.exists(os.path.join(folder, name, "partition"))]
    holders = os.path.join(folder, "holders")
    return partitions + (os.listdir(holders) if os.path.isdir(holders) else [])


def has_data(device):
    """Whether anything but zeros is at the beginning."""
    with open(device, "rb") as file:
        return any(file.read(CHECKED_BYTES))


def why_not(module, device, found):
    """Why this disk is not to be formatted; empty if it may be."""
    if found:
        kind = found.get("TYPE") or found.get("PTTYPE") or "something"
        return "%s holds %s" % (device, kind)
    if stat.S_ISBLK(os.stat(device).st_mode) and used_by(device):
        return "%s is used by %s" % (device, ", ".join(used_by(device)))
    if has_data(device):
        return "%s holds data of a kind that is not known" % device
    if not module.params["format"]:
        return "%s is empty, and format is not yes" % device
    return ""


def make(module, device):
    """Make the file system."""
    program = module.get_bin_path("mkfs.xfs", required=True)
    # Without -f: mkfs.xfs looks once more by itself.
    command = [program, "-q", "-m", "reflink=1,bigtime=1", "-L", module.params["label"], device]
    code, output, error = module.run_command(command)
    if code != 0:
        module.fail_json(msg="%s: %s" % (device, (error or output).strip()))


def main():
    """Run as Ansible runs it."""
    module = AnsibleModule(
        argument_spec={
            "device": {"type": "path", "required": True},
            "format": {"type": "bool", "default": False},
            "label": {"type": "str", "default": "strongroom"},
        },
        supports_check_mode=True,
    )
    device = os.path.realpath(module.params["device"])
    if len(module.params["label"].encode()) > LABEL_LENGTH:
        module.fail_json(msg="label: XFS takes %d bytes" % LABEL_LENGTH)
    if not os.path.exists(device):
        module.fail_json(msg="%s does not exist" % module.params["device"])
    found = tags(module, device)
    if found.get("TYPE") == "xfs":
        module.exit_json(changed=False, uuid=found.get("UUID", ""))
    reason = why_not(module, device, found)
    if reason:
        module.fail_json(
            msg="%s; nothing was changed. Look at it, and wipe it yourself if it may go (wipefs)" % reason
            if "is empty" not in reason
            else reason
        )
    if not module.check_mode:
        make(module, device)
        found = tags(module, device)
    module.exit_json(
        changed=True,
        uuid=found.get("UUID", ""),
        diff={"before": "%s: empty\n" % device, "after": "%s: xfs\n" % device},
    )


if __name__ == "__main__":
    main()
