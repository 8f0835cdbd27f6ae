"""Where another program reads the lists of packages, as on a machine that was just started, a role waits for it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml

PROJECT = Path(__file__).resolve().parents[2]
APT = """#!/bin/sh
echo "$@" >> "$0.asked"
[ $(wc -l < "$0.asked") -gt 1 ] && exit
echo 'E: Could not get lock /var/lib/apt/lists/lock. It is held by process 4711 (apt-get)' >&2
exit 100
"""


@pytest.mark.parametrize("tasks", ["engine/tasks/repository.yml", "monitoring/tasks/grafana_repository.yml"])
def test_a_role_waits_for_who_has_the_lists(tasks, tmp_path):
    apt = tmp_path / "apt-get"
    apt.write_text(APT)
    apt.chmod(0o755)
    task = next(
        one for one in yaml.safe_load((PROJECT / "roles" / tasks).read_text()) if one["name"] == "Read what it has"
    )
    del task["when"]
    task["delay"] = 0
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": [task]}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    done = subprocess.run(
        [
            "ansible-playbook",
            "-i",
            "localhost,",
            "-e",
            "ansible_python_interpreter=/usr/bin/python3",
            tmp_path / "play.yml",
        ],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len((tmp_path / "apt-get.asked").read_text().splitlines()) == 2
