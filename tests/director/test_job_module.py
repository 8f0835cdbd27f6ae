"""`strongroom_job` against a real director."""

from __future__ import annotations

import socket
import socketserver
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from urllib.parse import urlsplit

import pytest
from ansible_collections.strongroom.backup.plugins.modules import strongroom_job

ACTIVE = ("queued", "waiting")


def runs(house):
    return house.command("runs")


def test_a_job_is_run_and_its_result_returned(house, run_module):
    told = run_module(strongroom_job, **house.credential, job="web1", level="full")
    assert told["changed"]
    assert (told["state"], told["level"], told["files"], told["errors"]) == ("done", "full", 2, 0)
    assert told["bytes"] == len("Dear all\nO\n")
    assert told["seconds"] > 0
    assert told["bytes_per_second"] >= 0
    assert told["stored_bytes"] > 0
    assert told["tls"]["mode"] in ("tls", "ktls")
    assert told["tls"]["cipher"].startswith("TLS_")
    assert told["snapshot"]
    assert told["run"]["client"] == "web1"


def test_a_job_of_a_client_without_tls_says_so(house, run_module):
    told = run_module(strongroom_job, **house.credential, job="db1")
    assert told["tls"]["mode"] == "off"
    assert told["tls"]["ktls_proven"] is False


def test_the_director_is_found_as_the_command_finds_it(house, run_module, monkeypatch):
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HOME", house.home)
    assert run_module(strongroom_job, name="web1")["state"] == "done"


def test_in_check_mode_nothing_is_started(house, run_module):
    before = len(runs(house))
    told = run_module(strongroom_job, check=True, **house.credential, job="web1")
    assert told["changed"]
    assert told["msg"] == "would run job web1 on web1, level incremental; nothing was started"
    assert len(runs(house)) == before


def test_in_check_mode_an_estimate_counts(house, run_module):
    told = run_module(strongroom_job, check=True, **house.credential, job="web1", estimate=True)
    assert told["files"] == 2
    assert told["run"]["kind"] == "estimate"
    assert not told["snapshot"]
    assert told["msg"].endswith("2 files, 11 bytes; nothing was stored")


def test_a_job_that_fails_fails_the_task_and_says_why(house, run_module):
    told = run_module(strongroom_job, **house.credential, job="broken")
    assert told["failed"]
    assert "broken is failed" in told["msg"]
    assert "/nowhere/at/all" in told["msg"]
    assert told["error_id"] == "source"


def test_an_incomplete_backup_fails_unless_it_is_accepted(house, run_module):
    told = run_module(strongroom_job, **house.credential, job="half")
    assert told["failed"]
    assert "accept_incomplete" in told["msg"]
    assert any("/nowhere/at/all" in line for line in told["log"])
    told = run_module(strongroom_job, **house.credential, job="half", accept_incomplete=True)
    assert "failed" not in told
    assert told["state"] == "incomplete"
    assert told["files"] == 2


def test_a_play_is_warned_of_an_incomplete_backup_that_it_accepts(house, play):
    task = {"strongroom.backup.strongroom_job": {**house.credential, "job": "half", "accept_incomplete": True}}
    shown = " ".join(play([task]).split())
    assert "[WARNING]" in shown
    assert "half is incomplete" in shown


def test_a_run_that_cannot_end_in_time_continues(house, run_module):
    told = run_module(strongroom_job, **house.credential, job="web2", timeout=1)
    assert told["failed"]
    assert told["changed"]
    assert "it continues" in told["msg"]
    (found,) = [one for one in runs(house) if one["id"] == told["run"]["id"]]
    assert found["state"] in ACTIVE
    house.command("cancel", told["run"]["id"])


def test_without_waiting_the_run_is_only_queued(house, run_module):
    told = run_module(strongroom_job, **house.credential, job="web2", wait=False)
    assert told["changed"]
    assert told["state"] in ACTIVE
    house.command("cancel", told["run"]["id"])


