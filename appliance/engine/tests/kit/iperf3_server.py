"""A server of iperf3 on loopback, as a user starts one to measure a network."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kit.ports import free_port

PATIENCE_SECONDS = 60.0


@contextmanager
def iperf3_server() -> Iterator[int]:
    """The port of a server that runs meanwhile; skips the test where iperf3 is not installed."""
    if shutil.which("iperf3") is None:
        pytest.skip("iperf3 is not installed (Debian: iperf3)")
    port = free_port()
    process = subprocess.Popen(
        ["iperf3", "--server", "--bind", "127.0.0.1", "--port", str(port)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + PATIENCE_SECONDS
        while not _listens(port):
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def _listens(port: int) -> bool:
    # A connection would be taken for a client that measures.
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            other.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False
