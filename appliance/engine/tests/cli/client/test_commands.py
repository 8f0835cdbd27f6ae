"""Console commands against a real director, as people and scripts use them."""

import dataclasses
import re
import stat

import pytest

from kit.simulated_agent import SimulatedAgent
from strongroom.cli.client import run_watch
from strongroom.cli.client.view import run_exit_code
from strongroom.cli.main import main
from strongroom.cli.options import rate as rate_of
from strongroom.director.catalog.database import open_catalog
from strongroom.director.catalog.snapshots import add_snapshots, load_snapshot
from strongroom.net.control.messages import (
    Cancel,
    SetBandwidth,
    StartBackup,
    StartEstimate,
    StartRestore,
)


def back_up(agent):
    run_id = agent.expect(StartBackup).run_id
    agent.started(run_id)
    agent.log(run_id, "reading /etc")
    agent.progress(run_id, files=3, bytes=2048)
    agent.ended(run_id, "failed", error="no space left", error_id="store")


def estimate(agent):
    order = agent.expect(StartEstimate)
    agent.started(order.run_id)
    if order.listing:
        agent.log(order.run_id, "/etc/passwd\n/etc/ssh/sshd_config")
    agent.progress(order.run_id, files=12, bytes=4096)
    agent.ended(order.run_id, summary={"files": 12, "bytes": 4096})


def restore(agent):
    run_id = agent.expect(StartRestore).run_id
    agent.started(run_id)
    agent.ended(run_id, "incomplete", summary={"problems": {"owner": 1}})


def queued(command, job="nightly-db1"):
    return command("run", job, "--json").objects[0]["id"]


def test_status_shows_what_runs_and_what_is_due(command):
    run = queued(command)
    answer = command("status")
    assert answer.output.startswith("director boss, version ")
    assert "of 3 clients connected" in answer.output
    assert re.search(rf"^{run[:8]}  nightly-db1  db1 ", answer.output, re.MULTILINE)
    due = r"^20\d\d-\d\d-\d\d 23:10:00  nightly-web1  web1  "
    assert re.search(due, answer.output, re.MULTILINE)
    (status,) = command("status", "--json").objects
    assert status["type"] == "status"
    assert run in {one["id"] for one in status["active"]}
    command("cancel", run[:8])


def test_clients_are_listed_with_their_state(command, director):
    with SimulatedAgent(director, "web2"):
        answer = command("clients")
        lines = answer.output.splitlines()
        assert lines[0].split()[:2] == ["CLIENT", "STATE"]
        assert {tuple(line.split()[:2]) for line in lines[1:]} == {
            ("db1", "offline"), ("web1", "offline"), ("web2", "connected"),
        }  # fmt: skip
    assert [one["name"] for one in command("clients", "web1", "--json").objects] == ["web1"]
    assert "unknown-name" in command("clients", "none", exit_code=60).messages


def test_one_sees_what_one_may_see(command):
    assert {one["name"] for one in command("jobs", "--json", who="ann").objects} == {
        "nightly-web1", "nightly-web2",
    }  # fmt: skip
    answer = command("clients", "db1", who="ann", exit_code=63)
    assert "[not-permitted]: Client 'db1'" in answer.messages
    assert command("audit", who="eve", exit_code=63).output == ""


def test_jobs_and_runs_are_listed(command):
    run = queued(command)
    command("cancel", run)
    answer = command("jobs")
    assert re.search(r"^nightly-web1 +backup +incremental +web1 ", answer.output, re.MULTILINE)
    assert [job["client"] for job in command("jobs", "--client", "db1", "--json").objects] == [
        "db1"
    ]
    listed = command("runs", "--client", "db1", "--state", "cancelled", "--json").objects
    assert run in {one["id"] for one in listed}
    assert len(command("runs", "--last", "1", "--json").objects) == 1
    assert f"{run[:8]}  nightly-db1" in command("runs").output


def test_a_run_is_followed_to_its_end_and_its_exit_code_is_the_jobs(command, working_agent):
    working_agent("web1", back_up)
    answer = command("run", "nightly-web1", "--level", "full", "--watch", exit_code=30)
    assert "reading /etc" in answer.output
    assert answer.output.splitlines()[-1].endswith("no space left")
    assert "is failed: 3 files, 2.0 KiB" in answer.output
    run = command("runs", "--job", "nightly-web1", "--json").objects[0]["id"]
    log = command("log", run)
    assert "reading /etc" in log.output
    lines = command("log", run, "--json").objects
    assert [line["sequence"] for line in lines] == sorted(line["sequence"] for line in lines)
    again = command("watch", run[:8], "--json", exit_code=30).objects
    assert [one["text"] for one in again if one["type"] == "log"] == [one["text"] for one in lines]
    assert again[-1]["type"] == "run"
    assert again[-1]["state"] == "failed"


