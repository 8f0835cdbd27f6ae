"""What a director tells is never a template for Ansible, however it gets there: an agent can say anything of itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import yaml

RUN = {
    "id": "0" * 32,
    "job": "web1",
    "state": "done",
    "started": "2026-11-22T21:00:07Z",
    "scheduled": None,
    "security": {},
}


@pytest.fixture
def trap(tmp_path):
    """A template that makes a file where it is evaluated, and whether it was."""

    class Trap:
        file = tmp_path / "evaluated"
        text = "{{ lookup('pipe', 'touch %s') }}0.1" % (tmp_path / "evaluated")

    return Trap


@pytest.fixture
def told(lying_director, trap):
    """The director's answers: each text that Ansible has no use for itself is the trap."""
    bad = trap.text
    run = {**RUN, "error": bad, "reason": bad, "warning": bad, "security": {"mode": bad, "cipher": bad}}
    client = {
        "name": "web1",
        "address": "127.0.0.1",
        "connected": True,
        "enrolled": bad,
        "version": bad,
        "platform": bad,
        "features": [bad],
        bad: bad,
        "tls_mode": bad,
        "last_backup": bad,
    }
    job = {"name": bad, "client": "web1", "kind": "backup", "last_run": run, "next_due": bad}
    problem = {"client": "web1", "event": bad, "text": bad}
    lying_director.answers.update(
        {
            "/clients": {"items": [client], "next": None},
            "/jobs": {"items": [job], "next": None},
            "/status": {"problems": [problem], "version": bad, "expiries": [{"kind": bad, "name": bad}]},
            "/config": {
                "items": [
                    {"type": "Job", "name": bad, "directives": {"JobDefs": {"value": "usual"}}},
                    {"type": "JobDefs", "name": "usual", "directives": {"Client Group": {"value": [bad]}}},
                ],
                "next": None,
            },
            "/snapshots": {"items": [{"client": "web1", "id": bad, "job": bad}], "next": None},
        }
    )
    return lying_director


