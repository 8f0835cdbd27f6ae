#!/usr/bin/python
# Copyright: Strongroom
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)

from __future__ import annotations

DOCUMENTATION = r"""
module: report_inventory
short_description: Show what is wanted of every variable beside what is in force
version_added: 0.9.0
description:
  - Takes what the roles' tasks C(report) found on the hosts of the play and shows for each variable of each role the
    value that is wanted, the value in force, and the file and line that set it. C(report.yml) is the playbook for it.
  - Runs on the machine that runs Ansible. The values of passwords and tokens are not shown.
author:
  - Strongroom (@strongroom)
options:
  format:
    description: A table, one JSON object, or a page of HTML.
    type: str
    choices: [table, json, html]
    default: table
  into:
    description: File on the machine that runs Ansible to write to. Without it the screen; V(html) needs it.
    type: path
    default: ""
  differences:
    description: Only what is not as wanted.
    type: bool
    default: false
attributes:
  check_mode:
    description: Only looks, so check mode is the same.
    support: full
  diff_mode:
    description: Changes nothing on hosts, so there is nothing to show.
    support: none
"""

EXAMPLES = r"""
- name: Write a page
  strongroom.backup.report_inventory:
    format: html
    into: report.html
  run_once: true
"""

RETURN = r"""
differences:
  description: How many variables differ.
  returned: always
  type: int
unlisted:
  description: Clients that a director knows and that no host of the inventory is.
  returned: always
  type: list
  elements: str
"""
