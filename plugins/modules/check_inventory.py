#!/usr/bin/python
# Copyright: Strongroom
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)

from __future__ import annotations

DOCUMENTATION = r"""
module: check_inventory
short_description: Check the variables of all hosts before any host is reached
version_added: 0.9.0
description:
  - Checks each variable that begins with C(strongroom_) of each host of the inventory - whether a role has it, its
    type, range, unit and choices - and what variables of several hosts say together, such as a client that is to send
    without TLS to an appliance that does not permit it.
  - Runs on the machine that runs Ansible and connects to no host. Each fault is a line with host, variable, value and
    the file and line that set it; hosts with the same fault share a line.
  - A value that needs facts of a host is checked by the role that uses it.
author:
  - Strongroom (@strongroom)
options:
  sources:
    description:
      - Roles whose packages and files, which the machine that runs Ansible has, must be there.
    type: list
    elements: str
    choices: [engine, appliance, monitoring]
    default: []
attributes:
  check_mode:
    description: Only looks, so check mode is the same.
    support: full
  diff_mode:
    description: Changes nothing, so there is nothing to show.
    support: none
"""

EXAMPLES = r"""
- name: Check the inventory
  hosts: all
  gather_facts: false
  any_errors_fatal: true
  tasks:
    - name: Check all variables
      strongroom.backup.check_inventory:
      run_once: true
"""

RETURN = r"""
digests:
  description: >-
    For each host a digest of what the roles for it make of it - C(tuning) is of kernel, disks and TLS, C(agent) is what
    the role C(agent) does on the host itself. What comes with each job from the director is in neither.
  returned: if nothing is wrong
  type: dict
"""
