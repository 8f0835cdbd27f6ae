"""docs/guides/fleet-in-ten-minutes.md as far as it goes without hosts; the scenario `site` gives its commands."""

from __future__ import annotations

import importlib.util
import os
import shlex
import subprocess
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("follow_page", PROJECT / "molecule/site/follow_page.py")
page = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(page)


@pytest.fixture
def clone(tmp_path):
    """A clone whose example inventory has the three lines changed."""
    page.copy_project(tmp_path)
    page.change_lines(tmp_path, ["198.51.100.7", "198.51.100.8", "/keys/mine"])
    return tmp_path


def run(words, folder):
    done = subprocess.run(
        words, cwd=folder, env={**os.environ, "ANSIBLE_NOCOLOR": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_three_lines_are_changed_and_the_inventory_is_right(clone):
    assert len(page.lines_to_change()) == 3
    texts = [(clone / "ansible/inventory" / name).read_text() for name in ("hosts.yml", "group_vars/all.yml")]
    assert "vault:\n          ansible_host: 198.51.100.7" in texts[0]
    assert "db1:\n              ansible_host: 198.51.100.8" in texts[0]
    assert "ansible_ssh_private_key_file: /keys/mine" in texts[1]
    run(["ansible-playbook", "validate.yml"], clone / "ansible")


def test_each_command_is_one_that_there_is(clone):
    """Playbooks as far as their syntax; those that reach no host, for good."""
    folder, given = clone, []
    for line in page.commands():
        words = shlex.split(line)
        given.append(words[0])
        if words[0] == "cd":
            folder /= words[1]
        elif words[0] == "make":
            run([*words, "--dry-run"], PROJECT)
        elif words[0] == "ansible-playbook":
            run([*words, "--syntax-check"] if words[1] != "validate.yml" else words, folder)
        elif words[0] == "ansible":
            assert "vault" in run([words[0], words[1], "--list-hosts"], folder)
        elif words[0] == "sed":
            path = folder / words[-1]
            before = path.read_text()
            run(words, folder)
            assert path.read_text() != before
        else:
            assert words[0] == "export"
    assert set(given) == {"make", "export", "cd", "ansible-playbook", "ansible", "sed"}
    # The edit of the last step is one that the check takes.
    run(["ansible-playbook", "validate.yml"], folder)
