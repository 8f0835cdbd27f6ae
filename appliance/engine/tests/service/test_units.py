"""The units keep the sandboxes that were promised, as systemd itself judges them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kit.project import UNITS
from strongroom.config.table.schema import DAEMON_RESOURCES, key_of, schema

pytestmark = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)


@pytest.mark.parametrize(
    ("unit", "largest_exposure"),
    [
        ("strongroom-director.service", 2.5),
        ("strongroom-storage.service", 2.5),
        ("strongroom-agent.service", 4.5),
        ("strongroom-agent-restore@.service", 4.5),
    ],
)
def test_the_exposure_of_a_unit_is_small(unit, largest_exposure):
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(UNITS / unit)]
    seen = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", seen.stdout)
    assert found, seen.stderr
    assert float(found[1]) <= largest_exposure


def test_every_unit_is_well_formed(tmp_path):
    """Nothing of a unit is ignored; only the programs are not there yet."""
    for unit in UNITS.glob("*.s*"):
        if not unit.is_file():
            continue
        seen = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", str(unit)],
            capture_output=True,
            text=True,
            check=False,
            env={"SYSTEMD_UNIT_PATH": f"{UNITS}:", "PATH": "/usr/bin:/bin"},
        )
        about_it = [
            line
            for line in seen.stderr.splitlines()
            if "strongroom" in line and "not executable" not in line
        ]
        assert not about_it


def test_no_service_writes_a_core():
    units = list(UNITS.glob("*.service"))
    assert len(units) >= 4
    assert [unit.name for unit in units if "\nLimitCORE=0\n" not in unit.read_text()] == []


@pytest.mark.parametrize("daemon", ["director", "storage"])
def test_a_daemon_may_take_minutes_to_start(daemon):
    """Emulated, beside the rest of the appliance, it took 71 seconds."""
    assert "\nTimeoutStartSec=10min\n" in (UNITS / f"strongroom-{daemon}.service").read_text()


def test_the_agent_may_only_read():
    text = (UNITS / "strongroom-agent.service").read_text()
    assert "CapabilityBoundingSet=CAP_DAC_READ_SEARCH\n" in text
    assert "ProtectSystem=strict\n" in text


def test_the_agent_may_write_its_figures_where_the_reference_says():
    text = (UNITS / "strongroom-agent.service").read_text()
    resource = schema().components["agent"].resources[key_of(DAEMON_RESOURCES["agent"])]
    said = resource.by_key[key_of("MetricsFile")].description
    example = re.search(r"such as (/\S+\.prom)", said)
    assert example is not None
    assert f"\nReadWritePaths=-{Path(example[1]).parent}\n" in text


@pytest.mark.parametrize("component", ["director", "storage", "agent"])
def test_a_daemon_looks_for_faults_in_the_process_that_starts(component):
    """Another one would load all of the program for it, which is most of what a start takes."""
    text = (UNITS / f"strongroom-{component}.service").read_text()
    [start] = [
        line for line in text.splitlines() if line.startswith("Exec") and "Reload" not in line
    ]
    assert start.split()[1:3] == [component, "--config"]
    assert start.endswith(" --foreground --check-first")


@pytest.mark.parametrize("component", ["director", "storage", "agent"])
def test_what_a_daemon_keeps_by_default_lies_where_its_unit_lets_it_write(component):
    text = (UNITS / f"strongroom-{component}.service").read_text()
    resource = schema().components[component].resources[key_of(DAEMON_RESOURCES[component])]
    for directive in ("WorkingDirectory", "IdentityDirectory"):
        folder = str(resource.by_key[key_of(directive)].default)
        folders = re.findall(r"^StateDirectory=(.*)$", text, re.MULTILINE)[0].split()
        assert any(Path(folder).is_relative_to(f"/var/lib/{state}") for state in folders)
