"""Playbooks that need the director, on an appliance that is this machine and whose director does not run."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

ANSIBLE = Path(__file__).resolve().parents[2] / "ansible"
HERE = {"ansible_connection": "local", "ansible_become": False}


@pytest.fixture
def play(tmp_path):
    """Run a playbook with a systemctl that says this of the director; exit code and output."""

    def run(playbook, state, *words):
        programs = tmp_path / "programs"
        programs.mkdir(exist_ok=True)
        systemctl = programs / "systemctl"
        systemctl.write_text(f"#!/bin/sh\nprintf 'UnitFileState=enabled\\nActiveState={state}\\n'\n")
        systemctl.chmod(0o755)
        groups = {
            # A file that is there.
            "all": {"vars": {"strongroom_engine_repository_key": __file__}},
            "appliance": {"hosts": {"vault": HERE}},
            "agents": {"hosts": {"web1": HERE, "db1": HERE}, "vars": {"strongroom_agent_group": "servers"}},
        }
        hosts = tmp_path / "hosts.yml"
        hosts.write_text(yaml.safe_dump(groups))
        done = subprocess.run(
            ["ansible-playbook", "--check", "-i", str(hosts), playbook, *words],
            cwd=ANSIBLE,
            env={
                **os.environ,
                "PATH": f"{programs}:{os.environ['PATH']}",
                "ANSIBLE_NOCOLOR": "1",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.mark.parametrize("playbook", ["agents.yml", "retune.yml", "site.yml"])
@pytest.mark.parametrize("words", [(), ("--limit", "web1")], ids=["all", "one"])
def test_a_run_ends_at_once_and_says_why(play, playbook, words):
    code, output = play(playbook, "failed", *words)
    assert code != 0
    reason = r"^(vault|web1) +failed +0 .*vault: strongroom-director does not run"
    assert re.search(reason, output, re.MULTILINE), output
    assert set(re.findall(r"changed=(\d+)", output)) == {"0"}
    # Nothing was asked of a host that a role would ask.
    assert "Gathering Facts" not in output


def test_where_it_runs_the_run_continues(play):
    _code, output = play("examine.yml", "active")
    assert "strongroom-director does not run" not in output
    assert "PLAY [Look at the hosts]" in output