def test_a_run_that_is_cancelled_meanwhile_fails_the_task(house, run_module):
    def cancel():
        while not (waiting := [one for one in runs(house) if one["job"] == "web2" and one["state"] in ACTIVE]):
            time.sleep(0.1)
        house.command("cancel", waiting[0]["id"])

    with ThreadPoolExecutor() as others:
        done = others.submit(cancel)
        # A limit, so that a fault in `cancel` is shown and does not leave the test waiting.
        told = run_module(strongroom_job, **house.credential, job="web2", timeout=120)
        done.result()
    assert told["failed"]
    assert "web2 is cancelled" in told["msg"]
    assert told["changed"] is False


class Link(socketserver.ThreadingTCPServer):
    """A way to the director that lets so many connections through, and refuses all others."""

    allow_reuse_address = True

    def __init__(self, port, allowed):
        self.port, self.allowed = port, allowed
        super().__init__(("127.0.0.1", 0), Passing)


class Passing(socketserver.BaseRequestHandler):
    def handle(self):
        self.server.allowed -= 1
        if self.server.allowed < 0:
            return
        with socket.create_connection(("127.0.0.1", self.server.port)) as there:
            back = threading.Thread(target=pour, args=(there, self.request))
            back.start()
            pour(self.request, there)
            back.join()


def pour(source, sink):
    with suppress(OSError):
        while part := source.recv(1 << 16):
            sink.sendall(part)
        sink.shutdown(socket.SHUT_WR)


def test_a_director_that_is_gone_while_a_run_is_awaited_is_said_with_the_run(house, run_module):
    with Link(urlsplit(house.url).port, allowed=3) as link:
        threading.Thread(target=link.serve_forever, daemon=True).start()
        place = {**house.credential, "director": "https://localhost:%d" % link.server_address[1]}
        told = run_module(strongroom_job, **place, job="web2")
        link.shutdown()
    assert told["failed"]
    assert "of web2 was started, and may continue: https://localhost" in told["msg"]
    assert told["error_id"] == "director"
    (waiting,) = [one for one in runs(house) if one["job"] == "web2" and one["state"] in ACTIVE]
    house.command("cancel", waiting["id"])


def test_a_job_that_is_not_there_is_named(house, run_module):
    told = run_module(strongroom_job, **house.credential, job="nonesuch")
    assert told["failed"]
    assert told["error_id"] == "unknown-name"
    assert "nonesuch" in told["msg"]


def test_a_job_that_is_not_there_is_named_in_check_mode_too(house, run_module):
    told = run_module(strongroom_job, check=True, **house.credential, job="nonesuch")
    assert told["failed"]
    assert told["msg"] == "the director has no job 'nonesuch' that you may see"


def test_a_token_may_only_what_its_profile_allows(house, run_module):
    told = run_module(strongroom_job, **house.viewer, job="web1")
    assert told["failed"]
    assert told["error_id"] == "not-permitted"
    assert house.viewer_token not in str({**told, "invocation": None})


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"director": "https://localhost:1"}, "cannot be reached"),
        ({"director": "ftp://x"}, "director: 'ftp://x' names none"),
        ({"identity": "/nowhere"}, "identity: cannot read"),
        ({"identity": None, "token_file": "/nowhere"}, "token_file: cannot read /nowhere"),
        ({"identity": None}, "not-authenticated"),
        ({"identity": None, "token": "srt_none", "authority": "/nowhere"}, "authority: cannot read"),
        ({"authority": "/etc/ssl/certs/ca-certificates.crt"}, "the option authority says"),
    ],
)
def test_what_is_wrong_with_the_credential_is_said(house, run_module, options, text):
    given = {**house.credential, "authority": house.authority, **options}
    told = run_module(strongroom_job, **{name: value for name, value in given.items() if value}, job="web1")
    assert told["failed"]
    assert text in told["msg"] + " " + told["error_id"]
