"""What directors can have done: backups, restores, verifies and estimates, by a real agent."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from base64 import b64encode
from typing import Any

import msgspec
import pytest

from kit.agent_site import CLIENT, PASSPHRASE, AgentSite
from kit.large_ticket import with_more_packs
from kit.tree_compare import compare_trees
from strongroom.agent.status import ask_status
from strongroom.engine.filesets.spec import FileSetInclude, FileSetOptions, FileSetSpec
from strongroom.engine.knobs.settings import KnobSettings
from strongroom.engine.repository.restore_ticket import make_ticket
from strongroom.engine.repository.ticket_objects import TicketObject, store_ticket
from strongroom.net.control.messages import (
    LARGEST_MESSAGE_BYTES,
    Cancel,
    RunEnded,
    Script,
    StartEstimate,
    StartRestore,
    StartVerify,
    VerifyChoices,
)


def run(agent: AgentSite, message: Any) -> RunEnded:
    agent.director.send(message)
    return agent.director.ended(message.run_id)


def ticket_of(agent: AgentSite, snapshot_id: str, more_packs: int = 0) -> TicketObject:
    repository = agent.open()
    ticket = make_ticket(repository, repository.snapshot(snapshot_id))
    if more_packs:
        ticket = with_more_packs(ticket, agent.restore_key.put_key(CLIENT), more_packs)
    stored = store_ticket(repository.store, ticket)
    repository.close()
    return stored


def restore_of(agent: AgentSite, snapshot: str, target: Any, **options: Any) -> StartRestore:
    return agent.restore(snapshot, target, **options)


def verify_of(agent: AgentSite, snapshot: str, **options: Any) -> StartVerify:
    return StartVerify(
        run_id=uuid.uuid4().hex,
        job="verify",
        storage=agent.target(),
        ticket=ticket_of(agent, snapshot),
        grant="",
        options=VerifyChoices(**{"reads_content": True, **options}),
    )


def test_a_link_on_the_machine_leads_no_restore_out_of_its_where_acl(agent: AgentSite) -> None:
    (agent.source / "a").write_text("a")
    run(agent, agent.backup())
    (snapshot,) = agent.snapshots()
    allowed, outside = agent.source.parent / "allowed", agent.source.parent / "outside"
    allowed.mkdir()
    outside.mkdir()
    (allowed / "exit").symlink_to(outside)
    order = msgspec.structs.replace(
        restore_of(agent, snapshot.id, f"{allowed}/exit/new"), where=((str(allowed),),)
    )
    ended = run(agent, order)
    assert (ended.status, ended.error_id) == ("failed", "not-permitted")
    assert f"{allowed}/exit/new: links lead from there to {outside}/new" in ended.error
    assert f"`Where ACL = {allowed}`" in ended.error
    assert not list(outside.iterdir())
    (allowed / "exit").unlink()
    order = msgspec.structs.replace(order, run_id=uuid.uuid4().hex)
    assert run(agent, order).status == "done"
    assert list((allowed / "exit" / "new").rglob("a"))


def test_a_backup_is_restored_and_verified_through_the_agent(agent: AgentSite) -> None:
    (agent.source / "a").write_bytes(os.urandom(3 << 20))
    (agent.source / "below").mkdir()
    (agent.source / "below" / "b").write_text("b")
    ended = run(agent, agent.backup(tags=("x",)))
    assert (ended.status, ended.exit_code, ended.error) == ("done", 0, "")
    assert ended.summary["files"] == 2
    (snapshot,) = agent.snapshots()
    assert (snapshot.id, snapshot.host, snapshot.job) == (ended.snapshot, "web1", "nightly")
    assert (snapshot.fileset, snapshot.tags, snapshot.level) == ("all", ("x",), "full")

    target = agent.folder / "back"
    restored = run(agent, restore_of(agent, snapshot.id, str(target)))
    assert (restored.status, restored.error) == ("done", "")
    came_back = os.fsencode(str(target) + str(agent.source))
    assert compare_trees(os.fsencode(agent.source), came_back) == []

    assert run(agent, verify_of(agent, snapshot.id)).status == "done"
    (agent.source / "below" / "b").write_text("c")
    verified = run(agent, verify_of(agent, snapshot.id))
    assert (verified.status, verified.error_id) == ("incomplete", "check-failed")
    assert any("below/b: content" in line for line in agent.director.log(verified.run_id))


def test_what_is_in_a_subpath_goes_right_into_the_target(agent: AgentSite) -> None:
    (agent.source / "a").write_text("a")
    snapshot = run(agent, agent.backup()).snapshot
    target = agent.folder / "back"
    order = restore_of(agent, snapshot, str(target), subpath=str(agent.source))
    assert run(agent, order).status == "done"
    assert os.listdir(target) == ["a"]


def test_a_restore_deletes_nothing_that_the_fileset_left_out(agent: AgentSite) -> None:
    for name in ("a", "one.iso", "below/two.iso"):
        (agent.source / name).parent.mkdir(exist_ok=True)
        (agent.source / name).write_text(name)
    options = FileSetOptions(exclude=True, wild=("*.iso",))
    include = FileSetInclude(files=(str(agent.source),), options=(options, FileSetOptions()))
    backup = agent.backup(fileset=FileSetSpec(name="all", includes=(include,)))
    snapshot = run(agent, backup).snapshot
    (agent.source / "late.iso").touch()
    (agent.source / "below" / "new").touch()
    order = restore_of(agent, snapshot, "", subpath=str(agent.source), in_place=True, delete=True)
    ended = run(agent, order)
    assert (ended.status, ended.summary["problems"]) == ("done", {})
    assert ended.summary["not_deleted"] == {"excluded": 3}
    assert sorted(os.listdir(agent.source)) == ["a", "below", "late.iso", "one.iso"]
    assert os.listdir(agent.source / "below") == ["two.iso"]


def test_a_dry_run_lists_what_it_would_do_and_says_that_it_is_one(agent: AgentSite) -> None:
    (agent.source / "a").write_text("a")
    snapshot = run(agent, agent.backup()).snapshot
    target = agent.folder / "back"
    order = restore_of(agent, snapshot, str(target), dry_run=True, tells_steps=True)
    assert run(agent, order).status == "done"
    log = agent.director.log(order.run_id)
    assert any(line.startswith("dry run, nothing is changed") for line in log)
    assert f"created {agent.source}/a" in log
    assert any(line.startswith("dry run, nothing was changed: ") for line in log)
    assert not target.exists()


def test_a_restore_that_finds_nothing_says_so(agent: AgentSite) -> None:
    (agent.source / "a").write_text("a")
    snapshot = run(agent, agent.backup()).snapshot
    target = agent.folder / "back"
    nothing = run(agent, restore_of(agent, snapshot, str(target), includes=("none.txt",)))
    assert (nothing.status, nothing.error_id, nothing.exit_code) == (
        "failed",
        "nothing-matched",
        16,
    )
    missing = run(agent, restore_of(agent, snapshot, str(target), subpath="/none"))
    assert (missing.status, missing.error_id, missing.exit_code) == ("failed", "path-not-found", 15)
    assert not target.exists()


def on_the_command_line(agent: AgentSite, *arguments: str) -> dict[str, Any]:
    """What a command with --json says last."""
    done = subprocess.run(
        [sys.executable, "-m", "strongroom", *arguments, "--json"],
        env={
            **os.environ,
            "STRONGROOM_REPOSITORY": str(agent.repository),
            "STRONGROOM_PASSWORD": PASSPHRASE.decode(),
        },
        stdout=subprocess.PIPE,
        check=True,
    )
    last: dict[str, Any] = msgspec.json.decode(done.stdout.splitlines()[-1])
    return last


def test_summaries_of_the_agent_have_the_fields_of_the_command_line(agent: AgentSite) -> None:
    (agent.source / "a").write_text("a")
    snapshot = run(agent, agent.backup()).snapshot
    target = agent.folder / "gr\udcfcn"
    encoded = {"base64": b64encode(os.fsencode(target)).decode()}

    restored = run(agent, restore_of(agent, snapshot, encoded)).summary
    at_once = on_the_command_line(agent, "restore", snapshot, "--target", str(target))
    assert restored.keys() == at_once.keys()
    assert restored["target"] == at_once["target"] == encoded
    assert sum(restored["actions"].values()) == sum(at_once["actions"].values())

    verified = run(agent, verify_of(agent, snapshot)).summary
    at_once = on_the_command_line(agent, "verify", snapshot, "--read-data")
    del verified["elapsed_seconds"], at_once["elapsed_seconds"]
    assert verified == at_once
    assert verified["entries"] > 1


def test_a_second_backup_reads_only_what_changed(agent: AgentSite) -> None:
    for number in range(20):
        (agent.source / str(number)).write_bytes(os.urandom(2000))
        os.utime(agent.source / str(number), ns=(1, 1))
    first = run(agent, agent.backup())
    (agent.source / "3").write_bytes(b"new")
    second = run(agent, agent.backup(parent=first.snapshot))
    assert second.summary["parent"] == first.snapshot
    assert second.summary["files_read"] < 20 or second.summary["new_bytes"] == 3
    assert second.summary["new_bytes"] == 3


def test_a_lost_or_damaged_cache_only_costs_a_full_read(agent: AgentSite) -> None:
    (agent.source / "a").write_bytes(b"content")
    first = run(agent, agent.backup())
    parents = agent.folder / "working" / "cache" / "parents"
    for path in parents.iterdir():
        path.write_bytes(path.read_bytes()[:-20])
    second = run(agent, agent.backup(parent=first.snapshot))
    assert (second.status, second.summary["files_read"]) == ("done", 1)
    assert second.summary["new_bytes"] == 0


def test_files_that_cannot_be_backed_up_make_a_run_incomplete(agent: AgentSite) -> None:
    (agent.source / "a").write_text("a")
    spec = FileSetSpec(
        name="some",
        includes=(FileSetInclude(files=(str(agent.source), "/not/there/at/all")),),
    )
    ended = run(agent, agent.backup(fileset=spec))
    assert (ended.status, ended.exit_code) == ("incomplete", 3)
    assert any("/not/there/at/all" in line for line in agent.director.log(ended.run_id))


def test_a_fileset_decides_what_is_kept_and_how(agent: AgentSite) -> None:
    (agent.source / "keep.txt").write_text("a")
    (agent.source / "drop.tmp").write_text("a")
    options = (
        FileSetOptions(exclude=True, wild_file=("*.tmp",)),
        FileSetOptions(signature="sha256", compression="zstd3"),
    )
    spec = FileSetSpec(
        name="some", includes=(FileSetInclude(files=(str(agent.source),), options=options),)
    )
    ended = run(agent, agent.backup(fileset=spec))
    assert ended.summary["files"] == 1
    (snapshot,) = agent.snapshots()
    assert snapshot.options["signature"] == "sha256"
    assert snapshot.options["compression"] == "zstd3"
    request = StartEstimate(run_id=uuid.uuid4().hex, job="nightly", fileset=spec, listing=True)
    estimated = run(agent, request)
    assert (estimated.status, estimated.summary["files"]) == ("done", 1)
    assert estimated.summary["directories"] == 1
    (listing,) = agent.director.log(request.run_id)
    assert listing.splitlines() == [str(agent.source), str(agent.source / "keep.txt")]


def test_an_estimate_of_many_files_comes_in_few_lines(agent: AgentSite) -> None:
    for number in range(3000):
        (agent.source / f"a-rather-long-name-{number}").touch()
    request = StartEstimate(
        run_id=uuid.uuid4().hex, job="nightly", fileset=agent.fileset(), listing=True
    )
    assert run(agent, request).summary["files"] == 3000
    lines = agent.director.log(request.run_id)
    assert len(lines) < 50
    assert len([path for line in lines for path in line.splitlines()]) == 3001
    assert max(map(len, lines)) < LARGEST_MESSAGE_BYTES


def test_a_fault_of_the_storage_fails_the_run_with_its_id(agent: AgentSite) -> None:
    ended = run(agent, agent.backup(storage=agent.target().__class__(
        address=str(agent.folder / "nowhere"), port=0, server_name="")))  # fmt: skip
    assert (ended.status, ended.error_id) == ("failed", "repository-not-found")


def test_options_that_make_no_sense_fail_the_run(agent: AgentSite) -> None:
    (agent.source / "a").write_text("a")
    for tuning, name in (
        (KnobSettings(workers=-1), "Maximum Workers Per Job = -1"),
        (KnobSettings(compression="best"), "Compression = best"),
        (KnobSettings(nice=20), "Nice = 20"),
    ):
        ended = run(agent, agent.backup(tuning=tuning))
        assert (ended.status, ended.error_id) == ("failed", "usage"), tuning
        assert name in ended.error
    first = run(agent, agent.backup(tuning=KnobSettings(workers=2, signature="md5")))
    assert first.status == "done"
    for target in ("relative", "/", "/../"):
        assert run(agent, restore_of(agent, first.snapshot, target)).error_id == "usage"


@pytest.mark.parametrize(
    ("own", "asked", "expected"), [(0, None, 10), (0, 3, 3), (12, 3, 12), (12, 15, 15)]
)
def test_a_job_gives_way_as_asked_but_never_less_than_the_host_s_owner_says(
    site: AgentSite, own: int, asked: int | None, expected: int
) -> None:
    # What this test has inherited, the agent inherits like the Nice of its unit.
    inherited = os.getpriority(os.PRIO_PROCESS, 0)
    if inherited > 0:
        expected = max(inherited, own, asked or 0)
    site.of_client = f"Nice = {own}" if own else ""
    site.configure()
    level = site.scripts / "level"
    level.write_text("#!/bin/sh\nnice\n")
    level.chmod(0o755)
    site.start_connected()
    request = site.backup(
        tuning=KnobSettings(nice=asked), scripts=(Script(command="level", when="before"),)
    )
    assert run(site, request).status == "done"
    assert str(expected) in site.director.log(request.run_id)
    (ended,) = ask_status(str(site.folder / "working"))["ended"]
    told = ended["knobs"]["nice"]
    assert told["value"] == expected
    assert (told["source"] == "director: Nice") == (asked == expected)


def test_a_run_that_is_not_known_is_cancelled_at_once(agent: AgentSite) -> None:
    unknown = uuid.uuid4().hex
    agent.director.send(Cancel(run_id=unknown))
    assert agent.director.ended(unknown).status == "cancelled"


def test_a_kind_of_job_that_is_not_allowed_is_refused(site: AgentSite) -> None:
    site.of_director = "Allowed Job Command = estimate"
    site.configure()
    site.start_connected()
    assert run(site, site.backup()).error_id == "refused"
    request = StartEstimate(run_id=uuid.uuid4().hex, job="nightly", fileset=site.fileset())
    assert run(site, request).status == "done"


def test_what_is_acknowledged_is_forgotten(agent: AgentSite) -> None:
    (agent.source / "a").write_text("a")
    run(agent, agent.backup())
    # The next answer comes after the acknowledgement was heard.
    run(agent, agent.backup())
    assert len(agent.journals()) <= 1


def test_a_ticket_that_no_message_could_hold_restores(agent: AgentSite) -> None:
    (agent.source / "a").write_text("content")
    made = run(agent, agent.backup())
    target = agent.folder / "restored"
    request = restore_of(agent, made.snapshot, str(target))
    large = ticket_of(agent, made.snapshot, more_packs=300_000)
    request = msgspec.structs.replace(request, ticket=large)
    assert large.size_bytes > LARGEST_MESSAGE_BYTES
    agent.director.acknowledges = False
    assert run(agent, request).status == "done"
    # Nor is it in what the agent keeps of the run.
    kept = agent.folder / "working" / "runs" / f"{request.run_id}.journal"
    assert 0 < kept.stat().st_size < 1 << 16
    found = target / str(agent.source).lstrip("/")
    assert compare_trees(bytes(agent.source), bytes(found)) == []


def test_a_ticket_that_was_changed_in_the_repository_is_refused(agent: AgentSite) -> None:
    (agent.source / "a").write_text("content")
    made = run(agent, agent.backup())
    request = restore_of(agent, made.snapshot, str(agent.folder / "restored"))
    path = agent.repository / "tickets" / request.ticket.name
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    ended = run(agent, request)
    assert (ended.status, ended.error_id) == ("failed", "damage")
    assert "was changed" in ended.error


def test_a_restore_whose_ticket_is_gone_says_so(agent: AgentSite) -> None:
    (agent.source / "a").write_text("content")
    made = run(agent, agent.backup())
    request = restore_of(agent, made.snapshot, str(agent.folder / "restored"))
    (agent.repository / "tickets" / request.ticket.name).unlink()
    ended = run(agent, request)
    assert (ended.status, ended.error_id) == ("failed", "object-missing")
    assert "start the restore again" in ended.error