def test_a_duplicate_that_is_refused_at_once_is_no_success(command, own_director):
    rules = "Allow Duplicate Jobs = no; Cancel Queued Duplicates = no"
    own_director.configure(
        own_director.configuration.replace(
            "JobDefs { Name = usual;", f"JobDefs {{ {rules}; Name = usual;"
        )
    )
    identity = own_director.identity("admin").folder.decode()
    place = ["--director", own_director.url, "--identity", identity]
    command("reload", place=place)
    first = command("run", "nightly-web1", "--json", place=place).objects[0]
    for options in ([], ["--watch"]):
        answer = command("run", "nightly-web1", "--json", *options, place=place, exit_code=61)
        assert (answer.objects[-1]["type"], answer.objects[-1]["state"]) == ("run", "cancelled")
        assert "[conflict]" in answer.messages
        assert first["id"] in answer.messages


def test_a_verify_that_found_differences_ends_as_on_the_spot():
    run = {"state": "incomplete", "error_id": "check-failed", "kind": "verify"}
    assert run_exit_code(run) == 21
    assert run_exit_code({**run, "error_id": "damage"}) == 20
    assert run_exit_code({**run, "error_id": ""}) == 3


def test_a_watch_that_the_director_ends_says_why(command, director, home):
    authority = director.identity("boss", "director").folder.decode() + "/authority.pem"
    file = home / "token"
    made = command("token", "create", "ann", "--output", str(file)).output
    place = ["--director", director.url, "--token-file", str(file), "--authority", authority]
    with SimulatedAgent(director, "web1") as agent:
        run = queued(command, "nightly-web1")
        agent.expect(StartBackup)
        agent.started(run)
        agent.log(run, "reading /etc")
        token_id = re.search(r"token (\S+) is in", made)[1]
        tell_line = run_watch.tell_line

        def withdraw_once_it_is_told(line, terminal):
            tell_line(line, terminal)
            if line["text"] == "reading /etc":
                assert admin.delete(f"/tokens/{token_id}").status_code == 200

        with director.client("admin") as admin, pytest.MonkeyPatch.context() as patch:
            patch.setattr(run_watch, "tell_line", withdraw_once_it_is_told)
            answer = command("watch", run[:8], place=place, exit_code=62)
        agent.ended(run)
    assert "reading /etc" in answer.output
    (said,) = answer.messages.splitlines()
    assert said.startswith("strongroom: error [not-authenticated]: run ")
    assert "this token is unknown, expired or revoked; the run itself is not affected" in said
    command("watch", run)


def test_cancel_and_bandwidth(command, director):
    with SimulatedAgent(director, "web2") as agent:
        run = queued(command, "nightly-web2")
        agent.expect(StartBackup)
        agent.started(run)
        director.wait_for(
            lambda: command("runs", "--json", "--last", "1").objects[0]["state"] == "running"
        )
        answer = command("bandwidth", run[:8], "2m")
        assert "at most 2.0 MiB/s" in answer.output
        assert agent.expect(SetBandwidth).maximum_bytes_per_second == 2 << 20
        assert "without a limit" in command("bandwidth", run[:8], "none").output
        assert agent.expect(SetBandwidth).maximum_bytes_per_second == 0
        lines = [one["text"] for one in command("log", run[:8], "--json").objects if "text" in one]
        assert any(text.startswith("no limit from now on, by ") for text in lines)
        for rate in ("fast", "0.2", "10 mb/h"):
            assert "[usage]" in command("bandwidth", run[:8], rate, exit_code=2).messages
        answer = command("cancel", run[:8])
        assert "is cancelling: its agent has not confirmed it yet" in answer.output
        (row,) = [line for line in command("status").output.splitlines() if run[:8] in line]
        assert " cancelling " in row
        agent.expect(Cancel)
        agent.ended(run, "cancelled")
    assert "[conflict]" in command("cancel", run, exit_code=61).messages
    assert "[conflict]" in command("accept", run, exit_code=61).messages
    command("watch", run, exit_code=130)


