"""The units of the daemons and the schedule of one machine, on a host with a systemd of its own.

The host is a container that has this machine's own /usr; `make test-systemd` has both Debians, and
follows the guides.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

_PROGRAM = Path(__file__).with_name("run_on_host.sh")
_NO_HOST_HERE = 98


@pytest.mark.parametrize("steps", ["on_host.sh", "single_machine.sh"])
def test_each_step_is_right_on_a_systemd_host(steps: str) -> None:
    done = subprocess.run(
        [_PROGRAM, "here", steps],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode == _NO_HOST_HERE:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout[-8000:]
