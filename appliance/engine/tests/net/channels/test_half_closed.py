"""A peer that has said its last and takes nothing: who sends to it is not kept waiting."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from kit.connections import accept_one, connected, listening
from kit.faulty_link import FaultyLink
from strongroom.base.errors import ConnectionLostError, PeerRefusedError
from strongroom.net.channels.connecting import Acceptor, connect


@pytest.mark.parametrize("mode", ["tls", "off", "local"])
@pytest.mark.parametrize("by_file", [False, True])
def test_a_sender_notices_a_peer_that_only_half_closed(house, tmp_path, mode, by_file):
    accepted: list[socket.socket] = []
    with connected(house, mode, accepted_sockets=accepted) as (ours, _), accepted[0] as connection:
        ours.set_timeout(300)
        # Its socket stays open, but no one reads it.
        connection.shutdown(socket.SHUT_WR)
        began = time.monotonic()
        # More than the buffers of both ends hold.
        if by_file:
            with (tmp_path / "file").open("w+b") as file:
                file.truncate(200 << 20)
                with pytest.raises(ConnectionLostError):
                    ours.send_file(file.fileno(), 0, 200 << 20)
        else:
            with pytest.raises(ConnectionLostError):
                ours.send(bytes(200 << 20))
        assert time.monotonic() - began < 60


@pytest.mark.parametrize("mode", ["tls", "off"])
def test_a_handshake_that_breaks_half_way_is_a_lost_connection_not_a_refusal(house, mode):
    acceptor = Acceptor(house.storage, lambda *_: True)
    with listening() as (listener, port), ThreadPoolExecutor(1) as pool:
        for count in (1, 5, 6, 200):
            accepted = pool.submit(accept_one, acceptor, listener)
            with FaultyLink(port) as link:
                link.half_close_after(count)
                with pytest.raises(ConnectionLostError):
                    connect("127.0.0.1", link.port, "vault", house.agent, mode).receive_exactly(1)
            with pytest.raises((ConnectionLostError, PeerRefusedError)):
                accepted.result(30)
    acceptor.close()
