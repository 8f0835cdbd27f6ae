"""A compromised agent, without rights of its own, asks the program that restores as root.

The program is the one that the unit starts; the test says on its standard input what the agent's
user could say at its socket.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kit.agent_site import CLIENT, AgentSite
from kit.project import UNITS
from strongroom.net.control.messages import Script, StartRestore
from strongroom.net.control.restore_orders import ordered
from strongroom.net.identities.authority import Authority

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the program runs as root")

AGENT_USER = 65534


class Helper:
    """The program behind the restore socket, and the agent that calls it."""

    def __init__(self, site: AgentSite) -> None:
        self.site = site
        (site.source / "rootsh").write_text("#!/bin/sh\n")
        (site.source / "rootsh").chmod(0o4755)
        site.start_connected()
        message = site.backup()
        site.director.send(message)
        self.snapshot = site.director.ended(message.run_id).snapshot
        site.end()
        shutil.copy(site.identity / "authority.pem", site.folder / "authority.pem")
        self.outside = site.folder / "outside"
        self.outside.mkdir()
        # The agent's own: a folder that it may write to, with its identity in it.
        self.own = site.folder / "agents-own"
        self.own.mkdir()
        site.identity.rename(self.own / "identity")
        site.identity = self.own / "identity"
        site.configure()
        for place in (self.own, *self.own.rglob("*")):
            os.chown(place, AGENT_USER, AGENT_USER)

    def restore(self, target: Path | str, **fields: Any) -> StartRestore:
        made = self.site.restore(self.snapshot, str(target))
        return msgspec.structs.replace(made, **fields)

    def order(self, start: StartRestore) -> StartRestore:
        """What a director sends: with its signature."""
        return ordered(self.site.director_identity, CLIENT, start, 600)

    def ask(self, start: StartRestore, **more: Any) -> dict[str, Any]:
        """Say it as the agent would, with rights that it would like; gives the end of the job."""
        (module,) = re.findall(
            r"^ExecStart=.* -m (\S+)", (UNITS / "strongroom-agent-restore@.service").read_text(),
            re.MULTILINE,
        )  # fmt: skip
        wishes = {
            "start": start,
            "client": CLIENT,
            "director": "vault-dir",
            "identity_folder": str(self.site.identity),
            "cache_folder": str(self.own / "cache"),
            "lock_file": str(self.own / "lock"),
            "script_folders": [str(self.own)],
            "restore_folders": [],
            "allow_commands": True,
            **more,
        }
        command = [
            sys.executable, "-m", module, "--config", str(self.site.configuration),
            "--run-folder", str(self.site.folder / "runs-of-root"),
        ]  # fmt: skip
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/"
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(msgspec.json.encode(wishes).decode() + "\n")
            process.stdin.flush()
            messages = [json.loads(line) for line in process.stdout]
            return dict(messages[-1]) if messages else {"status": "died"}

    def script(self, folder: Path, owner: int = AGENT_USER) -> tuple[Script, Path]:
        """A script that leaves a trace when it runs, and the trace."""
        trace = self.site.folder / "trace"
        path = folder / "owned.sh"
        path.write_text(f"#!/bin/sh\nid > {trace}\n")
        path.chmod(0o755)
        os.chown(path, owner, owner)
        return Script(command=str(path), when="before"), trace


@pytest.fixture
def helper(tmp_path: Path) -> Iterator[Helper]:
    site = AgentSite(tmp_path.resolve())
    try:
        yield Helper(site)
    finally:
        site.close()


def test_what_the_director_ordered_is_restored_and_nothing_of_the_agents_is_written(helper):
    before = sorted(helper.own.rglob("*"))
    ended = helper.ask(helper.order(helper.restore(helper.outside)))
    assert (ended["status"], ended["error"]) == ("done", "")
    (restored,) = helper.outside.rglob("rootsh")
    assert stat.S_IMODE(restored.stat().st_mode) == 0o755
    assert ended["summary"]["left_out"] == {"set-id": 1}
    assert sorted(helper.own.rglob("*")) == before


def test_no_restore_without_a_director(helper):
    ended = helper.ask(helper.restore(helper.outside))
    assert (ended["status"], ended["error_id"]) == ("failed", "peer-refused")
    assert "no director ordered" in ended["error"]
    assert not list(helper.outside.iterdir())


@pytest.mark.parametrize(
    "changes",
    [
        {"target": "/nowhere/else"},
        {"where": ()},
        {"run_id": "f" * 32},
        {"scripts": (Script(command="/bin/true", when="before"),)},
        {"job": "other"},
    ],
)
def test_an_order_is_for_that_restore_and_no_other(helper, changes):
    start = helper.order(helper.restore(helper.outside, where=(("/nowhere",),)))
    ended = helper.ask(msgspec.structs.replace(start, **changes))
    assert "this is not the restore that" in ended["error"]
    assert not list(helper.outside.iterdir())


def test_set_id_bits_are_the_directors_to_order(helper):
    start = helper.order(helper.restore(helper.outside))
    options = msgspec.structs.replace(start.options, keeps_privileges=True)
    ended = helper.ask(msgspec.structs.replace(start, options=options))
    assert "this is not the restore that" in ended["error"]
    ended = helper.ask(helper.order(msgspec.structs.replace(start, options=options)))
    assert ended["status"] == "done"
    (restored,) = helper.outside.rglob("rootsh")
    assert stat.S_IMODE(restored.stat().st_mode) == 0o4755


def test_an_order_for_another_agent_or_of_an_agent_is_none(helper, tmp_path):
    start = helper.restore(helper.outside)
    director, authority = helper.site.director_identity, helper.site.authority
    foreign = Authority.create(str(tmp_path / "false-ca"), "house")
    signers = {
        "another agent": (director, "web2"),
        "certificate of director": (
            authority.issue_identity(str(tmp_path / "agent"), CLIENT, "agent"), CLIENT,
        ),
        "not issued by our authority": (
            foreign.issue_identity(str(tmp_path / "false"), "vault-dir", "director", ["::1"]),
            CLIENT,
        ),
        "not one of this agent's": (
            authority.issue_identity(str(tmp_path / "other"), "other", "director", ["::1"]), CLIENT,
        ),
    }  # fmt: skip
    for reason, (identity, agent) in signers.items():
        ended = helper.ask(ordered(identity, agent, start, 600))
        assert ended["status"] == "failed"
        assert reason in ended["error"]
    assert not list(helper.outside.iterdir())


def test_the_agents_own_authority_counts_for_nothing(helper, tmp_path):
    foreign = Authority.create(str(tmp_path / "false-ca"), "house")
    false = foreign.issue_identity(str(tmp_path / "false"), "vault-dir", "director", ["::1"])
    (helper.site.identity / "authority.pem").write_bytes(false.authority_pem)
    ended = helper.ask(ordered(false, CLIENT, helper.restore(helper.outside), 600))
    assert "not issued by our authority" in ended["error"]


def test_no_script_of_the_agents_folder_is_run(helper):
    script, trace = helper.script(helper.own)
    ended = helper.ask(helper.order(helper.restore(helper.outside, scripts=(script,))))
    assert (ended["status"], ended["error_id"]) == ("failed", "script")
    assert not trace.exists()


@pytest.mark.parametrize("way", ["owner", "folder", "link"])
def test_no_script_is_run_that_the_agent_could_have_changed(helper, way):
    scripts = helper.site.scripts
    if way == "owner":
        script, trace = helper.script(scripts)
    else:
        script, trace = helper.script(scripts, owner=0)
    if way == "folder":
        scripts.chmod(0o777)
    if way == "link":
        scripts.rename(helper.own / "scripts")
        (helper.own / "scripts").chmod(0o755)
        scripts.symlink_to(helper.own / "scripts")
    ended = helper.ask(helper.order(helper.restore(helper.outside, scripts=(script,))))
    assert (ended["status"], ended["error_id"]) == ("failed", "script")
    assert "root" in ended["error"]
    assert not trace.exists()


def test_a_script_of_roots_is_run(helper):
    script, trace = helper.script(helper.site.scripts, owner=0)
    ended = helper.ask(helper.order(helper.restore(helper.outside, scripts=(script,))))
    assert ended["status"] == "done"
    assert "uid=0" in trace.read_text()


def test_nothing_is_restored_outside_the_configured_folders(helper):
    allowed = helper.site.folder / "allowed"
    helper.site.of_client = f'Allowed Restore Dir = "{allowed}"'
    helper.site.configure()
    for target in (helper.outside, f"{allowed}/../outside", f"{allowed}x"):
        ended = helper.ask(helper.order(helper.restore(target)))
        assert (ended["status"], ended["error_id"]) == ("failed", "not-permitted")
        assert "Allowed Restore Dir" in ended["error"]
    start = helper.restore("")
    options = msgspec.structs.replace(start.options, in_place=True)
    ended = helper.ask(helper.order(msgspec.structs.replace(start, options=options)))
    assert ended["error_id"] == "not-permitted"
    assert not list(helper.outside.iterdir())
    assert helper.ask(helper.order(helper.restore(allowed / "here")))["status"] == "done"
    assert list(allowed.rglob("rootsh"))


def test_a_link_that_the_agent_planted_is_not_followed(helper):
    planted = helper.own / "back"
    planted.symlink_to(helper.outside)
    os.lchown(planted, AGENT_USER, AGENT_USER)
    for target in (planted, planted / "below"):
        ended = helper.ask(helper.order(helper.restore(target)))
        assert ended["status"] == "failed"
        assert f"is a link of user {AGENT_USER}" in ended["error"]
    assert not list(helper.outside.iterdir())


def test_links_in_the_agents_folders_lead_no_write_anywhere(helper):
    for name in ("cache", "lock", "runs"):
        (helper.own / name).symlink_to(helper.outside / name)
    ended = helper.ask(
        helper.order(helper.restore(helper.outside / "new")), lock_file=str(helper.own / "lock")
    )
    assert ended["status"] == "done"
    assert [path.name for path in helper.outside.iterdir()] == ["new"]


@pytest.mark.parametrize("way", ["owner", "mode", "link", "folder", "authority"])
def test_a_configuration_that_others_could_change_is_not_believed(helper, way):
    configuration = helper.site.configuration
    if way == "owner":
        os.chown(configuration, AGENT_USER, -1)
    elif way == "mode":
        configuration.chmod(0o664)
    elif way == "link":
        configuration.rename(helper.own / "agent.conf")
        configuration.symlink_to(helper.own / "agent.conf")
    elif way == "folder":
        helper.site.folder.chmod(0o777)
    else:
        os.chown(helper.site.folder / "authority.pem", AGENT_USER, -1)
    ended = helper.ask(helper.order(helper.restore(helper.outside)))
    assert (ended["status"], ended["error_id"]) == ("failed", "usage")
    assert "only root may be able to change it" in ended["error"]
    assert not list(helper.outside.iterdir())


def test_a_folder_of_the_configuration_that_the_agent_emptied_is_noticed(helper):
    tree = helper.site.folder / "tree"
    (tree / "agent.d" / "main").mkdir(parents=True)
    (tree / "agent.d" / "limits").mkdir()
    helper.site.configuration.rename(tree / "agent.d" / "main" / "agent.conf")
    shutil.copy(helper.site.folder / "authority.pem", tree / "authority.pem")
    helper.site.configuration = tree
    assert helper.ask(helper.order(helper.restore(helper.outside)))["status"] == "done"
    os.chown(tree / "agent.d" / "limits", AGENT_USER, -1)
    ended = helper.ask(helper.order(helper.restore(helper.outside)))
    assert f"limits belongs to user {AGENT_USER}" in ended["error"]


def test_nothing_but_a_restore_is_done(helper):
    ended = helper.ask(helper.site.backup())  # type: ignore[arg-type]
    assert ended["status"] == "died"
    assert len(helper.site.snapshots()) == 1
