"""What a reload puts in force, on whichever way it was asked for, and what it says it does not."""

from __future__ import annotations

import socket

import pytest

RESTART = [
    "Address, Addresses or Port of the Director",
    "Working Directory of the Director",
    "Appliance Key File of the Director",
    "TLS Cipher Suites of the Director",
    "the Catalog",
]


def changed(configuration: str) -> str:
    for before, after in (
        (
            "Address = 127.0.0.1\n",
            "Address = 127.0.0.2; TLS Cipher Suites = TLS_AES_256_GCM_SHA384\n",
        ),
        ("FOLDER/state", "FOLDER/elsewhere"),
        ("FOLDER/appliance.key", "FOLDER/other.key"),
        ("Db Name = main", "Db Name = other"),
        ("Maximum Concurrent Jobs = 10", "Maximum Concurrent Jobs = 11"),
    ):
        assert before in configuration
        configuration = configuration.replace(before, after)
    return configuration


def test_what_needs_a_restart_is_named_until_it_was_restarted(own_director, admin):
    before = own_director.configuration
    own_director.configure(changed(before))
    report = admin.post("/reload").json()
    assert report["loaded"]
    assert report["restart_needed"] == RESTART
    status = admin.get("/status").json()
    assert status["restart_needed"] == RESTART
    assert any("restart" in warning for warning in status["warnings"])
    # Jobs are known, stored and found as before: the catalog and the folder are those of the start.
    assert admin.get("/snapshots").json()["items"]
    # What was changed back waits for nothing.
    own_director.configure(before)
    assert admin.post("/reload").json()["restart_needed"] == []
    assert admin.get("/status").json()["restart_needed"] == []


def test_the_signal_says_the_same(own_director, admin, caplog):
    own_director.configure(changed(own_director.configuration))
    own_director.reload()
    own_director.wait_for(lambda: admin.get("/status").json()["restart_needed"] == RESTART)
    assert f"{'; '.join(RESTART)}: " in caplog.text


@pytest.mark.parametrize("way", ["request", "signal"])
def test_a_client_that_is_to_be_dialled_is_dialled(own_director, admin, way):
    with socket.create_server(("127.0.0.1", 0)) as agent:
        agent.settimeout(30)
        port = agent.getsockname()[1]
        own_director.configure(
            own_director.configuration
            + f"Client {{ Name = far; Address = 127.0.0.1; Port = {port}; Password = x\n"
            "  Connection From Director To Client = yes }\n"
        )
        if way == "request":
            assert admin.post("/reload").json()["loaded"]
        else:
            own_director.reload()
        agent.accept()[0].close()


def test_a_misspelt_directive_stays_out_of_force(own_director, admin):
    own_director.configure(
        own_director.configuration.replace("Name = short;", "Name = short; Keep Dialy = 7;")
    )
    answer = admin.post("/reload")
    assert answer.status_code == 409
    assert "directive Keep Dialy; did you mean Keep Daily?" in answer.json()["message"]


def test_a_job_that_no_schedule_can_start_stays_out_of_force(own_director, admin):
    own_director.configure(
        own_director.configuration.replace("Full daily at 23:10", "Full feb on 30 at 23:10")
    )
    answer = admin.post("/reload")
    assert answer.status_code == 409
    assert "Schedule nights" in answer.json()["message"]
