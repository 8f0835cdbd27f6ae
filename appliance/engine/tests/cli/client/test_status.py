"""`status` shows what is wrong first; `status --check` says it to a monitoring system."""

import os
import re
import time

import pytest

from kit.ports import free_port
from kit.simulated_agent import SimulatedAgent
from strongroom.net.control.messages import StartBackup


def fail_a_run(director, command, client="web1"):
    """Run a job that fails; returns when the director knows that something is wrong."""
    with SimulatedAgent(director, client) as agent:
        command("run", f"nightly-{client}", place=place(director))
        run_id = agent.expect(StartBackup).run_id
        agent.started(run_id)
        agent.ended(run_id, "failed", error="no space | left", error_id="store")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            (status,) = command("status", "--json", place=place(director)).objects
            if status["problems"]:
                return status["problems"]
            time.sleep(0.1)
    raise AssertionError("nothing was wrong within a minute")


def place(director, who="admin"):
    folder = os.fsdecode(director.identity(who).folder)
    return ["--director", director.url, "--identity", folder]


def test_what_is_wrong_comes_first_with_what_to_do(own_director, command):
    answer = command("status", place=place(own_director))
    assert "OK" in answer.output.splitlines()[1]
    (problem,) = fail_a_run(own_director, command)
    assert (problem["event"], problem["client"]) == ("job-failed", "web1")
    lines = command("status", place=place(own_director)).output.splitlines()
    assert lines[1].startswith("error: the job nightly-web1 of web1 failed, since ")
    said = lines[2 : lines.index("running and waiting: nothing")]
    assert any("no space | left" in line for line in said)
    assert any("strongroom log" in line for line in said)


def test_a_caller_sees_only_what_is_wrong_with_clients_of_theirs(own_director, command):
    fail_a_run(own_director, command)
    shown = command("status", place=place(own_director, "ann")).output
    assert "nightly-web1 of web1 failed" in shown
    own_director.configure(
        own_director.configuration.replace('Client ACL = "web.*"', "Client ACL = db1")
    )
    command("reload", place=place(own_director))
    assert "failed" not in command("status", place=place(own_director, "ann")).output


def test_check_is_a_line_and_a_code_for_a_monitoring_system(own_director, command):
    fine = command("status", "--check", place=place(own_director))
    assert re.fullmatch(
        r"STRONGROOM OK - nothing is wrong, 0 of \d+ clients connected \| "
        r"errors=0;;0;0 warnings=0;0;;0 running=0;;;0 waiting=0;;;0 clients_connected=0;;;0;\d+\n",
        fine.output,
    )
    fail_a_run(own_director, command)
    bad = command("status", "--check", place=place(own_director), exit_code=2)
    (line,) = bad.output.splitlines()
    text, figures = line.split(" | ")
    assert text == "STRONGROOM CRITICAL - 1 error: the job nightly-web1 of web1 failed"
    assert figures.startswith("errors=1;;0;0 warnings=0;0;;0 ")
    assert bad.messages == ""
    (said,) = command("status", "--check", "--json", place=place(own_director), exit_code=2).objects
    assert (said["type"], said["state"]) == ("status_check", "CRITICAL")


@pytest.mark.parametrize(
    "words",
    [
        ["status", "--check", "--warning=5"],
        ["status", "--check", "surplus"],
        ["status", "--no-such", "--check", "--json"],
        ["status", "--check", "--tls", "maybe"],
        ["status", "--check", "--identity", "/no/such/folder", "--director", "https://x"],
        ["--no-such", "status", "--check"],
    ],
)
def test_check_that_is_asked_in_a_wrong_way_is_unknown(command, words):
    answer = command(*words, place=[], exit_code=3)
    if "--json" in words:
        assert [one["state"] for one in answer.objects] == ["UNKNOWN"]
    else:
        assert answer.output.startswith("STRONGROOM UNKNOWN - ")
        assert answer.output.count("\n") == 1
    assert answer.messages == ""


def test_check_of_a_director_that_gives_no_answer_is_unknown(director, command):
    nobody = ["--director", f"https://127.0.0.1:{free_port()}", *place(director)[2:]]
    answer = command("status", "--check", place=nobody, exit_code=3)
    assert answer.output.startswith("STRONGROOM UNKNOWN - ")
    assert answer.output.count("\n") == 1
    assert answer.messages == ""
