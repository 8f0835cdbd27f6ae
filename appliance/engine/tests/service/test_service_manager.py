"""What daemons tell the service manager and the journal."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys

import pytest

from strongroom.service.log_lines import LONGEST_MESSAGE, PeopleLines
from strongroom.service.service_manager import notify

LOGGING = """
import logging
from strongroom.service.service_manager import begin_log
begin_log(verbose=False)
log = logging.getLogger("some.part")
log.debug("not shown")
log.info("two\\n<3>forged: %s", "lines\\r\\x1b[2J\\u2028\\u202e\\udcff \u00e9")
log.error("bad")
try:
    raise ValueError("one\\nERROR forged\\x1b[2J")
except ValueError as error:
    log.error("it failed: %s", error, exc_info=error)
log.warning("\\0" * 9000)
log.warning("")
"""
FIRST = r"some.part: two\n<3>forged: lines\r\x1b[2J\u2028\u202e\udcff é"
FAILED = r"some.part: it failed: one\nERROR forged\x1b[2J"
TOO_LONG = "some.part: " + (r"\x00" * 9000)[:LONGEST_MESSAGE] + "... (9000 characters)"


def logged(stream: str) -> list[str]:
    """What stderr gets; `stream` says what the journal is, {} is the pipe itself."""
    ours, theirs = os.pipe()
    pipe = os.fstat(theirs)
    given = stream.format(f"{pipe.st_dev}:{pipe.st_ino}")
    environment = {**os.environ, "JOURNAL_STREAM": given}
    subprocess.run([sys.executable, "-c", LOGGING], env=environment, stderr=theirs, check=True)
    os.close(theirs)
    with os.fdopen(ours, encoding="utf-8", newline="\n") as file:
        return file.read().removesuffix("\n").split("\n")


def test_lines_for_the_journal_bear_their_level_and_nobody_forges_one():
    first, bad, failed, *traceback, too_long, empty = logged("{}")
    assert first == f"<6>{FIRST}"
    assert bad == "<3>some.part: bad"
    assert failed == f"<3>{FAILED}"
    assert traceback[0] == "<3>  | Traceback (most recent call last):"
    assert traceback[-2:] == ["<3>  | ValueError: one", r"<3>  | ERROR forged\x1b[2J"]
    assert all(line.startswith("<3>  | ") for line in traceback)
    assert too_long == f"<4>{TOO_LONG}"
    assert empty == "<4>some.part: "


@pytest.mark.parametrize("stream", ["", "1:2"])
def test_lines_for_people_say_it_in_words_and_nobody_forges_one(stream):
    first, bad, failed, *traceback, too_long, empty = logged(stream)
    assert first == f"INFO {FIRST}"
    assert bad == "ERROR some.part: bad"
    assert failed == f"ERROR {FAILED}"
    assert traceback[0] == "  | Traceback (most recent call last):"
    assert traceback[-2:] == ["  | ValueError: one", r"  | ERROR forged\x1b[2J"]
    assert all(line.startswith("  | ") for line in traceback)
    assert too_long == f"WARNING {TOO_LONG}"
    assert empty == "WARNING some.part: "


def test_a_traceback_without_end_is_cut_in_the_middle():
    record = logging.LogRecord("part", logging.ERROR, "", 0, "deep", (), None)
    record.exc_text = "\n".join(["x" * 9000, *map(str, range(1, 1000))])
    lines = PeopleLines().format(record).splitlines()
    assert len(lines) == 202
    assert lines[1] == "  | " + "x" * LONGEST_MESSAGE + "... (9000 characters)"
    assert lines[100:103] == ["  | 99", "  | (800 lines more)", "  | 900"]
    assert lines[-1] == "  | 999"


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
    assert "READY=1" in caplog.text
