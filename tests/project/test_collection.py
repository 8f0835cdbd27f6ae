"""The collection as somebody has it who installed it, in a folder where nothing else is."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

PROJECT = Path(__file__).resolve().parents[2]
PLAYBOOKS = sorted(path.name for path in (PROJECT / "ansible").glob("*.yml"))
ROLES = sorted(path.name for path in (PROJECT / "roles").iterdir() if path.is_dir())
KINDS = ("callback", "inventory", "lookup")
MODULES = sorted(path.stem for path in (PROJECT / "plugins/modules").glob("*.py"))
PLUGINS = {
    "module": MODULES,
    "filter": sorted(path.stem for path in (PROJECT / "plugins/filter").glob("*.yml")),
    **{kind: sorted(path.stem for path in (PROJECT / "plugins" / kind).glob("*.py")) for kind in KINDS},
}
# A tenth more than it has now: what grows it by more is checked.
LARGEST_BYTES = 220_000


def run(*command, folder, **variables):
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_") and name != "PYTHONPATH"
    }
    environment |= {"ANSIBLE_NOCOLOR": "1", "HOME": str(folder), **variables}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the collection installed from what was built."""
    built, empty = tmp_path_factory.mktemp("built"), tmp_path_factory.mktemp("empty")
    run("ansible-galaxy", "collection", "build", "--output-path", str(built), str(PROJECT), folder=empty)
    (archive,) = built.glob("*.tar.gz")
    assert archive.stat().st_size < LARGEST_BYTES
    run("ansible-galaxy", "collection", "install", "--offline", str(archive), "-p", "collections", folder=empty)
    return empty


@pytest.fixture(scope="module")
def content(installed):
    return installed / "collections/ansible_collections/strongroom/backup"


def test_it_has_roles_plugins_and_playbooks_and_nothing_else(content):
    files = {str(path.relative_to(content)) for path in content.rglob("*") if path.is_file()}
    tops = {path.name for path in content.iterdir()}
    assert tops == {
        "FILES.json",
        "MANIFEST.json",
        "LICENSE",
        "README.md",
        "CHANGELOG.md",
        "ansible",
        "meta",
        "playbooks",
        "plugins",
        "roles",
    }
    assert not [name for name in files if "__pycache__" in name]


def test_its_documentation_is_found(installed):
    for kind, names in PLUGINS.items():
        wanted = ["strongroom.backup." + name for name in names]
        assert wanted
        told = json.loads(
            run(
                *("ansible-doc", "--json", "--type", kind, *wanted),
                folder=installed,
                ANSIBLE_COLLECTIONS_PATH="collections",
            )
        )
        assert sorted(told) == sorted(wanted)
        # An inventory returns hosts, a callback nothing, and a check lines on the screen.
        assert kind == "callback" or all(one["examples"] for one in told.values())
        assert kind in KINDS[:2] or all(
            one["return"] for name, one in told.items() if not name.endswith(".check_inventory")
        )
        # As text it finds faults that it does not find as JSON.
        run("ansible-doc", "--type", kind, *wanted, folder=installed, ANSIBLE_COLLECTIONS_PATH="collections")


def test_its_roles_can_be_used_by_name(installed):
    play = [
        {
            "hosts": "localhost",
            "connection": "local",
            "gather_facts": False,
            "tasks": [
                {
                    "ansible.builtin.include_role": {"name": f"strongroom.backup.{role}", "tasks_from": "report"},
                }
                for role in ROLES
                if (PROJECT / "roles" / role / "tasks/report.yml").exists()
            ]
            + [{"ansible.builtin.debug": {"var": "strongroom_kernel_report"}}],
        }
    ]
    (installed / "play.yml").write_text(yaml.safe_dump(play))
    told = run(
        *("ansible-playbook", "-i", "localhost,", "-e", f"ansible_python_interpreter={sys.executable}", "play.yml"),
        folder=installed,
        ANSIBLE_COLLECTIONS_PATH="collections",
    )
    assert "net.ipv4.tcp_rmem" in told


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_playbooks_are_right_in_the_project_and_from_the_collection(installed, content, playbook):
    run("ansible-playbook", "--syntax-check", playbook, folder=PROJECT / "ansible", HOME=str(installed))
    run(
        *("ansible-playbook", "--syntax-check", "-i", str(content / "ansible/inventory")),
        str(content / "ansible" / playbook),
        folder=installed,
        ANSIBLE_COLLECTIONS_PATH="collections",
    )


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_playbooks_run_by_their_name_from_an_empty_folder(installed, content, playbook):
    name = "strongroom.backup." + playbook.removesuffix(".yml")
    tasks = {
        place: run(
            *("ansible-playbook", "--list-tasks", "-i", str(content / "ansible/inventory"), place),
            folder=installed,
            ANSIBLE_COLLECTIONS_PATH="collections",
            PYTHONHASHSEED="0",  # the tags of a task are a set, and shown as it comes
        ).split("\n", 2)[2]
        for place in (name, str(PROJECT / "ansible" / playbook))
    }
    assert "TAGS" in tasks[name]
    assert tasks[name] == tasks[str(PROJECT / "ansible" / playbook)]


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_each_playbook_is_in_a_guide(playbook):
    guides = (PROJECT / "docs/guides").glob("*.md")
    assert any(re.search(rf"[`/ ]{re.escape(playbook)}\b", guide.read_text()) for guide in guides)


def test_the_example_inventory_has_variables_of_the_roles_only(installed):
    known = set()
    for role in ROLES:
        specs = yaml.safe_load((PROJECT / "roles" / role / "meta/argument_specs.yml").read_text())
        known |= set(specs["argument_specs"]["main"]["options"])
    told = json.loads(run("ansible-inventory", "--list", folder=PROJECT / "ansible", HOME=str(installed)))
    used = {name for host in told["_meta"]["hostvars"].values() for name in host if name.startswith("strongroom_")}
    assert used
    assert not used - known
