"""`configuration_files` with daemons that read what it wrote."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest
from ansible_collections.strongroom.backup.plugins.modules import configuration_files, strongroom_info

SCHEDULE = "director.d/schedule/further.conf"
WEEKLY = "Schedule {\n  Name = Weekly\n  Run = Full sun at 21:00\n}\n"
MYSELF = "agent.d/client/myself.conf"


@pytest.fixture
def operator(house, monkeypatch):
    """The one who may reload the director, as root at an appliance."""
    for name, text in house.environment.items():
        monkeypatch.setenv(name, text)
    return house


def test_the_director_reads_what_was_written(operator, run_module):
    top = operator.folder / "etc"
    told = run_module(configuration_files, path=str(top), files={SCHEDULE: WEEKLY}, reload="director")
    assert told["changed"]
    in_force = run_module(strongroom_info, **operator.credential, gather=["configuration"])["configuration"]
    assert "Weekly" in str(in_force)
    run_module(configuration_files, path=str(top), absent=[SCHEDULE], reload="director")
    assert not (top / SCHEDULE).exists()


@pytest.fixture
def other_tree(operator, tmp_path):
    """A tree that is right, and is not the one that the director reads."""
    return shutil.copytree(operator.folder / "etc", tmp_path / "etc")


def test_what_a_director_refuses_is_put_back(operator, other_tree, run_module):
    before = "Schedule { Name = Weekly; Run = Full mon at 21:00 }\n"
    (other_tree / SCHEDULE).write_text(before)
    wrong = operator.folder / "etc/director.d/schedule/wrong.conf"
    wrong.write_text("Schedule { Nam = Wrong }\n")
    try:
        files = {SCHEDULE: WEEKLY, "director.d/schedule/new.conf": WEEKLY.replace("Weekly", "New")}
        told = run_module(configuration_files, path=str(other_tree), files=files, reload="director")
    finally:
        wrong.unlink()
        operator.command("reload")
    assert told["failed"]
    assert "wrong.conf" in told["msg"]
    assert "\n" not in told["msg"]
    assert (other_tree / SCHEDULE).read_text() == before
    assert not (other_tree / "director.d/schedule/new.conf").exists()


def test_a_director_that_does_not_answer_gets_nothing(other_tree, run_module, monkeypatch):
    monkeypatch.setenv("STRONGROOM_DIRECTOR", "https://127.0.0.1:1")
    began = time.monotonic()
    told = run_module(configuration_files, path=str(other_tree), files={SCHEDULE: WEEKLY}, reload="director")
    assert told["failed"]
    assert "127.0.0.1:1" in told["msg"]
    assert "systemctl status strongroom-director" in told["msg"]
    assert not (other_tree / SCHEDULE).exists()
    assert time.monotonic() - began < 30


@pytest.fixture
def agent(house, tmp_path, monkeypatch):
    """An agent in its own folder, and a systemctl that reloads it."""
    told = house.command("ca", "token", "--group", "servers", "--names", "web77", "--out", "-", "--ca", house.ca)
    house.join("web77", told[-1]["token"])
    top = house.folder / "web77/etc"
    log = tmp_path / "agent.log"
    with open(log, "wb") as file:
        process = subprocess.Popen(
            ["strongroom", "agent", "--config", str(top), "--foreground"], env=house.environment, stderr=file
        )
    programs = tmp_path / "programs"
    programs.mkdir()
    systemctl = programs / "systemctl"
    systemctl.write_text(f"#!{sys.executable}\nimport os\nos.kill({process.pid}, {int(signal.SIGHUP)})\n")
    systemctl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    end = time.monotonic() + 60
    while "is ready" not in log.read_text():
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.1)
    yield top
    process.terminate()
    process.wait(60)


def test_an_agent_reads_what_was_written_and_what_it_refuses_is_put_back(agent, run_module):
    text = (agent / MYSELF).read_text()
    shards = text.replace("Client {", "Client {\n  Shards = 3\n", 1)
    told = run_module(configuration_files, path=str(agent), files={MYSELF: shards}, reload="agent")
    assert told.get("changed"), told
    [director] = agent.glob("agent.d/director/*.conf")
    before = director.read_text()
    # Only the agent finds out that it cannot listen there.
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = "Client {\n  Address = 127.0.0.1\n  Port = %d\n" % taken.getsockname()[1]
        files = {
            MYSELF: shards.replace("Client {\n", port, 1),
            str(director.relative_to(agent)): before.replace(
                "Director {\n", "Director {\n  Connection From Director To Client = yes\n", 1
            ),
        }
        told = run_module(configuration_files, path=str(agent), files=files, reload="agent")
    assert told["failed"]
    assert "cannot listen" in told["msg"]
    assert ((agent / MYSELF).read_text(), director.read_text()) == (shards, before)
    # What it refused before is no fault of the next.
    assert run_module(configuration_files, path=str(agent), files={MYSELF: text}, reload="agent")["changed"]
