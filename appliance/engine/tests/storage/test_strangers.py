"""Who has not proven who they are yet: few, not for long, and quietly refused."""

import contextlib
import logging
import re
import socket
import time

import pytest

from kit.connections import is_closed
from kit.storage_site import StorageSite
from kit.tiny_backup import new_repository
from strongroom.net.channels.unauthenticated import (
    UnauthenticatedConnections,
)
from strongroom.service.log_lines import MOST_A_MINUTE, LimitedLines
from strongroom.storage.settings import StorageLimits

PATIENCE_SECONDS = 30.0


def await_true(is_so, shown=str):
    until = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < until, shown()
        time.sleep(0.02)


def handshakes(server):
    found = re.search(
        r"strongroom_storage_handshakes (\d+)", server.serving.metrics_text().decode()
    )
    return int(found[1])


@pytest.fixture
def stranger():
    """Dials from an address of loopback and says nothing."""
    with contextlib.ExitStack() as held:

        def dial(daemon, address="127.0.0.66"):
            return held.enter_context(
                socket.create_connection(
                    ("127.0.0.1", daemon.server.ports[0]), PATIENCE_SECONDS, (address, 0)
                )
            )

        yield dial


def test_one_address_cannot_hold_all_handshakes(make_daemon, stranger):
    daemon = make_daemon(limits=StorageLimits(handshakes=8, handshakes_of_an_address=4))
    new_repository(daemon.local()).close()
    for _ in range(4):
        stranger(daemon)
    await_true(lambda: handshakes(daemon.server) == 4)
    for _ in range(20):
        assert is_closed(stranger(daemon))
    # Everybody else comes in as ever, and the local socket does too.
    list(daemon.agent("web1").list("packs"))
    list(daemon.local().list("packs"))
    assert 'refused_total{cause="handshakes"} 20' in daemon.server.serving.metrics_text().decode()


def test_all_addresses_together_have_a_limit_that_the_local_socket_does_not_share(
    make_daemon, stranger
):
    daemon = make_daemon(limits=StorageLimits(handshakes=4, handshakes_of_an_address=2))
    new_repository(daemon.local()).close()
    held = [stranger(daemon, f"127.0.0.{number}") for number in (66, 66, 67, 67)]
    await_true(lambda: handshakes(daemon.server) == 4)
    assert is_closed(stranger(daemon, "127.0.0.68"))
    list(daemon.local().list("packs"))
    for one in held:
        one.close()
    await_true(lambda: handshakes(daemon.server) == 0)
    list(daemon.agent("web1").list("packs"))


def test_a_proven_peer_holds_no_place_of_strangers(make_daemon):
    daemon = make_daemon(limits=StorageLimits(handshakes=1, handshakes_of_an_address=1))
    new_repository(daemon.local()).close()
    kept = []
    for _ in range(3):
        kept.append(daemon.agent("web1"))
        list(kept[-1].list("packs"))
        await_true(lambda: handshakes(daemon.server) == 0)


def test_changed_limits_hold_from_then_on(make_daemon, stranger):
    daemon = make_daemon()
    daemon.server.set_limits(StorageLimits(handshakes_of_an_address=1))
    stranger(daemon)
    await_true(lambda: handshakes(daemon.server) == 1)
    assert is_closed(stranger(daemon))


def test_strangers_fill_no_log(make_daemon, stranger, caplog):
    daemon = make_daemon(limits=StorageLimits(handshakes_of_an_address=1))
    caplog.set_level(logging.WARNING, "strongroom.storage")
    stranger(daemon)
    await_true(lambda: handshakes(daemon.server) == 1)
    for _ in range(5 * MOST_A_MINUTE):
        assert is_closed(stranger(daemon))
    lines = [line for line in caplog.messages if "refused" in line]
    assert len(lines) == MOST_A_MINUTE


def test_what_was_not_said_is_counted_when_the_minute_is_over(monkeypatch, caplog):
    now = [100.0]
    monkeypatch.setattr("strongroom.base.clock.elapsed_seconds", lambda: now[0])
    bounded = LimitedLines(logging.getLogger("strangers"))
    for number in range(MOST_A_MINUTE + 7):
        bounded.warn("%d", number)
    assert len(caplog.messages) == MOST_A_MINUTE
    now[0] += 61
    bounded.flush()
    assert caplog.messages[MOST_A_MINUTE:] == ["7 more connections were refused"]
    bounded.flush()
    bounded.warn("again")
    assert caplog.messages[MOST_A_MINUTE + 1 :] == ["again"]


def test_an_ipv6_network_counts_as_one_address():
    counted = UnauthenticatedConnections(10, 2)
    assert counted.enter("2001:db8::1") == counted.enter("2001:db8::2") == ""
    assert "2001:db8::/64" in counted.enter("2001:db8::dead:beef")
    assert counted.enter("2001:db8:0:1::1") == ""
    assert counted.enter("192.0.2.1") == counted.enter("::ffff:192.0.2.1") == ""
    assert "192.0.2.1" in counted.enter("192.0.2.1")
    counted.leave("::ffff:192.0.2.1")
    assert counted.enter("192.0.2.1") == ""
    assert counted.count == 5


def test_a_real_daemon_is_configured_so(folder):
    site = StorageSite(folder, "Maximum Handshakes = 4; Maximum Handshakes Per Address = 2")
    (folder / "tree").mkdir()
    (folder / "tree" / "file").write_bytes(b"content")
    site.identity("web1", "agent")
    with contextlib.ExitStack() as held:

        def dial():
            return held.enter_context(
                socket.create_connection(
                    ("127.0.0.1", site.port), PATIENCE_SECONDS, ("127.0.0.66", 0)
                )
            )

        dial()
        dial()
        await_true(lambda: "strongroom_storage_handshakes 2" in figures(site), site.log)
        assert is_closed(dial())
        assert site.back_up("web1", str(folder / "tree"))["files"] == 1
    await_true(lambda: "strongroom_storage_handshakes 0" in figures(site), site.log)
    assert site.stop() == 0


def figures(site):
    return site.local("storage", "--metrics", "--config", str(site.configuration), key=None)
