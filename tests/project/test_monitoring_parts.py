"""Parts of the monitoring: what each leaves when it is switched off, and Grafana that Debian does not have."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

PROJECT = Path(__file__).resolve().parents[2]
ROLE = PROJECT / "roles/monitoring"
VARIABLES = yaml.safe_load((ROLE / "vars/main.yml").read_text())
PARTS = {"node": ["node"], "storage": ["storage"], "prometheus": ["prometheus"], "alertmanager": ["alertmanager"],
         "grafana": ["grafana", "grafana_deb", "grafana_repository", "grafana_tarball"]}  # fmt: skip
# Data, and what is Debian's or the administrator's.
STAYS = {
    "{{ __monitoring_textfiles }}", "/var/lib/grafana", "/var/log/grafana", "/etc/grafana", "/etc/grafana/grafana.ini",
    "/etc/grafana/provisioning/datasources", "/etc/grafana/provisioning/dashboards",
    "/etc/systemd/system/grafana-server.service.d",
}  # fmt: skip


def paths_in(value, key=""):
    """Absolute paths, and those that begin with a variable, that tasks write to."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from paths_in(one, name)
    elif isinstance(value, list):
        for one in value:
            yield from paths_in(one, key)
    elif key in ("dest", "path", "loop", "creates") and re.match(
        r"/|\{\{ __monitoring_(folder|textfiles|token|auth)", str(value)
    ):
        yield str(value)


@pytest.mark.parametrize("part", sorted(PARTS))
def test_what_a_part_writes_is_removed_with_it(part):
    gone = VARIABLES["__monitoring_files_of"][part]
    own = [one.replace("{{ __monitoring_markers.%s }}" % part, VARIABLES["__monitoring_markers"][part]) for one in gone]
    for name in PARTS[part]:
        tasks = yaml.safe_load((ROLE / f"tasks/{name}.yml").read_text())
        # Shared with the others: the folder, key and certificate of the host.
        for path in paths_in(tasks):
            if path in STAYS or path.endswith(("{{ item }}", "key.pem", "certificate.pem")):
                continue
            if path == "{{ __monitoring_textfiles }}" or path.startswith("/usr/"):
                continue
            assert any(path == one or path.startswith(one + "/") for one in own), path
    assert VARIABLES["__monitoring_markers"][part] == own[-1]


def test_grafana_that_is_not_there_is_refused_before_anything_changes(tmp_path):
    here = {"ansible_connection": "local", "ansible_become": False}
    variables = {"strongroom_monitoring_parts": ["node", "prometheus", "grafana"]}
    groups = {"appliance": {"hosts": {"vault": here}, "vars": variables}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(groups))
    done = subprocess.run(
        ["ansible-playbook", "--check", "-i", str(tmp_path / "hosts.yml"), "examine.yml"],
        cwd=PROJECT / "ansible",
        env={**os.environ, "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    [line] = re.findall(r"^vault +failed +0 .*$", done.stdout, re.MULTILINE)
    assert "strongroom_monitoring_grafana_source" in line
    assert "changed=0" in done.stdout
