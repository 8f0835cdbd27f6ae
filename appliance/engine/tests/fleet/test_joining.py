"""From nothing to a fleet that backs up: setup on the appliance, one command on each machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.daemon_process import wait_for
from kit.killed_process import NOBODY, in_child
from kit.made_appliance import MadeAppliance
from kit.project import DOCUMENTS
from strongroom.agent.status import ask_status
from strongroom.base.errors import NotPermittedError

KILLED = str(Path(__file__).parents[1] / "kit" / "killed_at_rename.py")


@pytest.fixture
def appliance(folder: Path) -> Iterator[MadeAppliance]:
    with MadeAppliance(folder) as made:
        (made.folder / "data").mkdir()
        (made.folder / "data" / "letter").write_text("Dear all\n")
        made.start()
        # The FileSet of the answers is the whole machine: too much for a test.
        groups = made.folder / "etc/director.d/jobdefs/groups.conf"
        groups.write_text(groups.read_text().replace("File = /\n", f'File = "{folder}/data"\n'))
        made.command("reload")
        yield made


def test_machines_join_with_one_command_and_back_up_without_a_file_by_hand(
    appliance: MadeAppliance,
) -> None:
    token = appliance.token("--group", "servers", "--names", "web*", "--uses", "2")
    for name in ("web1", "web2"):
        joined = appliance.join(name, token)
        assert (joined["name"], joined["director"]) == (name, "vault-dir")
        assert joined["changed"]
        again = appliance.join(name, token)
        assert again["changed"] == []
        appliance.start_agent(name)
    run = appliance.told("run", "web2", "--watch")
    assert run["state"] == "done", run
    target = appliance.folder / "back"
    appliance.command(
        "restore", "latest:", "--host", "web2", "--client", "web1", "--target", str(target)
    )
    assert (target / str(appliance.folder).lstrip("/") / "data/letter").read_text() == "Dear all\n"
    audited = appliance.command("audit", "--json").stdout
    assert "of group servers" in audited
    etc = str(appliance.folder / "etc")
    appliance.command("config", "check", etc)


def test_the_agent_can_read_its_configuration_whatever_the_umask_of_who_lets_it_join(
    appliance: MadeAppliance,
) -> None:
    token = appliance.token("--group", "servers", "--names", "web*")
    before = os.umask(0o077)
    try:
        appliance.join("web1", token)
    finally:
        os.umask(before)
    for name in ("", "agent.d", "agent.d/client", "agent.d/director"):
        assert (appliance.folder / "web1/etc" / name).stat().st_mode & 0o777 == 0o755, name


def test_a_retuned_agent_tells_the_effective_values_and_where_they_come_from(
    appliance: MadeAppliance,
) -> None:
    appliance.join("web1", appliance.token("--group", "servers", "--names", "web*"))
    agent = appliance.start_agent("web1")
    before = appliance.show("web1")
    assert before["knobs"]["scan_threads"]["source"] == "default"
    assert before["directors"][0] | {"connected": True} == before["directors"][0]
    file = appliance.folder / "web1/etc/agent.d/client/myself.conf"
    file.write_text(file.read_text().replace("Name =", "Scan Threads = 7\n  Name =", 1))
    agent.signal(signal.SIGHUP)
    wait_for(
        lambda: appliance.show("web1")["knobs"]["scan_threads"]["value"] == 7, lambda: agent.log
    )
    after = appliance.show("web1")
    assert after["knobs"]["scan_threads"]["source"].startswith(f"{file}:")
    others = {
        name: (before["knobs"][name]["value"], after["knobs"][name]["value"])
        for name in before["knobs"]
        if name != "scan_threads"
    }
    assert all(one == other for one, other in others.values()), others
    # What the director and the FileSet say comes with the job.
    client = appliance.folder / "etc/director.d/client/web1.conf"
    client.write_text(client.read_text().replace("Address", "Upload Queue Size = 9; Address"))
    appliance.command("reload")
    assert appliance.told("run", "web1", "--watch")["state"] == "done"
    (ended,) = appliance.show("web1")["ended"]
    assert ended["knobs"]["scan_threads"] == {"value": 7, "source": "agent"}
    assert ended["knobs"]["upload_queue_size"]["value"] == 9
    assert ended["knobs"]["upload_queue_size"]["source"] == "director: Upload Queue Size"
    assert ended["knobs"]["compression"] == {"value": "zstd1", "source": "FileSet Machine"}
    assert ended["security"]["mode"] in ("tls", "ktls")


def test_a_removed_client_is_cut_off_and_joins_only_by_a_token_of_its_own(
    appliance: MadeAppliance,
) -> None:
    token = appliance.token("--group", "servers", "--names", "web*", "--uses", "9")
    appliance.join("web1", token)
    agent = appliance.start_agent("web1")
    assert appliance.told("run", "web1", "--watch")["state"] == "done"
    removed = appliance.told("client", "remove", "web1")
    assert any("revoked" in one for one in removed["done"])
    assert not (appliance.folder / "etc/director.d/client/web1.conf").exists()
    wait_for(lambda: not appliance.show("web1")["directors"][0]["connected"], lambda: agent.log)
    appliance.command("client", "remove", "web1", exit_code=60)
    # Its snapshots are there.
    place = ("--repo", f"unix:{appliance.folder}/storage.sock")
    passphrase = ("--password-file", str(appliance.folder / "state/director/passphrase"))
    assert "web1" in appliance.command("snapshots", *place, *passphrase).stdout
    # The machine itself, and another one under its name.
    appliance.command(*appliance.join_words("web1"), given=token, exit_code=33)
    agent.stop()
    appliance.command("agent", "leave", "--config", f"{appliance.folder}/web1/etc")
    appliance.command(*appliance.join_words("web1"), given=token, exit_code=33)
    appliance.join("web1", appliance.token("web1", "--group", "servers"))
    appliance.start_agent("web1")


def test_what_hinders_a_machine_is_said(appliance: MadeAppliance) -> None:
    token = appliance.token("--group", "servers", "--names", "web*")
    words = appliance.join_words("web1")

    def refused(exit_code: int, *more: str, given: str = token) -> str:
        return appliance.command(*words, *more, given=given, exit_code=exit_code).stderr

    assert "not an enrolment token" in refused(2, given="srt2_short")
    assert "there is no token" in refused(2, given="")
    assert "not a token of the director" in refused(33, "--ca-fingerprint", "ab" * 32)
    strange = appliance.join_words("db1")
    said = appliance.command(*strange, given=token, exit_code=33).stderr
    assert "names like web*" in said
    # A key, with which it may try again, and nothing that an agent would start with.
    assert [path.name for path in (appliance.folder / "db1/etc").iterdir()] == ["joining.pem"]
    appliance.join("web1", token)
    other = appliance.command(*appliance.join_words("web2"), given=token, exit_code=33).stderr
    assert "used already, as often as it allows" in other
    gone = appliance.token("--group", "nobody", "--names", "*")
    said = appliance.command(*appliance.join_words("x1"), given=gone, exit_code=33).stderr
    assert "Client Group 'nobody'" in said


def test_a_machine_that_was_interrupted_joins_when_it_tries_again(
    appliance: MadeAppliance,
) -> None:
    token = appliance.token("--group", "servers", "--names", "web*", "--uses", "40")
    moment, was_killed, whole = 1, True, set[str]()
    while was_killed:
        name = f"web{moment}"
        answer = subprocess.run(
            [sys.executable, KILLED, str(moment), *appliance.join_words(name)],
            env=appliance.environment,
            input=token,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        was_killed = answer.returncode == -signal.SIGKILL
        assert was_killed or answer.returncode == 0, answer.stderr
        appliance.join(name, token)
        assert appliance.join(name, token)["changed"] == [], moment
        names = {
            str(path.relative_to(appliance.folder / name)).replace(name, "NAME")
            for path in (appliance.folder / name).rglob("*")
            if path.is_file() and not path.name.startswith(".")
        }
        whole = whole or names
        assert names == whole, moment
        moment += 3
    assert moment > 10
    appliance.command("config", "check", str(appliance.folder / "etc"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_only_root_and_the_agents_own_user_may_ask_the_running_agent(
    appliance: MadeAppliance,
) -> None:
    appliance.join("web1", appliance.token("--group", "servers", "--names", "web*"))
    appliance.start_agent("web1")
    state = appliance.folder / "web1" / "state"
    assert ask_status(str(state))["name"] == "web1"
    refused = NotPermittedError("").exit_code
    assert in_child(lambda: ask_status(str(state)), NOBODY) == refused
    # Not even where the folder is open to everybody.
    for path in (appliance.folder, state.parent, state):
        path.chmod(0o755)
    (state / "agent.socket").chmod(0o777)
    assert in_child(lambda: ask_status(str(state)), NOBODY) == refused


def test_the_token_comes_from_the_environment_too(appliance: MadeAppliance) -> None:
    token = appliance.token("--names", "web*", "--group", "servers")
    words = [one for one in appliance.join_words("web1") if one not in ("--token-file", "-")]
    appliance.command(*words, STRONGROOM_JOIN_TOKEN=token)
    assert (appliance.folder / "etc/director.d/client/web1.conf").exists()


def test_the_tokens_of_the_guides_are_made_and_let_their_owners_in(
    appliance: MadeAppliance,
) -> None:
    commands = {
        line.strip()
        for guide in ("web.md", "monitor.md", "fleet.md")
        for line in (DOCUMENTS / "guides" / guide).read_text().splitlines()
        if line.strip().startswith("strongroom token create")
    }
    assert {"all", "monitoring"} <= {word for command in commands for word in command.split()}
    for number, command in enumerate(sorted(commands)):
        words = command.split()[1:]
        file = str(appliance.folder / f"token{number}")
        words[words.index("-o") + 1] = file
        appliance.command(*words)
        if "all" in words:
            authority = str(appliance.folder / "state/ca/root.pem")
            appliance.command("status", "--token-file", file, "--authority", authority)
    # As the console of an appliance makes it.
    told = appliance.told("token", "create", "admin", "--lifetime", "30d")
    assert len(told["text"]) < 100
    refused = appliance.command("token", "create", "ann", exit_code=60)
    assert "There are: all, monitoring" in refused.stderr
