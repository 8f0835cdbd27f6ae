"""`report.yml` compares what a host has with what it should have; that is no change, however much differs."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

PROJECT = Path(__file__).resolve().parents[2]
# Values that this machine does not have.
DIFFERENT = {
    "hardening": {"strongroom_hardening_kernel_settings": {"kernel.printk_ratelimit": 4711}},
    "kernel_tuning": {"strongroom_kernel_settings": {"kernel.printk_ratelimit": 4711}},
    "disk_tuning": {"strongroom_disk_virtual_read_ahead_kib": 4711},
}


@pytest.mark.parametrize("role", DIFFERENT)
def test_a_report_counts_no_change(role, tmp_path):
    tasks = [{"ansible.builtin.include_role": {"name": f"strongroom.backup.{role}", "tasks_from": "report"}}]
    play = {"hosts": "localhost", "connection": "local", "vars": DIFFERENT[role], "tasks": tasks}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    environment = {
        **os.environ,
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_COLLECTIONS_PATH": str(PROJECT / "ansible/collections"),
        "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(tmp_path / "facts"),
    }
    done = subprocess.run(
        [
            "ansible-playbook",
            "-i",
            "localhost,",
            "-e",
            "ansible_python_interpreter=/usr/bin/python3",
            tmp_path / "play.yml",
        ],
        cwd=PROJECT / "ansible",
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^localhost +: ok=\d+ +changed=0 ", done.stdout, re.MULTILINE), done.stdout
