"""What holds for every role."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

PROJECT = Path(__file__).resolve().parents[2]
ROLES = sorted(path for path in (PROJECT / "roles").iterdir() if path.is_dir())
each_role = pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)


def specs_of(role):
    return yaml.safe_load((role / "meta/argument_specs.yml").read_text())["argument_specs"]


def texts_of(role):
    """What the role does: everything but what describes its variables."""
    paths = [path for part in ("tasks", "handlers", "templates", "vars") for path in role.glob(part + "/**/*")]
    return "\n".join(path.read_text() for path in paths if path.is_file())


@each_role
def test_defaults_are_those_of_the_specs(role):
    options = specs_of(role)["main"]["options"]
    expected = {name: option["default"] for name, option in options.items() if "default" in option}
    assert yaml.safe_load((role / "defaults/main.yml").read_text()) == expected


@each_role
def test_each_variable_is_typed_described_and_named_alike(role):
    def look(options, prefix):
        for name, option in options.items():
            assert option["type"], name
            assert len(str(option["description"])) > 10, name
            assert option["type"] != "list" or option["elements"], name
            if prefix:
                assert name.startswith(prefix), name
            look(option.get("options", {}), "")

    look(specs_of(role)["main"]["options"], "strongroom_")


# It takes away itself: what it did not leave on an image cannot be brought back.
FOR_IMAGES = "image_prep"


@pytest.mark.parametrize("role", [one for one in ROLES if one.name != FOR_IMAGES], ids=lambda one: one.name)
def test_each_can_be_taken_away(role):
    state = specs_of(role)["main"]["options"][f"strongroom_{role.name.removesuffix('_tuning')}_state"]
    assert (state["choices"], state["default"]) == (["present", "absent"], "present")


@each_role
def test_no_variable_changes_nothing(role):
    text = texts_of(role)
    # Playbooks read the order of a roll-out.
    for name in specs_of(role)["main"]["options"].keys() - {"strongroom_rollout_order"}:
        assert re.search(rf"\b{name}\b", text), f"{name} is read nowhere"


@each_role
def test_no_role_reads_another_ones_variables(role):
    own = set(specs_of(role)["main"]["options"])
    others = {name for one in ROLES if one != role for name in specs_of(one)["main"]["options"]}
    # Of another host, such as the appliance's address, it may, and it may tell people which one to set.
    text = re.sub(r"\bhostvars\[\w+\]\.strongroom_[a-z0-9_]+|\bSet strongroom_[a-z0-9_]+", "", texts_of(role))
    named = set(re.findall(r"\bstrongroom_[a-z0-9_]+", text))
    assert not named & (others - own)


@each_role
def test_each_entry_point_has_its_tasks(role):
    for entry in specs_of(role):
        assert (role / "tasks" / f"{entry}.yml").exists()


def test_defaults_readmes_and_references_are_up_to_date():
    for script in ("role_documents.py", "plugin_documents.py"):
        command = [sys.executable, PROJECT / "ansible/developing" / script, "--check"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


def test_hardening_sets_nothing_that_tuning_sets():
    settings = re.compile(r"^\s+((?:net|vm|fs|kernel)\.[a-z0-9_.]+):", re.MULTILINE)
    found = {
        name: set(settings.findall((PROJECT / "roles" / name / "vars/main.yml").read_text()))
        for name in ("hardening", "kernel_tuning")
    }
    assert len(found["hardening"]) > 20
    assert len(found["kernel_tuning"]) > 10
    assert not found["hardening"] & found["kernel_tuning"]


def tasks_of(tasks):
    """All tasks, those in blocks too."""
    for task in tasks or []:
        yield task
        for part in ("block", "rescue", "always"):
            yield from tasks_of(task.get(part))


def test_no_task_shows_or_logs_a_secret():
    """What makes a secret, and what gives one to a program or a file."""
    secret = re.compile(
        r"ansible\.builtin\.password|enrolment_token|_token\.stdout|(?<!_)passphrase }}|'token', '--out'"
    )
    found = []
    for path in sorted(PROJECT.glob("roles/*/tasks/**/*.yml")):
        for task in tasks_of(yaml.safe_load(path.read_text())):
            own = {name: value for name, value in task.items() if name not in ("block", "rescue", "always", "when")}
            makes = "token" in str(own.get("ansible.builtin.command", "")) and "'--out', '-'" in str(own)
            if (secret.search(str(own)) or makes) and task.get("no_log") is not True:
                found.append("%s: %s" % (path.relative_to(PROJECT), task.get("name")))
    assert found == []


def test_files_of_secrets_are_for_their_owner_and_who_needs_them():
    """A mode is with each file that a role writes, and no secret is readable for all."""
    wrong = []
    for path in sorted(PROJECT.glob("roles/*/tasks/**/*.yml")):
        for task in tasks_of(yaml.safe_load(path.read_text())):
            for module in ("ansible.builtin.copy", "ansible.builtin.template"):
                written = task.get(module)
                if not isinstance(written, dict):
                    continue
                mode = str(written.get("mode", ""))
                is_secret = re.search(r"password|key\.pem|token|passphrase|secret", str(written.get("dest", "")))
                if not mode or (is_secret and mode[-1] != "0"):
                    wrong.append("%s: %s: mode %s" % (path.relative_to(PROJECT), task.get("name"), mode))
    assert wrong == []


def test_a_check_needs_nothing_that_a_minimal_debian_lacks():
    """ansible.builtin.apt needs python3-apt in check mode."""
    found = []
    paths = [*PROJECT.glob("roles/*/tasks/**/*.yml"), *PROJECT.glob("ansible/**/*.yml")]
    for path in sorted(paths):
        if "collections" in path.parts or "inventory" in path.parts:
            continue
        tasks = [one for play in yaml.safe_load(path.read_text()) or [] for one in [play, *play.get("tasks", [])]]
        for task in tasks_of(tasks):
            if "ansible.builtin.apt" in task and "not ansible_check_mode" not in str(task.get("when")):
                found.append("%s: %s" % (path.relative_to(PROJECT), task.get("name")))
    assert found == []
