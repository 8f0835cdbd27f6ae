"""What a reload of the agent puts in force: all of it or nothing, and a new certificate."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable

import pytest

from kit.agent_site import CLIENT, AgentSite
from kit.ports import free_port
from strongroom.agent.status import ask_status
from strongroom.net.channels.tls_contexts import client_context
from strongroom.net.identities.identity import Identity
from strongroom.net.identities.peer import parse_certificate, peer_of


def wait_until(site: AgentSite, settled: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not settled():
        assert time.monotonic() < deadline, site.messages.read_text()
        time.sleep(0.05)


def reload_of(site: AgentSite, said: str) -> None:
    """Have the agent reload, and wait until its log says something about it."""
    before = site.messages.read_text().count(said)
    assert site.process is not None
    site.process.send_signal(signal.SIGHUP)
    wait_until(site, lambda: site.messages.read_text().count(said) > before)


def listening(site: AgentSite) -> AgentSite:
    site.listens_at = free_port()
    site.configure()
    site.start()
    wait_until(site, lambda: "is ready" in site.messages.read_text())
    return site


def serial_at(site: AgentSite) -> str:
    """Which certificate the agent shows to a director that dials it."""
    context = client_context(site.director_identity, check_hostname=False)
    with (
        socket.create_connection(("127.0.0.1", site.listens_at)) as plain,
        context.wrap_socket(plain) as connection,
    ):
        certificate = connection.getpeercert(binary_form=True)
    assert certificate is not None
    return peer_of(parse_certificate(certificate)).serial


def test_where_it_cannot_listen_all_stays_as_it_was(site: AgentSite) -> None:
    before = listening(site).listens_at
    with socket.create_server(("127.0.0.1", 0)) as taken:
        site.listens_at = taken.getsockname()[1]
        site.configure()
        reload_of(site, "the configuration stays as it was")
    site.director.dial(before)
    site.director.await_connection()


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("Working Directory", "Workng Directory", "did you mean Working Directory?"),
        ("/working", "/elsewhere", "Working Directory has changed, which needs a restart"),
    ],
)
def test_what_cannot_be_in_force_is_named(
    agent: AgentSite, before: str, after: str, said: str
) -> None:
    text = agent.configuration.read_text()
    assert before in text
    agent.configuration.write_text(text.replace(before, after))
    reload_of(agent, "the configuration stays as it was")
    assert said in agent.messages.read_text()
    assert said in ask_status(str(agent.folder / "working"))["configuration_refused"]
    agent.configuration.write_text(text)
    reload_of(agent, "the configuration was read again")
    assert ask_status(str(agent.folder / "working"))["configuration_refused"] == ""


def test_a_new_certificate_is_shown_to_directors_that_dial(site: AgentSite) -> None:
    first = serial_at(listening(site))
    site.authority.issue_identity(str(site.identity), CLIENT, "agent")
    newest = Identity.load(str(site.identity)).serial
    assert newest != first
    reload_of(site, "the configuration was read again")
    wait_until(site, lambda: serial_at(site) == newest)
