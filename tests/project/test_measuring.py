"""The plays that measure clients, on two of them that are this machine."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

ANSIBLE = Path(__file__).resolve().parents[2] / "ansible"
HERE = {"ansible_connection": "local", "ansible_become": False}


@pytest.fixture
def inventory(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for number in range(10):
        (data / str(number)).write_text(f"text {number}\n" * 100)
    variables = {
        "strongroom_files": [str(data)],
        "strongroom_agent_group": "servers",
        "strongroom_agent_director": "https://vault.example.org",
    }
    path = tmp_path / "hosts.yml"
    groups = {
        "appliance": {"hosts": {"vault": HERE}},
        "agents": {"hosts": {"web1": HERE, "db1": HERE}, "vars": variables},
    }
    path.write_text(yaml.safe_dump(groups))
    return path


def play(inventory, playbook, *words):
    ended = subprocess.run(
        ["ansible-playbook", "-i", str(inventory), playbook, "--tags", "measure", *words],
        cwd=ANSIBLE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_the_baselines_of_all_clients_come_onto_one_page(inventory, tmp_path):
    page = tmp_path / "fleet.html"
    options = "measure_options='--skip disk --skip processor --seconds 0.05'"
    play(inventory, "baseline.yml", "-e", f"measure_page={page}", "-e", options)
    text = page.read_text()
    assert "2 machines" in text
    assert "web1" in text
    assert "db1" in text


def test_a_search_shows_its_difference_and_writes_it_only_without_check(inventory, tmp_path):
    written = tmp_path / "host_vars" / "web1" / "strongroom_tuning.yml"
    words = ["-e", "measure_minutes=0.01", "--limit", "web1"]
    shown = play(inventory, "retune.yml", *words, "--check", "--diff")
    assert "+# Written by `strongroom tune`" in shown
    assert not written.exists()
    play(inventory, "retune.yml", *words)
    assert written.read_text().startswith("# Written by `strongroom tune`")
    # What the role takes: variables, or none.
    assert isinstance(yaml.safe_load(written.read_text()), dict)
    assert not (tmp_path / "host_vars" / "db1").exists()


# As evidence in the file says what was measured.
LINK = "a link of 1 ms and 50 MB/s"
WAY = {"strongroom_kernel_round_trip_ms": 1, "strongroom_kernel_bandwidth_mbit": 400}


def searched(inventory, *words, **variables):
    """What a search shows of one client whose inventory says this as well."""
    found = yaml.safe_load(inventory.read_text())
    found["agents"]["vars"].update(variables)
    inventory.write_text(yaml.safe_dump(found))
    few = ["-e", "measure_minutes=0.01", "--limit", "web1", "--check", "--diff"]
    return play(inventory, "retune.yml", *few, *words)


def test_a_search_is_made_over_the_link_that_the_inventory_knows(inventory):
    assert LINK in searched(inventory, **WAY)


def test_half_of_a_link_is_none(inventory):
    assert "a link of" not in searched(inventory, strongroom_kernel_round_trip_ms=1)


def test_further_options_are_passed_on_and_win_over_the_inventory(inventory):
    shown = searched(inventory, "-e", "measure_options='--backup first --link 2,25 --knobs ktls'", **WAY)
    assert "time of a first backup" in shown
    assert "a link of 2 ms and 25 MB/s" in shown
    assert LINK not in shown
