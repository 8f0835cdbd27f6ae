"""In a real run of Ansible, with tasks that set the facts that the roles set."""

from __future__ import annotations

import os
import subprocess
import sys

import yaml

CLIENT = {
    "type": "client",
    "name": "db1",
    "connected": True,
    "running": 1,
    "queued": 0,
    "workers": 4,
    "tls_mode": "ktls",
    "last_run": {"state": "done"},
    "ktls_proven": True,
    "last_backup": "2026-11-22T21:00:07.123456789Z",
    "failed": False,
    "late": False,
}


def run(folder, tasks, hosts="db1,web1,", code=0):
    play = [{"hosts": "all", "connection": "local", "gather_facts": False, "tasks": tasks}]
    (folder / "play.yml").write_text(yaml.safe_dump(play))
    done = subprocess.run(
        ["ansible-playbook", "-i", hosts, "-e", f"ansible_python_interpreter={sys.executable}", "play.yml"],
        cwd=folder,
        env=os.environ | {"ANSIBLE_CALLBACKS_ENABLED": "strongroom.backup.fleet_summary", "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "WARNING" not in done.stderr, done.stderr
    return done.stdout


def fact(host, **facts):
    return {"ansible.builtin.set_fact": facts, "when": "inventory_hostname == '%s'" % host}


def table(told):
    """The lines of the table below its headings."""
    lines = [" ".join(line.split()) for line in told.splitlines()]
    lines = lines[lines.index("HOST CLIENT JOBS WORKERS TLS KTLS PROVEN LAST BACKUP") + 1 :]
    return lines[: lines.index("")]


def hosts_of(told):
    """The lines of the table of hosts, and what follows."""
    lines = [" ".join(line.split()) for line in told.splitlines()]
    return [line for line in lines[lines.index("HOST STATE CHANGED WHY") + 1 :] if line]


def test_each_client_has_a_line(tmp_path):
    told = run(
        tmp_path,
        [fact("db1", strongroom_agent_summary=CLIENT), fact("web1", strongroom_agent_summary={"name": "web1"})],
    )
    assert table(told) == [
        "db1 connected 1 run, 0 wait 4 ktls last job 2026-11-22 21:00 UTC",
        "web1 offline 0 run, 0 wait - - - none yet",
    ]


def test_the_proof_is_that_of_the_last_job_or_of_the_kernel_in_this_run(tmp_path):
    plain = {**CLIENT, "ktls_proven": False}
    told = run(
        tmp_path,
        [
            fact("db1", strongroom_agent_summary=plain, strongroom_ktls_facts={"proven": True}),
            fact("db2", strongroom_agent_summary=plain, strongroom_ktls_facts={"proven": False}),
            fact("db3", strongroom_agent_summary=plain),
            fact("db4", strongroom_agent_summary={**plain, "last_run": None}),
        ],
        hosts="db1,db2,db3,db4,",
    )
    proofs = [line.split(" ktls ")[1].split(" 2026")[0] for line in table(told)]
    assert proofs == ["kernel", "no", "no", "-"]


def test_what_is_wrong_stands_behind_the_last_backup(tmp_path):
    told = run(tmp_path, [fact("db1", strongroom_agent_summary={**CLIENT, "late": True, "failed": True})])
    assert table(told)[0].endswith("2026-11-22 21:00 UTC, failed, late")


def test_each_host_has_a_line_with_the_reason_where_it_failed(tmp_path):
    told = run(
        tmp_path,
        [
            {"name": "Change", "ansible.builtin.command": "true", "when": "inventory_hostname != 'db2'"},
            {
                "name": "Refuse",
                "ansible.builtin.fail": {"msg": "the disk is\nfull"},
                "when": "inventory_hostname == 'db1'",
            },
            {
                "name": "Call",
                "ansible.builtin.command": 'sh -c \'echo no such user >&2; echo {\\"type\\":\\"error\\"} >&2; exit 3\'',
                "when": "inventory_hostname == 'web1'",
            },
        ],
        hosts="db1,db2,web1,web2,",
        code=2,
    )
    assert hosts_of(told) == [
        "db1 failed 1 Refuse: the disk is full",
        "db2 ok 0",
        "web1 failed 1 Call: no such user",
        "web2 changed 1",
        "Run it again for these: --limit db1,web1",
    ]


def test_a_failure_that_is_ignored_is_none(tmp_path):
    told = run(tmp_path, [{"ansible.builtin.fail": {"msg": "no"}, "ignore_errors": True}])
    assert hosts_of(told) == ["db1 ok 0", "web1 ok 0"]


def test_a_run_without_clients_has_no_table(tmp_path):
    assert "LAST BACKUP" not in run(tmp_path, [{"ansible.builtin.debug": {"msg": "nothing"}}])
