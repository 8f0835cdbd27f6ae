"""`validate.yml` as a user runs it, on inventories with faults: what is listed, and that no host is reached."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

PROJECT = Path(__file__).resolve().parents[2]
ROLES = yaml.safe_load((PROJECT / "meta/variables.yml").read_text())["roles"]
OPTIONS = {name: option for role in ROLES.values() for name, option in role["options"].items()}
# Host, text, file and line.
LINE = re.compile(r"^(?P<hosts>\S.*?): (?P<text>(?:strongroom_|ansible_host).*?)(?: \((?P<place>[^()]*)\))?$")


class Fleet:
    """The example inventory, with changes; where it stands no one answers."""

    def __init__(self, folder):
        self.inventory = folder / "inventory"
        shutil.copytree(PROJECT / "ansible/inventory", self.inventory)

    def write(self, name, **variables):
        """Add variables to a file such as group_vars/all.yml."""
        path = self.inventory / name
        path.parent.mkdir(exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            for key, value in variables.items():
                file.write(f"{key}: {json.dumps(value)}\n")

    def play(self, playbook="validate.yml", *arguments):
        """Run a playbook: exit code, output."""
        done = subprocess.run(
            ["ansible-playbook", "-i", self.inventory, PROJECT / "ansible" / playbook, *arguments],
            cwd=PROJECT / "ansible",
            env={
                **os.environ,
                "ANSIBLE_NOCOLOR": "1",
                "ANSIBLE_COLLECTIONS_PATH": str(PROJECT / "ansible/collections"),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def faults(self, *arguments):
        """What validate.yml lists, as (hosts, variable with its place in it, file and line)."""
        code, output = self.play("validate.yml", *arguments)
        found = [match for match in map(LINE.match, output.splitlines()) if match]
        assert bool(found) == (code != 0), output
        return {(one["hosts"], one["text"].split()[0].rstrip(":"), one["place"]) for one in found}


@pytest.fixture
def fleet(tmp_path):
    return Fleet(tmp_path)


def test_the_example_inventory_is_right(fleet):
    assert fleet.faults() == set()


def test_each_kind_of_fault_is_listed_at_once_with_file_and_line(fleet):
    fleet.write("host_vars/db1.yml", strongroom_compresion="none", strongroom_nice=50, strongroom_memory_max="4 gigs")
    fleet.write("host_vars/db2.yml", strongroom_tls_enable=False, strongroom_workers=-1, strongroom_shards="many")
    fleet.write(
        "host_vars/web1.yml",
        strongroom_compression="foo",
        strongroom_exclude="/proc",
        strongroom_agent_group="small_vm",
    )
    fleet.write(
        "host_vars/web2.yml", strongroom_agent_name="web1", strongroom_ktls="require", strongroom_ktls_state="absent"
    )
    fleet.write("host_vars/vault.yml", strongroom_appliance_backup_time="25:00", strongroom_appliance_address="::1")
    found = fleet.faults()
    assert found == {
        ("db1", "strongroom_compresion", "host_vars/db1.yml:1"),
        ("db1", "strongroom_nice", "host_vars/db1.yml:2"),
        ("db1", "strongroom_memory_max", "host_vars/db1.yml:3"),
        ("db2", "strongroom_tls_enable", "host_vars/db2.yml:1"),
        ("db2", "strongroom_workers", "host_vars/db2.yml:2"),
        ("db2", "strongroom_shards", "host_vars/db2.yml:3"),
        ("web1", "strongroom_compression", "host_vars/web1.yml:1"),
        ("web1", "strongroom_exclude", "host_vars/web1.yml:2"),
        ("web1", "strongroom_agent_group", "host_vars/web1.yml:3"),
        ("web2", "strongroom_agent_name", "host_vars/web2.yml:1"),
        ("web2", "strongroom_ktls", "host_vars/web2.yml:2"),
        ("vault", "strongroom_appliance_backup_time", "host_vars/vault.yml:1"),
        ("vault", "strongroom_appliance_address", "host_vars/vault.yml:2"),
    }


def test_the_place_is_found_in_each_of_several_inventories(fleet, tmp_path):
    edits = tmp_path / "edits"
    (edits / "host_vars").mkdir(parents=True)
    (edits / "hosts.yml").write_text("all: {hosts: {db1: {}, web1: {strongroom_nice: 51}}}\n")
    (edits / "host_vars/db1.yml").write_text("strongroom_nice: 50\n")
    fleet.write("host_vars/db1.yml", strongroom_nice=40)
    fleet.write("host_vars/web2.yml", strongroom_shards=-1)
    assert fleet.faults("-i", edits) == {
        ("db1", "strongroom_nice", f"{edits}/host_vars/db1.yml:1"),
        ("web1", "strongroom_nice", f"{edits}/hosts.yml:1"),
        ("web2", "strongroom_shards", f"{fleet.inventory}/host_vars/web2.yml:1"),
    }


def test_what_the_appliance_has_must_fit_together(fleet):
    fleet.write(
        "host_vars/vault.yml",
        strongroom_schedules=[
            {"name": "Monthly", "runs": ["Full 1st sun at 2:05"]},
            {"name": "monthly", "runs": ["daily"]},
        ],
        strongroom_retention=[
            {"name": "Usual", "daily": 14, "weekly": 0, "monthly": 0},
            {"name": "None", "daily": 0, "weekly": 0, "monthly": 0},
        ],
        strongroom_groups=[
            {"name": "databases", "schedule": "Nightli", "retention": "Usual"},
            {"name": "file_servers", "schedule": "Monthly", "retention": "Usual", "fileset": "Home"},
            {"name": "small_vms", "schedule": "Nightly", "retention": "Long"},
        ],
    )
    assert {variable for _hosts, variable, _place in fleet.faults()} == {
        "strongroom_schedules",
        "strongroom_groups.schedule",
        "strongroom_groups.fileset",
        "strongroom_groups.retention",
        "strongroom_retention",
    }


def test_what_roles_read_on_this_machine_must_be_there(fleet, tmp_path):
    """Before the first host is reached; `validate.yml` alone needs none of it."""

    def listed():
        _code, output = fleet.play("site.yml")
        return {match["text"].split()[0].rstrip(":") for match in map(LINE.match, output.splitlines()) if match}

    key, folder = tmp_path / "key.asc", tmp_path / "apt"
    fleet.write("group_vars/all.yml", strongroom_engine_repository_key=str(key))
    fleet.write("group_vars/appliance.yml", strongroom_appliance_packages=str(folder))
    assert fleet.faults() == set()
    assert listed() == {"strongroom_engine_repository_key", "strongroom_appliance_packages"}
    key.write_text("")
    folder.mkdir()
    assert listed() == set()
    fleet.write("host_vars/vault.yml", strongroom_appliance_packages="https://packages.example.org/apt")
    fleet.write("host_vars/vault.yml", strongroom_appliance_store_keys="keys.yml")
    fleet.write("host_vars/db1.yml", strongroom_install_method="pyz")
    fleet.write("host_vars/db2.yml", strongroom_engine_repository_key="")
    fleet.write("host_vars/web1.yml", strongroom_engine_files="/", strongroom_engine_repository="http://192.0.2.1/apt")
    assert listed() == {
        "strongroom_appliance_packages_key",
        "strongroom_appliance_store_keys",
        "strongroom_engine_pyz",
        "strongroom_engine_repository_key",
        "strongroom_engine_files",
    }


def test_notices_that_the_director_would_refuse_are_listed(fleet):
    fleet.write(
        "host_vars/vault.yml",
        strongroom_mail={"SMTP Server": "mail.example.org"},
        strongroom_notices=[
            {"name": "ann", "type": "Mail", "directives": {"To": "no address", "Digest At": "29:00"}},
            {"name": "chat", "type": "Slack"},
        ],
    )
    assert {variable for _hosts, variable, _place in fleet.faults()} == {
        "strongroom_mail",
        "strongroom_notices[1].directives.To",
        "strongroom_notices[1].directives.Digest",
        "strongroom_notices[2]",
    }


def test_a_fault_hides_no_other(fleet):
    fleet.write("host_vars/db1.yml", strongroom_agent_group="databses")
    fleet.write(
        "host_vars/vault.yml",
        strongroom_schedules=[{"name": "Weekly", "runs": ["Fulll sun at 3:00"]}],
        strongroom_retention=[{"name": "Long", "daily": 30, "hourly": 3}, {"name": "Usual", "daily": "many"}],
        strongroom_groups=[
            {"name": "databases", "schedule": "Weekley", "retention": "Longer", "directives": {"Priorty": 5}},
            {"name": "file_servers", "schedule": "Nightly", "retention": "Long"},
            {"name": "small_vms", "schedule": "Nightly", "retention": "Usual"},
        ],
    )
    assert {found[:2] for found in fleet.faults()} == {
        ("db1", "strongroom_agent_group"),
        ("vault", "strongroom_schedules[1].runs[1]"),
        ("vault", "strongroom_retention[1].hourly"),
        ("vault", "strongroom_retention[2].daily"),
        ("vault", "strongroom_groups[1].directives.Priorty"),
        ("vault", "strongroom_groups.schedule"),
        ("vault", "strongroom_groups.retention"),
    }


def test_many_hosts_with_one_fault_are_one_line(fleet):
    fleet.write("group_vars/agents.yml", strongroom_nice=50)
    # The small machines have another value, of their own group.
    assert fleet.faults() == {("db1, db2, files-lisbon", "strongroom_nice", "group_vars/agents.yml:1")}
    fleet.write("group_vars/all.yml", strongroom_wrong=1)
    assert ("vault, db1, db2 and 3 more", "strongroom_wrong") in {found[:2] for found in fleet.faults()}


def test_a_misspelt_key_within_a_variable_is_named(fleet):
    fleet.write("host_vars/vault.yml", strongroom_retention=[{"name": "Long", "dayly": 14}, {"daily": 7}])
    assert {variable for _hosts, variable, _place in fleet.faults()} == {
        "strongroom_retention[1].dayly",
        "strongroom_retention[2]",
    }


def test_the_list_has_an_end(fleet):
    for number in range(90):
        fleet.write("group_vars/all.yml", **{f"strongroom_wrong_{number}": 1})
    code, output = fleet.play()
    assert code != 0
    assert len(output.strip().splitlines()) <= 65


def test_what_the_command_line_sets_is_checked_too(fleet):
    assert {
        (variable, place) for _hosts, variable, place in fleet.faults("-e", "strongroom_nice=50", "--limit", "web2")
    } == {("strongroom_nice", "-e on the command line")}


def test_a_value_that_needs_facts_of_a_host_is_left_to_its_role(fleet):
    fleet.write(
        "host_vars/db1.yml",
        strongroom_shards="{{ ansible_facts.processor_vcpus // 2 }}",
        strongroom_workers="{{ nothing_here }}",
    )
    assert fleet.faults() == {("db1", "strongroom_workers", "host_vars/db1.yml:2")}


@pytest.mark.parametrize("playbook", sorted(path.name for path in (PROJECT / "ansible").glob("*.yml")))
def test_every_playbook_checks_before_it_reaches_a_host(fleet, playbook):
    fleet.write("host_vars/db1.yml", strongroom_nice=50)
    more = ["-e", "client=db1", "-e", "target=/var/tmp/x"] if playbook in ("restore.yml", "remove.yml") else []
    code, output = fleet.play(playbook, *more)
    assert code != 0
    assert "strongroom_nice: 50 is not between 0 and 19 (host_vars/db1.yml:1)" in output
    assert "UNREACHABLE" not in output
    assert "Gathering Facts" not in output


# A value of a type that no option takes, by type.
WRONG = {"str": [1, 2], "path": ["/"], "int": "many", "float": "many", "bool": "perhaps", "list": "one", "dict": "one"}


def test_a_wrong_type_of_any_variable_is_refused(fleet):
    fleet.write("host_vars/db1.yml", **{name: WRONG[option["type"]] for name, option in OPTIONS.items()})
    code, output = fleet.play()
    assert code != 0
    names = re.findall(r"^db1: (strongroom_\w+)", output, re.MULTILINE)
    hidden = int((re.search(r"and (\d+) more faults", output) or [0, 0])[1])
    assert len(set(names)) + hidden >= len(OPTIONS)


def test_the_schema_for_editors_knows_every_variable():
    schema = json.loads((PROJECT / "ansible/inventory.schema.json").read_text())
    assert set(schema["properties"]) == set(OPTIONS)
    unknown = re.compile(next(iter(schema["patternProperties"])))
    assert unknown.search("strongroom_compresion")
    assert not any(unknown.search(name) for name in OPTIONS)


@pytest.mark.parametrize(
    "inventory", sorted(PROJECT.glob("appliance/engine/tests/golden/*/inventory")), ids=lambda path: path.parent.name
)
def test_the_example_inventory_of_every_release_is_valid(inventory):
    done = subprocess.run(
        ["ansible-playbook", "-i", inventory, "validate.yml"],
        cwd=PROJECT / "ansible",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
