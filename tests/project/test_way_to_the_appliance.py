"""Whether a client has a way to its appliance, before anything on it changes. The client is this machine."""

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
def examine(tmp_path):
    """Examine a client of an appliance that has this address; exit code and output."""

    def run(address, **variables):
        groups = {
            "appliance": {"hosts": {"vault": {**HERE, "strongroom_appliance_address": address}}},
            "agents": {"hosts": {"web1": {**HERE, "strongroom_agent_group": "servers", **variables}}},
        }
        hosts = tmp_path / "hosts.yml"
        hosts.write_text(yaml.safe_dump(groups))
        done = subprocess.run(
            ["ansible-playbook", "-i", str(hosts), "examine.yml", "--limit", "web1"],
            cwd=ANSIBLE,
            env={**os.environ, "ANSIBLE_NOCOLOR": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    return run


def test_a_client_that_knows_the_address_continues(examine):
    code, output = examine("localhost")
    assert code == 0, output


@pytest.mark.parametrize("variables", [{}, {"strongroom_agent_director": "https://director.invalid"}])
def test_a_client_that_has_no_way_fails_in_one_line_before_anything_changes(examine, variables):
    code, output = examine("vault.invalid", **variables)
    assert code != 0
    found = re.search(r"^web1 +failed +0 .*no way to the appliance at vault[.]invalid \(.*\)", output, re.MULTILINE)
    assert found, output
    assert ("nor at director.invalid" in output) == bool(variables)
    assert "changed=0" in output
