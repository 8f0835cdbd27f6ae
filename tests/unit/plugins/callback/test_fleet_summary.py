"""In a real run of Ansible, with tasks that set the facts that the roles set."""

from __future__ import annotations

import os
import subprocess
import sys

import yaml

CLIENT = {
    "type": "client",
    "name": "db1",
    "connected": True,
    "running": 1,
    "queued": 0,
    "workers": 4,
    "tls_mode": "ktls",
    "last_backup": "2026-11-22T21:00:00Z",
}


def run(folder, tasks, hosts="db1,web1,"):
    play = [{"hosts": "all", "connection": "local", "gather_facts": False, "tasks": tasks}]
    (folder / "play.yml").write_text(yaml.safe_dump(play))
    done = subprocess.run(
        ["ansible-playbook", "-i", hosts, "-e", f"ansible_python_interpreter={sys.executable}", "play.yml"],
        cwd=folder,
        env=os.environ | {"ANSIBLE_CALLBACKS_ENABLED": "strongroom.backup.fleet_summary", "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr, done.stderr
    return done.stdout


def test_each_client_has_a_line(tmp_path):
    told = run(
        tmp_path,
        [
            {"ansible.builtin.set_fact": {"strongroom_agent_summary": CLIENT}, "when": "inventory_hostname == 'db1'"},
            {
                "ansible.builtin.set_fact": {"strongroom_agent_summary": {"name": "web1"}},
                "when": "inventory_hostname == 'web1'",
            },
            {
                "ansible.builtin.set_fact": {"strongroom_ktls_facts": {"proven": True}},
                "when": "inventory_hostname == 'db1'",
            },
        ],
    )
    lines = [" ".join(line.split()) for line in told.splitlines()]
    heading = lines.index("HOST CLIENT JOBS WORKERS TLS KTLS PROVEN LAST BACKUP")
    assert lines[heading + 1] == "db1 connected 1 run, 0 wait 4 ktls yes 2026-11-22T21:00:00Z"
    assert lines[heading + 2] == "web1 away 0 run, 0 wait - - - none yet"


def test_a_run_without_clients_has_no_table(tmp_path):
    assert "LAST BACKUP" not in run(tmp_path, [{"ansible.builtin.debug": {"msg": "nothing"}}])