@pytest.mark.parametrize(
    ("rate", "bytes_per_second"),
    [
        ("20mb/s", 20_000_000),
        ("20 MB/s", 20_000_000),
        ("500k/s", 500 << 10),
        ("1m 512k", 1536 << 10),
        ("10mb", 10_000_000),
        ("1g", 1 << 30),
        ("4096", 4096),
        ("0", 0),
        ("None", 0),
    ],
)
def test_a_rate_is_written_as_in_the_configuration(rate, bytes_per_second):
    assert rate_of(rate) == bytes_per_second


def test_the_help_of_bandwidth_says_how_a_rate_is_written(capsys):
    with pytest.raises(SystemExit):
        main(["bandwidth", "--help"])
    written = capsys.readouterr().out
    _, _, arguments = written.partition("RATE  ")
    assert "20mb/s" in arguments
    assert "none" in arguments


def test_an_estimate_counts(command, working_agent):
    working_agent("web1", estimate)
    assert command("estimate", "nightly-web1").output == "12 files, 4.0 KiB\n"


def test_an_estimate_may_list(command, working_agent):
    working_agent("web1", estimate)
    lines = command("estimate", "nightly-web1", "--listing").output.splitlines()
    assert [one.split()[-1] for one in lines if "/etc" in one] == [
        "/etc/passwd",
        "/etc/ssh/sshd_config",
    ]


def test_a_restore_through_the_director(command, director, working_agent):
    working_agent("web2", restore)
    words = ["restore", f"latest:{director.tree}/etc", "--host", "web1"]
    answer = command(*words, "--client", "web2", "--target", "/srv/restore", exit_code=3)
    assert "is incomplete" in answer.output
    newest = director.snapshots[1].id
    answer = command(
        "restore", newest[:10], "--client", "web1", "--target", "/x", "--background", "--json"
    )
    (run,) = answer.objects
    assert (run["kind"], run["client"], run["snapshot"]) == ("restore", "web1", newest)
    command("cancel", run["id"])


def test_the_latest_of_a_client_with_several_jobs_has_to_be_said(command, own_director):
    dump = "Job { Name = dump-web1; Job Defs = usual; Client = web1; FileSet = data }\n"
    own_director.configure(own_director.configuration + dump)
    identity = own_director.identity("admin").folder.decode()
    place = ["--director", own_director.url, "--identity", identity]
    command("reload", place=place)
    words = ["restore", "latest", "--host", "web1", "--client", "web1", "--target", "/x"]
    words += ["--background", "--json"]
    # The other job has no backup yet.
    newest = own_director.snapshots[1]
    answer = command(*words, place=place)
    assert answer.objects[0]["snapshot"] == newest.id
    assert "nightly-web1 of web1" in answer.messages
    catalog = open_catalog(f"sqlite:///{own_director.folder}/state/main.sqlite")
    entry = load_snapshot(catalog, newest.id)
    later = dataclasses.replace(
        entry,
        id="ab" * 32,
        job="dump-web1",
        fileset="data",
        start_ns=entry.start_ns + 10**9,
    )
    add_snapshots(catalog, [later])
    catalog.close()
    answer = command(*words, place=place, exit_code=2)
    assert "nightly-web1 (newest " in answer.messages
    assert "dump-web1 (newest " in answer.messages
    for job, snapshot in (("nightly-web1", newest.id), ("dump-web1", later.id)):
        answer = command(*words, "--job", job, place=place)
        assert answer.objects[0]["snapshot"] == snapshot


def test_the_latest_is_a_copy_only_where_the_original_is_gone(command, own_director, copied):
    original, copy = copied
    identity = own_director.identity("admin").folder.decode()
    place = ["--director", own_director.url, "--identity", identity]
    words = ["restore", "latest", "--host", "web1", "--client", "web1", "--target", "/x"]
    answer = command(*words, "--background", "--json", place=place)
    assert answer.objects[0]["snapshot"] == original.id
    assert "is a copy" not in answer.messages
    with own_director.client("admin") as admin:
        first, second, *_ = admin.get("/snapshots", params={"client": "web1"}).json()["items"]
        assert (first["id"], first["storage"], first["original"]) == (original.id, "vault", "")
        assert (second["id"], second["storage"]) == (copy.id, "offsite")
        assert second["original"] == original.id
        assert admin.delete(f"/snapshots/{original.id}").status_code == 200
    # This director has no storage of that name.
    answer = command(*words, "--background", place=place, exit_code=60)
    assert "storage 'offsite'" in answer.messages
    assert f"{copy.id[:8]} is a copy" in answer.messages


