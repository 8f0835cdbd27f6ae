"""The way of clients to the storage daemon: measured one after the other, or a note why not."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ANSIBLE = Path(__file__).resolve().parents[2] / "ansible"
DAEMON = Path(__file__).with_name("storage_daemon.py")
HERE = {"ansible_connection": "local", "ansible_become": False}
# Notes when it begins and ends, and is the command.
NOTING = """#!/bin/sh
echo "begin $$ $*" >>{log}
{command} "$@"
code=$?
echo "end $$" >>{log}
exit $code
"""


@pytest.fixture
def storage_daemon(tmp_path):
    """The daemon's port, and the folder of an agent's identity."""
    folder = tmp_path / "site"
    folder.mkdir()
    python = Path(shutil.which("strongroom")).resolve().with_name("python")
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    daemon = subprocess.Popen(
        [python, DAEMON, folder], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    yield int(daemon.stdout.readline()), folder / "web1"
    daemon.stdin.close()
    assert daemon.wait(120) == 0


def play(tmp_path, *words, path=""):
    """The page, as text, of two clients that are this machine."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "file").write_text("text\n" * 100)
    inventory, page = tmp_path / "hosts.yml", tmp_path / "fleet.html"
    variables = {
        "strongroom_files": [str(data)],
        "strongroom_agent_group": "servers",
        "strongroom_agent_director": "https://vault.example.org",
    }
    groups = {
        "appliance": {"hosts": {"vault": {**HERE, "ansible_host": "127.0.0.1"}}},
        "agents": {"hosts": {"web1": HERE, "db1": HERE}, "vars": variables},
    }
    inventory.write_text(yaml.safe_dump(groups))
    options = "measure_options='--skip disk --skip processor --seconds 0.05'"
    variables = ["-e", f"measure_page={page}", "-e", options, *words]
    ended = subprocess.run(
        ["ansible-playbook", "-i", str(inventory), "baseline.yml", "--tags", "measure", *variables],
        cwd=ANSIBLE,
        env={**os.environ, "PATH": path + os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return page.read_text()


def test_clients_measure_their_way_one_after_the_other(tmp_path, storage_daemon):
    port, identity = storage_daemon
    log, programs = tmp_path / "log", tmp_path / "bin"
    programs.mkdir()
    noting = programs / "strongroom"
    noting.write_text(NOTING.format(log=log, command=shutil.which("strongroom")))
    noting.chmod(0o755)
    words = ["-e", f"measure_server=127.0.0.1:{port}", "-e", f"measure_identity={identity}"]
    page = play(tmp_path, *words, path=f"{programs}:")
    assert "Sending to the storage daemon, MB a second at best" in page
    assert "not measured" not in page
    # Of the network alone: each ends before the next begins.
    lines = log.read_text().splitlines()
    begun = [line.split()[1] for line in lines if " --server " in line]
    assert len(begun) == 2
    order = [line.split()[:2] for line in lines if line.split()[1] in begun]
    assert order == [["begin", begun[0]], ["end", begun[0]], ["begin", begun[1]], ["end", begun[1]]]


def test_a_client_without_a_daemon_is_measured_all_the_same_and_the_page_says_so(tmp_path):
    page = play(tmp_path, "-e", f"measure_identity={tmp_path}")
    assert "web1: the way to the storage daemon was not measured: this client has not joined" in page
    assert "First walk, entries a second" in page


def test_a_daemon_that_does_not_answer_is_a_note(tmp_path, storage_daemon):
    _, identity = storage_daemon
    page = play(tmp_path, "-e", f"measure_identity={identity}", "-e", "measure_server=127.0.0.9:1")
    assert "web1: the network was not measured: cannot reach the storage daemon at 127.0.0.9 port 1" in page
    assert "First walk, entries a second" in page
