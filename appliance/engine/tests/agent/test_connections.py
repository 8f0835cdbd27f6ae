"""Who is accepted, who is believed, what is said that makes no sense, and how a machine enrols."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest

from kit.agent_site import CLIENT, DIRECTOR, AgentSite
from kit.ports import free_port
from kit.small_director import SmallDirector


def await_message(site: AgentSite, part: str) -> None:
    """Until the agent's own log says something."""
    deadline = time.monotonic() + 30
    while part not in site.messages.read_text():
        assert time.monotonic() < deadline, site.messages.read_text()
        assert site.process is not None
        assert site.process.poll() is None, site.messages.read_text()
        time.sleep(0.05)


@pytest.mark.parametrize(
    "text",
    [
        "no JSON",
        "[]",
        '{"type": "no-such-message"}',
        '{"type": "cancel"}',
        '{"type": "start-estimate", "run_id": "../x", "job": "", "fileset": {"name": ""}}',
        '{"type": "welcome"}',
    ],
)
def test_what_makes_no_sense_ends_the_connection_and_nothing_else(
    agent: AgentSite, text: str
) -> None:
    agent.director.send_raw(text)
    agent.director.await_connection(2)
    (agent.source / "a").write_text("a")
    request = agent.backup()
    agent.director.send(request)
    assert agent.director.ended(request.run_id).status == "done"


def test_fields_that_are_not_known_are_ignored(agent: AgentSite) -> None:
    agent.director.send_raw('{"type": "cancel", "run_id": "x", "newer": [1, {"a": 2}]}')
    assert agent.director.ended("x").status == "cancelled"
    assert agent.director.connections == 1


def test_an_agent_says_who_it_is(agent: AgentSite) -> None:
    (hello,) = agent.director.hellos()
    assert (hello.name, hello.runs) == (CLIENT, ())
    assert {"backup", "restore", "verify", "estimate"} <= set(hello.features)
    assert hello.workers == len(os.sched_getaffinity(0))


def test_a_director_that_does_not_answer_is_a_line_a_day(site: AgentSite) -> None:
    port = site.director.port
    site.director.close()
    with socket.create_server(("127.0.0.1", port)) as listening:
        listening.settimeout(30)
        site.start()
        for _ in range(4):
            connection, _ = listening.accept()
            with connection:
                connection.recv(100)
    assert site.messages.read_text().count("trying again") == 1
    site.director = SmallDirector(site.director_identity, DIRECTOR)


@pytest.mark.parametrize(("name", "role"), [("other-dir", "director"), (DIRECTOR, "storage")])
def test_an_agent_speaks_to_its_director_only(
    site: AgentSite, tmp_path: Path, name: str, role: str
) -> None:
    identity = site.authority.issue_identity(str(tmp_path / "x"), name, role, ["127.0.0.1"])
    false = SmallDirector(identity, DIRECTOR)
    true, site.director = site.director, false
    site.configure()
    site.start()
    await_message(site, f"Director {DIRECTOR}: ")
    assert false.hellos() == []
    false.close()
    site.director = true


def test_a_director_that_is_called_otherwise_is_left(site: AgentSite) -> None:
    site.director.name = "somebody-else"
    site.start()
    await_message(site, "the peer is somebody-else")


def test_an_agent_that_listens_works_for_the_director_that_dials(site: AgentSite) -> None:
    site.listens_at = free_port()
    site.configure()
    site.start()
    await_message(site, "is ready")
    site.director.dial(site.listens_at)
    site.director.await_connection()
    (site.source / "a").write_text("a")
    request = site.backup()
    site.director.send(request)
    assert site.director.ended(request.run_id).status == "done"


@pytest.mark.parametrize(("name", "role"), [("other-dir", "director"), ("web2", "agent")])
def test_nobody_else_is_let_in(site: AgentSite, tmp_path: Path, name: str, role: str) -> None:
    site.listens_at = free_port()
    site.configure()
    site.start()
    await_message(site, "is ready")
    identity = site.authority.issue_identity(str(tmp_path / "x"), name, role, ["127.0.0.1"])
    stranger = SmallDirector(identity, DIRECTOR)
    stranger.dial(site.listens_at)
    await_message(site, "a director that dialled us")
    assert stranger.hellos() == []
    stranger.close()
