"""What daemons tell the service manager and the journal."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from strongroom.daemons.service_manager import notify

LOGGING = """
import logging
from strongroom.daemons.service_manager import begin_log
begin_log(verbose=False)
logging.getLogger("some.part").debug("not shown")
logging.getLogger("some.part").info("two\\nlines")
logging.getLogger("some.part").error("bad")
"""


def logged(stream: str) -> list[str]:
    """What stderr gets; `stream` says what the journal is, {} is the pipe itself."""
    ours, theirs = os.pipe()
    pipe = os.fstat(theirs)
    given = stream.format(f"{pipe.st_dev}:{pipe.st_ino}")
    environment = {**os.environ, "JOURNAL_STREAM": given}
    subprocess.run([sys.executable, "-c", LOGGING], env=environment, stderr=theirs, check=True)
    os.close(theirs)
    with os.fdopen(ours) as file:
        return file.read().splitlines()


def test_lines_for_the_journal_bear_their_level():
    assert logged("{}") == ["<6>some.part: two", "<6>lines", "<3>some.part: bad"]


@pytest.mark.parametrize("stream", ["", "1:2"])
def test_lines_for_people_say_it_in_words(stream):
    assert logged(stream) == ["INFO some.part: two", "lines", "ERROR some.part: bad"]


@pytest.mark.parametrize("beginning", ["", "@"])
def test_the_service_manager_hears_what_it_is_told(tmp_path, monkeypatch, beginning):
    path = f"{tmp_path}/socket"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0" + path if beginning else path)
        monkeypatch.setenv("NOTIFY_SOCKET", beginning + path)
        notify("READY=1")
        manager.settimeout(30)
        assert manager.recv(100) == b"READY=1"


def test_without_a_service_manager_nobody_is_told(monkeypatch, caplog):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify("READY=1")
    assert caplog.text == ""
    monkeypatch.setenv("NOTIFY_SOCKET", "/nowhere/at/all")
    notify("READY=1")
    assert "the service manager cannot be told READY=1" in caplog.text
