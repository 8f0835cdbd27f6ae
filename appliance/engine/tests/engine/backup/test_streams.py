"""Standard input and the output of commands as sources."""

from __future__ import annotations

import os
import signal
import time

from kit.user import User, children_of, processes_of
from strongroom.engine.content.chunker import GREATEST_SIZE


def content(user: User, name: str, snapshot: str = "latest") -> bytes:
    return (user.restore(snapshot) / name).read_bytes()


def test_standard_input_becomes_a_file(user: User) -> None:
    data = os.urandom(20_000_000) + bytes(5_000_000)
    summary = user.backup("--stdin", "--stdin-name", "db.sql", data=data).summary
    assert (summary["files"], summary["size_bytes"]) == (1, len(data))
    assert content(user, "db.sql") == data
    again = user.backup("--stdin", "--stdin-name", "db.sql", data=data[:-1]).summary
    assert again["bytes_read"] == len(data) - 1
    assert again["new_bytes"] <= GREATEST_SIZE, "no more than the last chunk is new"
    assert content(user, "db.sql") == data[:-1]


def test_empty_input_is_an_empty_file_and_not_in_silence(user: User) -> None:
    assert set(user.backup("--stdin", data=b"", code=3).problems) == {"/stdin"}
    assert content(user, "stdin") == b""
    user.backup("--stdin", "--allow-empty", data=b"")
    words = ("--source", "command", "--stdin-name", "db.sql", "--", "true")
    assert set(user.backup(*words, code=3).problems) == {"/db.sql"}
    user.backup("--allow-empty", *words)


def test_input_and_paths_exclude_each_other(user: User) -> None:
    assert user.backup("--stdin", "/etc", code=2, data=b"").error == "usage"
    assert user.backup("--stdin", "--source", "command", code=2, data=b"").error == "usage"
    assert user.backup("--stdin", "--stdin-name", "a/b", code=2, data=b"").error == "usage"
    assert user.backup("--source", "unheard-of", "x", code=2).error == "usage"
    assert user.backup("--source-option", "key", "--stdin", code=2, data=b"").error == "usage"


def test_a_command_s_output_becomes_a_file_with_a_signature(user: User) -> None:
    user.backup(
        "--source", "command", "--stdin-name", "out", "--signature", "sha256", "--",
        "sh", "-c", "printf hello; echo noise >&2",
    )  # fmt: skip
    assert content(user, "out") == b"hello"
    (entry,) = user.listed().values()
    assert entry["signature"].startswith("2cf24dba5fb0a30e26e83b2ac5b9e29e")
    assert (entry["mode"], entry["kind"]) == ("0600", "file")


def test_a_command_that_fails_leaves_no_snapshot(user: User) -> None:
    for script in ("head -c 5000000 /dev/urandom; exit 3", "exit 1", "kill -9 $$"):
        outcome = user.backup("--source", "command", "--", "sh", "-c", script, code=4)
        assert outcome.error == "source"
        assert "no snapshot was made" in outcome.messages
    assert user.backup("--source", "command", "--", "/missing/command", code=4).error == "source"
    assert user.backup("--source", "command", code=2).error == "usage"
    assert user.snapshots() == []


def test_a_silent_command_ends_with_its_backup(user: User) -> None:
    """However the backup ends, by a signal or killed, nothing is left running."""
    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9)):
        process = user.start(
            "backup", "--source", "command", "--", "sleep", "1000", start_new_session=True
        )
        deadline = time.monotonic() + 30
        while not any(children_of(shard) for shard in children_of(process.pid)):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(number)
        assert user.end(process).code == code
        deadline = time.monotonic() + 10
        while processes_of(process.pid):
            assert time.monotonic() < deadline, processes_of(process.pid)
            time.sleep(0.02)
    assert user.snapshots() == []
