"""Services of systemd, with a systemctl of the test."""

import pytest

from strongroom.base.errors import OperatingSystemError
from strongroom.cli.services import start_services, stop_services


@pytest.fixture
def systemctl(tmp_path, monkeypatch):
    """Gives the path a systemctl, whose lines are those of a shell script, and what it was told."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def has(lines):
        program = tmp_path / "systemctl"
        program.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/told\n{lines}\n')
        program.chmod(0o755)
        return lambda: (tmp_path / "told").read_text().splitlines()

    return has


def test_what_runs_is_stopped_and_what_does_not_is_left(systemctl):
    told = systemctl('case "$1 $3" in "is-active two.service") exit 0 ;; is-*) exit 3 ;; esac')
    assert len(stop_services(["one.service", "two.service"])) == 1
    assert [line for line in told() if line.startswith("disable")] == [
        "disable --quiet --now two.service"
    ]


def test_what_is_enabled_and_runs_is_reloaded(systemctl):
    told = systemctl("exit 0")
    assert len(start_services(["one.service", "two.socket"], reload=True)) == 1
    assert told()[-3:] == [
        "reload one.service",
        "is-enabled --quiet two.socket",
        "is-active --quiet two.socket",
    ]


def test_what_systemd_refuses_is_told(systemctl):
    systemctl('[ "$1" = is-active ] || { echo "no such unit" >&2; exit 1; }')
    with pytest.raises(OperatingSystemError, match="no such unit"):
        start_services(["one.service"], reload=False)


def test_no_answer_is_not_taken_for_a_no(systemctl, tmp_path, monkeypatch):
    systemctl("exit 0")
    (tmp_path / "systemctl").chmod(0o644)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OperatingSystemError):
        stop_services(["one.service"])
    (tmp_path / "systemctl").unlink()
    with pytest.raises(OperatingSystemError):
        stop_services(["one.service"])