@pytest.fixture
def ansible(tmp_path):
    """Give a command of Ansible; what it prints."""

    def run(*words, **variables):
        environment = {**os.environ, "ANSIBLE_NOCOLOR": "1", "HOME": str(tmp_path), **variables}
        environment["ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED"] = "1"
        done = subprocess.run(
            words,
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture
def play(ansible, tmp_path):
    """Run a play of these tasks."""

    def run(tasks, inventory="web1,", **variables):
        path = tmp_path / "play.yml"
        path.write_text(
            yaml.safe_dump([{"hosts": "all", "connection": "local", "gather_facts": False, "tasks": tasks}])
        )
        interpreter = ["-e", "ansible_python_interpreter=%s" % sys.executable]
        return ansible("ansible-playbook", "-i", inventory, *interpreter, str(path), **variables)

    return run


@pytest.fixture
def inventory(told, tmp_path):
    """An inventory file of that director, with everything that a user may build of what it tells."""

    def write(**options):
        path = tmp_path / "clients.strongroom.yml"
        path.write_text(
            yaml.safe_dump(
                {
                    "plugin": "strongroom.backup.director",
                    **told.place,
                    "compose": {"agent_version": "strongroom_client.version", "about": "strongroom_client"},
                    "groups": {"old": "strongroom_client.version is version('0.2.0', '<')"},
                    "keyed_groups": [
                        {"key": "strongroom_client.version", "prefix": "version"},
                        {"key": "strongroom_client", "prefix": "about"},
                        {"key": "strongroom_client.features", "prefix": "can", "parent_group": "features"},
                    ],
                    **options,
                }
            )
        )
        return str(path)

    return write


def debug(expression):
    """A task that shows something as a play uses it."""
    return {"ansible.builtin.debug": {"msg": "{{ %s }}" % expression}}


USES = [
    debug("strongroom_client"),
    debug("strongroom_client.version ~ '!'"),
    debug("hostvars[inventory_hostname]"),
    debug("group_names"),
    debug("groups"),
    {"ansible.builtin.set_fact": {"again": "{{ strongroom_client }}", "version": "{{ strongroom_client.version }}"}},
    debug("again"),
    debug("version"),
    debug("agent_version | default('')"),
    {
        "ansible.builtin.debug": {"msg": "{{ item }}"},
        "loop": "{{ strongroom_client.features + strongroom_client.jobs + strongroom_client.groups }}",
    },
    {"ansible.builtin.debug": {"var": "strongroom_client"}, "when": "strongroom_client.version != '1'"},
]


@pytest.mark.parametrize("cached", [False, True], ids=["asked", "from the cache"])
def test_a_template_in_the_inventory_is_only_text(ansible, play, inventory, trap, tmp_path, cached):
    options = {}
    if cached:
        options = {
            "cache": True,
            "cache_plugin": "ansible.builtin.jsonfile",
            "cache_connection": str(tmp_path / "cache"),
        }
    path = inventory(**options)
    for _turn in range(2 if cached else 1):
        listed = json.loads(ansible("ansible-inventory", "-i", path, "--list", "--export"))
        assert not trap.file.exists()
    assert "web1" in listed["agents"]["hosts"]
    ansible("ansible-inventory", "-i", path, "--graph", "--vars")
    said = play(USES, inventory=path)
    assert "lookup('pipe'" in said
    assert not trap.file.exists()


@pytest.mark.parametrize(
    "name", ["localhost", "127.0.0.1", "::1", "{{ lookup('pipe', 'touch x') }}", "a\nb", ""], ids=repr
)
def test_a_client_whose_name_is_not_a_hosts_is_left_out(ansible, play, inventory, told, tmp_path, name):
    told.answers["/clients"]["items"].append({**told.answers["/clients"]["items"][0], "name": name})
    path = inventory(parent="agents")
    listed = json.loads(ansible("ansible-inventory", "-i", path, "--list", "--export"))
    assert listed["agents"]["hosts"] == ["web1"]
    play([debug("groups"), debug("inventory_hostname")], inventory=path)
    assert not (tmp_path / "x").exists()


def test_a_template_from_a_directors_configuration_is_only_text(play, tmp_path, trap):
    program = tmp_path / "engine"
    resource = {"type": "Client", "name": "web1", "values": [{"name": "Address", "value": "127.0.0.1"}]}
    resource["values"].append({"name": "Enabled", "value": trap.text})
    program.write_text("#!/bin/sh\ncat <<'E'\n%s\nE\n" % json.dumps(resource))
    program.chmod(0o755)
    path = tmp_path / "clients.strongroom.yml"
    path.write_text(
        yaml.safe_dump({"plugin": "strongroom.backup.director", "tree": str(tmp_path), "command": str(program)})
    )
    assert "lookup('pipe'" in play([debug("strongroom_client")], inventory=str(path))
    assert not trap.file.exists()


def test_a_template_in_a_result_or_a_fact_is_only_text(told, play, trap):
    said = play(
        [
            {
                "strongroom.backup.strongroom_info": {
                    **told.place,
                    "gather": ["status", "clients", "jobs", "backups", "expiries"],
                },
                "register": "info",
            },
            debug("info"),
            {"ansible.builtin.set_fact": {"strongroom_client": "{{ info.clients.web1 }}"}},
            *[one for one in USES if "agent_version" not in str(one)],
        ]
    )
    assert "lookup('pipe'" in said
    assert not trap.file.exists()


def test_a_template_from_the_lookup_is_only_text(play, tmp_path, trap):
    program = tmp_path / "engine"
    program.write_text("#!/bin/sh\ncat <<'E'\n%s\nE\n" % json.dumps({"token": trap.text}))
    program.chmod(0o755)
    lookup = "lookup('strongroom.backup.enrolment_token', 'web1', command='%s')" % program
    query = lookup.replace("lookup(", "query(", 1)
    said = play(
        [
            {"ansible.builtin.set_fact": {"one": "{{ %s }}" % lookup, "several": "{{ %s }}" % query}},
            debug("one"),
            debug("several"),
            debug("several[0] ~ '!'"),
        ]
    )
    assert "lookup('pipe'" in said
    assert not trap.file.exists()


def test_a_template_from_the_filters_is_only_text(play, tmp_path, trap):
    parsed = {"errors": [], "resources": [{"type": "Client", "directives": [["Name", trap.text], [trap.text, "x"]]}]}
    program = tmp_path / "engine"
    program.write_text("#!/bin/sh\ncat <<'E'\n%s\nE\n" % json.dumps(parsed))
    program.chmod(0o755)
    (tmp_path / "read.conf").write_text("Client {}\n")
    read = "lookup('file', '%s/read.conf')" % tmp_path
    said = play(
        [
            {
                "ansible.builtin.set_fact": {
                    "read": "{{ %s | strongroom.backup.from_bareos_conf(command='%s') }}" % (read, program)
                }
            },
            debug("read"),
            debug("read[0].Client.Name"),
            {
                "ansible.builtin.debug": {"msg": "{{ direct[0].Client.Name ~ item }}"},
                "vars": {"direct": "{{ %s | strongroom.backup.from_bareos_conf(command='%s') }}" % (read, program)},
                "loop": ["!", "{{ direct[0].Client.Name }}"],
            },
            {
                "ansible.builtin.set_fact": {
                    "written": "{{ [{'Client': read[0].Client}] | strongroom.backup.to_bareos_conf(command='%s') }}"
                    % program
                }
            },
            debug("written"),
        ]
    )
    assert said.count("lookup('pipe'") >= 3
    assert not trap.file.exists()


def test_control_characters_do_not_reach_the_terminal(play):
    client = {
        "connected": True,
        "running": "\x1b]0;1\x07",
        "queued": "2\u202e",
        "workers": "\x1b[2J4\nfalse line",
        "tls_mode": "\x1b[31mktls",
        "last_backup": "2026-11-22T21:00\x1b[1A:07Z",
    }
    said = play(
        [{"ansible.builtin.set_fact": {"strongroom_agent_summary": client}}],
        ANSIBLE_CALLBACKS_ENABLED="strongroom.backup.fleet_summary",
    )
    table = said[said.index("KTLS PROVEN") :]
    assert "ktls" in table
    assert all(letter.isprintable() or letter == "\n" for letter in table)
    assert "false line" not in [line.strip() for line in table.splitlines()]


@pytest.mark.parametrize("odd", [None, 5, [], "x", {"a": None}], ids=str)
def test_odd_values_do_not_stop_the_table(play, odd):
    client = {"connected": odd, "running": odd, "workers": odd, "tls_mode": odd, "last_backup": odd, "last_run": odd}
    said = play(
        [{"ansible.builtin.set_fact": {"strongroom_agent_summary": client}}],
        ANSIBLE_CALLBACKS_ENABLED="strongroom.backup.fleet_summary",
    )
    assert "KTLS PROVEN" in said