@pytest.mark.parametrize(
    ("words", "exit_code", "told"),
    [
        (["latest", "--target", "/x"], 2, "`latest` needs --host"),
        (["ffff0000", "--target", "/x"], 5, "[snapshot-not-found]"),
        (["latest", "--host", "web2", "--target", "/x"], 5, "no snapshot of web2"),
        (["latest", "--host", "web1", "--target", "x"], 2, "an absolute path"),
        (["latest", "--host", "web1", "--target", "/x", "--verify"], 2, "--verify works without"),
    ],
)
def test_a_restore_that_cannot_be_is_told(command, words, exit_code, told):
    assert told in command("restore", *words, exit_code=exit_code).messages


def test_where_one_may_not_restore_to(command, director):
    words = ["restore", director.snapshots[0].id, "--target"]
    assert "Where ACL" in command(*words, "/etc", who="ann", exit_code=63).messages


def test_tokens_are_made_used_and_withdrawn(command, director, home):
    file = home / "token"
    answer = command("token", "create", "ann", "--lifetime", "1d", "--output", str(file))
    assert file.read_text().strip() not in answer.output + answer.messages
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "[usage]" in command("token", "create", "ann", "-o", str(file), exit_code=2).messages
    authority = director.identity("boss", "director").folder.decode() + "/authority.pem"
    place = ["--director", director.url, "--token-file", str(file), "--authority", authority]
    assert "nightly-web1" in command("jobs", place=place).output
    token_id = re.search(r"token (\S+) is in", answer.output)[1]
    assert token_id in command("token", "list").output
    command("token", "withdraw", token_id)
    assert "[not-authenticated]" in command("jobs", place=place, exit_code=62).messages
    shown = command("token", "create", "ann", "--lifetime", "never")
    assert shown.output.startswith("srt_")
    assert shown.output.count("\n") == 1


def test_a_token_that_cannot_be_made_leaves_no_file(command, home):
    command("token", "create", "nobody", "-o", str(home / "token"), exit_code=60)
    assert not (home / "token").exists()


def test_the_audit_log_names_who_was_denied(command):
    command("audit", who="ann", exit_code=63)
    answer = command("audit", "--who", "ann", "--last", "1")
    assert re.search(
        r" ann +operator +127.0.0.1 +denied +GET /api/v1/audit +not-permitted", answer.output
    )
    (entry,) = command("audit", "--who", "ann", "--last", "1", "--json").objects
    assert entry["result"] == "not-permitted"


def test_reload(command, director):
    assert "in force" in command("reload").output
    good = director.configuration
    director.configure(good.replace("Job Defs = usual; Client = web2", "Client = nobody"))
    try:
        assert "nobody" in command("reload", exit_code=40).messages
    finally:
        director.configure(good)
    command("reload")


def test_a_director_that_is_not_there_is_told(command, director):
    identity = director.identity("admin").folder.decode()
    place = ["--director", "https://localhost:1", "--identity", identity]
    answer = command("status", place=place, exit_code=65)
    assert "https://localhost:1 " in answer.messages


def test_a_director_of_another_authority_is_not_believed(command, director, tmp_path):
    from kit.connections import House

    (tmp_path / "other").mkdir()
    other = House(tmp_path / "other").operator.folder.decode()
    place = ["--director", director.url, "--identity", other]
    assert "from another authority" in command("status", place=place, exit_code=65).messages


def test_browse_wants_a_terminal(command):
    assert "browse needs a terminal" in command("browse", exit_code=2).messages


def test_a_shell_completes_names_that_the_director_knows(director, strongroom):
    def names(kind, who, *words):
        identity = director.identity(who).folder.decode()
        typed = ("run", "--director", director.url, "--identity", identity)
        done = strongroom("completion", "--names", kind, *words, "--words", *typed)
        assert (done.returncode, done.stderr) == (0, "")
        return set(done.stdout.split())

    assert names("clients", "admin") >= {"web1", "db1"}
    assert names("jobs", "admin", "--begin", "nightly-w") >= {"nightly-web1"}
    # Her Client ACL is web.*
    assert names("clients", "ann", "--begin", "d") == set()
