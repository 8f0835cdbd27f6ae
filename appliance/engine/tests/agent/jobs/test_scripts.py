"""Scripts around jobs: the rules of RunScript, allowed folders, time limit, output to the log."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from kit.agent_site import AgentSite
from strongroom.agent.jobs.scripts import ScriptRules, run_script
from strongroom.base.errors import ScriptError
from strongroom.net.control.messages import Cancel, Script


def executable(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def output_of(folder: Path, command: str, seconds: int = 60, **values: str) -> list[str]:
    lines: list[str] = []
    rules = ScriptRules((str(folder),), seconds, {"%": "%", **values})
    run_script(Script(command=command, when="before"), rules, lines.append)
    return lines


def test_output_of_both_streams_becomes_lines(tmp_path: Path) -> None:
    path = executable(tmp_path / "talk", "echo one; echo two >&2; printf three")
    assert output_of(tmp_path, path) == ["one", "two", "three"]


def test_values_are_filled_in_as_words_and_no_shell_sees_them(tmp_path: Path) -> None:
    executable(tmp_path / "show", 'for word; do echo "[$word]"; done')
    lines = output_of(tmp_path, "show %n '%c x' 100%% %q", n="a; echo b", c="web 1")
    assert lines == ["[a; echo b]", "[web 1 x]", "[100%]", "[%q]"]


@pytest.mark.parametrize(
    "command", ["/bin/true", "../true", "sub/../../true", "link", "folder", ""]
)
def test_only_files_in_allowed_folders_are_run(tmp_path: Path, command: str) -> None:
    allowed = tmp_path / "allowed"
    (allowed / "folder").mkdir(parents=True)
    (allowed / "sub").mkdir()
    executable(tmp_path / "true", "exit 0")
    (allowed / "link").symlink_to("/bin/true")
    with pytest.raises(ScriptError):
        output_of(allowed, command)


def test_a_script_that_anybody_may_change_is_not_run(tmp_path: Path) -> None:
    path = executable(tmp_path / "open", "exit 0")
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(ScriptError, match="anybody"):
        output_of(tmp_path, path)


def test_a_script_that_takes_too_long_is_ended_with_all_it_started(tmp_path: Path) -> None:
    path = executable(
        tmp_path / "slow", f"trap '' TERM; sleep 600 & echo $! > {tmp_path}/pid; sleep 600"
    )
    with pytest.raises(ScriptError, match="1 seconds"):
        output_of(tmp_path, path, seconds=1)
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 30
    while os.path.exists(f"/proc/{pid}"):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_what_a_script_leaves_running_is_not_waited_for(tmp_path: Path) -> None:
    path = executable(tmp_path / "leave", f"sleep 60 & echo $! > {tmp_path}/pid; echo ready")
    before = time.monotonic()
    assert output_of(tmp_path, path) == ["ready"]
    assert time.monotonic() - before < 30
    os.kill(int((tmp_path / "pid").read_text()), 9)


def test_a_status_other_than_0_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match="status 7"):
        output_of(tmp_path, executable(tmp_path / "fail", "exit 7"))
    with pytest.raises(ScriptError, match="signal 9"):
        output_of(tmp_path, executable(tmp_path / "die", "kill -9 $$"))
    (tmp_path / "text").write_text("no program")
    with pytest.raises(ScriptError, match="cannot be"):
        output_of(tmp_path, "text")


def test_long_output_is_bounded(tmp_path: Path) -> None:
    path = executable(tmp_path / "flood", "head -c 300000 /dev/zero | tr '\\0' x; seq 20000")
    lines = output_of(tmp_path, path)
    assert len(lines) == 10_001
    assert max(map(len, lines)) <= 4096
    assert lines[-1].startswith("... and ")


def test_scripts_run_before_and_after_and_speak_to_the_log(agent: AgentSite) -> None:
    (agent.source / "a").write_text("a")
    before = agent.script("before", f"echo made for $1; touch {agent.source}/made")
    after = agent.script("after", "echo it was $1")
    request = agent.backup(
        Script(command=f"{before} %n/%c/%l", when="before"),
        Script(command=f"{after} %e", when="after"),
        Script(command=f"{after} never", when="after", on_success=False, on_failure=True),
    )
    agent.director.send(request)
    ended = agent.director.ended(request.run_id)
    assert (ended.status, ended.summary["files"]) == ("done", 2)
    lines = agent.director.log(request.run_id)
    assert "made for nightly/web1/Incremental" in lines
    assert "it was OK" in lines
    assert "it was never" not in lines


def test_a_script_that_fails_before_fails_the_job(agent: AgentSite) -> None:
    (agent.source / "a").write_text("a")
    fail = agent.script("fail", "exit 1")
    tell = agent.script("tell", "echo after $1")
    request = agent.backup(
        Script(command=fail, when="before"),
        Script(command=f"{tell} %e", when="after", on_success=False, on_failure=True),
        Script(command=f"{tell} success", when="after"),
    )
    agent.director.send(request)
    ended = agent.director.ended(request.run_id)
    assert (ended.status, ended.error_id, ended.snapshot) == ("failed", "script", "")
    assert agent.snapshots() == []
    lines = agent.director.log(request.run_id)
    assert "after Failed" in lines
    assert "after success" not in lines


def test_a_script_whose_failure_does_not_matter_only_warns(agent: AgentSite) -> None:
    (agent.source / "a").write_text("a")
    fail = agent.script("fail", "exit 1")
    request = agent.backup(Script(command=fail, when="before", fail_job_on_error=False))
    agent.director.send(request)
    assert agent.director.ended(request.run_id).status == "done"
    assert any("the job continues" in line for line in agent.director.log(request.run_id))


def test_a_script_that_fails_after_fails_the_job_but_not_the_snapshot(agent: AgentSite) -> None:
    (agent.source / "a").write_text("a")
    request = agent.backup(Script(command=agent.script("fail", "exit 1"), when="after"))
    agent.director.send(request)
    ended = agent.director.ended(request.run_id)
    assert (ended.status, ended.error_id) == ("failed", "script")
    assert [snapshot.id for snapshot in agent.snapshots()] == [ended.snapshot]


def test_cancelling_ends_a_script_and_cleans_up_after_it(agent: AgentSite) -> None:
    wait = agent.script("wait", "echo waiting; sleep 600")
    clean = agent.script("clean", "echo cleaned")
    request = agent.backup(
        Script(command=wait, when="before"),
        Script(command=clean, when="after", on_success=False, on_failure=True),
    )
    agent.director.send(request)
    agent.director.await_log(request.run_id, "waiting")
    agent.director.send(Cancel(run_id=request.run_id))
    assert agent.director.ended(request.run_id).status == "cancelled"
    assert "cleaned" in agent.director.log(request.run_id)
