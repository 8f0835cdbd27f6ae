"""Hosts that are no Debian that there are packages for, and ways to packages: no internet, a proxy."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

PROJECT = Path(__file__).resolve().parents[2]
HERE = {"ansible_connection": "local", "ansible_become": False}
SYSTEMS = {
    "rhel": 'NAME="Red Hat Enterprise Linux"\nVERSION="9.4 (Plow)"\nID="rhel"\nID_LIKE="fedora"\nVERSION_ID="9.4"\n'
    'PRETTY_NAME="Red Hat Enterprise Linux 9.4 (Plow)"\n',
    "ubuntu": 'PRETTY_NAME="Ubuntu 24.04.1 LTS"\nVERSION_ID="24.04"\nID=ubuntu\nID_LIKE=debian\n',
    "old": "PRETTY_NAME='Debian GNU/Linux 11 (bullseye)'\nVERSION_ID='11'\nID=debian\n",
    "none": "",
    "trixie": 'PRETTY_NAME="Debian GNU/Linux 13 (trixie)"\nVERSION_ID="13"\nID=debian\n',
}


def examine(folder, text, **variables):
    """What examine.yml says of a host with this /etc/os-release."""
    programs = folder / "programs"
    programs.mkdir()
    (folder / "os-release").write_text(text)
    (programs / "cat").write_text(
        f'#!/bin/sh\n[ "$1" = /etc/os-release ] && set -- {folder}/os-release\nexec /bin/cat "$@"\n'
    )
    (programs / "cat").chmod(0o755)
    groups = {"agents": {"hosts": {"web1": HERE}, "vars": {"strongroom_agent_group": "servers", **variables}}}
    groups["appliance"] = {"hosts": {"vault": {**HERE, "strongroom_appliance_address": "localhost"}}}
    (folder / "hosts.yml").write_text(yaml.safe_dump(groups))
    done = subprocess.run(
        ["ansible-playbook", "-i", str(folder / "hosts.yml"), "examine.yml", "--limit", "web1"],
        cwd=PROJECT / "ansible",
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("system", "name"),
    [
        ("rhel", "Red Hat Enterprise Linux 9.4 (Plow)"),
        ("ubuntu", "Ubuntu 24.04.1 LTS"),
        ("old", "Debian GNU/Linux 11 (bullseye)"),
        ("none", "a system without /etc/os-release"),
    ],
)
def test_another_system_is_refused_before_anything_changes(tmp_path, system, name):
    code, output = examine(tmp_path, SYSTEMS[system])
    assert code != 0
    [line] = re.findall(r"^web1 +failed +0 .*$", output, re.MULTILINE)
    assert f"This host has {name}, and Strongroom is for Debian 12 and 13." in line
    # Nothing else was asked of it.
    assert "Look whether the kernel does TLS" not in output


def test_a_debian_that_there_are_packages_for_is_not(tmp_path):
    code, output = examine(tmp_path, SYSTEMS["trixie"])
    assert code == 0, output


def test_another_system_can_have_the_agent_from_one_file_where_systemd_runs(tmp_path):
    code, output = examine(tmp_path, SYSTEMS["rhel"], strongroom_install_method="pyz")
    assert "Strongroom is for Debian" not in output
    if Path("/run/systemd/system").is_dir():
        assert code == 0, output
    else:
        assert code != 0
        assert "This host does not run systemd" in output


def test_another_way_of_installing_is_refused(tmp_path):
    code, output = examine(tmp_path, SYSTEMS["trixie"], strongroom_install_method="apk")
    assert code != 0
    assert "strongroom_install_method" in output


def engine(name, **variables):
    """A variable of the role engine."""
    folder = PROJECT / "roles/engine"
    values = {
        "inventory_hostname": "web1",
        "groups": {"appliance": ["vault"]},
        "hostvars": {"vault": {"ansible_host": "192.0.2.10"}},
        **yaml.safe_load((folder / "defaults/main.yml").read_text()),
        **yaml.safe_load((folder / "vars/main.yml").read_text()),
        **variables,
    }
    trusted = {key: trust_as_template(value) if isinstance(value, str) else value for key, value in values.items()}
    return Templar(loader=DataLoader(), variables=trusted).template(trust_as_template("{{ %s }}" % name))


@pytest.mark.parametrize(
    ("variables", "direct"),
    [
        ({}, "192.0.2.10"),
        ({"hostvars": {"vault": {"ansible_host": "2001:db8::10"}}}, "2001:db8::10"),
        ({"hostvars": {"vault": {"strongroom_appliance_address": "vault.example.org"}}}, "vault.example.org"),
        # The appliance takes them from its disk.
        ({"inventory_hostname": "vault"}, ""),
        ({"strongroom_engine_repository": "https://apt.example.org"}, ""),
        ({"strongroom_engine_files": "build/packages/trixie"}, ""),
    ],
)
def test_no_proxy_stands_between_a_client_and_the_packages_of_the_appliance(variables, direct):
    assert engine("__engine_direct", **variables) == direct


def test_each_part_of_a_roll_out_can_be_run_alone():
    done = subprocess.run(
        ["ansible-playbook", "-i", "inventory", "site.yml", "--list-tags"],
        cwd=PROJECT / "ansible",
        env={**os.environ, "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    tags = {tag for found in re.findall(r"TASK TAGS: \[(.*)\]", done.stdout) for tag in found.split(", ")}
    assert tags >= {"hardening", "tuning", "packages", "appliance", "agents", "monitoring", "always"}
