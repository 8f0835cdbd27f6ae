"""How long the image's userspace takes to start at this host's own speed: in a container, as machines may be emulated.

Neither firmware nor kernel nor initial RAM disk are in it, and nothing waits for a network, which is another's.
"""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

# Of all, kernel included.
MOST_SECONDS = 15
UNIT = """[Unit]
After=basic.target
[Service]
Type=exec
ExecStart=/bin/sh -c 'systemctl is-system-running --wait; systemd-analyze > /var/seen; systemctl poweroff'
"""
WAITS = "systemd-networkd-wait-online.service"


@pytest.fixture
def copy(root, tmp_path):
    """The root of the image, whose changes go to a folder beside it."""
    for name in ("changes", "work", "root"):
        (tmp_path / name).mkdir()
    options = f"lowerdir={root},upperdir={tmp_path}/changes,workdir={tmp_path}/work"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, tmp_path / "root"], check=True)
    yield tmp_path / "root"
    subprocess.run(["umount", tmp_path / "root"], check=True)


@pytest.mark.skipif(not shutil.which("systemd-nspawn"), reason="systemd-container is not installed")
def test_userspace_starts_in_a_container_at_the_speed_of_this_host(copy, tell):
    units = copy / "etc/systemd/system"
    (units / "seen.service").write_text(UNIT)
    (units / "basic.target.wants").mkdir(exist_ok=True)
    (units / "basic.target.wants/seen.service").symlink_to("../seen.service")
    (units / WAITS).unlink(missing_ok=True)
    (units / WAITS).symlink_to("/dev/null")
    taken = []
    for _ in range(3):
        words = ["--boot", "--quiet", "--register=no", "--keep-unit", "--private-network", "--console=read-only"]
        # As there, no program's files can change.
        read_only = "--bind-ro=+/opt/strongroom:/opt/strongroom"
        subprocess.run(
            ["systemd-nspawn", "--directory", copy, read_only, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            timeout=300,
            check=True,
        )
        seen = copy / "var/seen"
        taken.append(float(re.search(r"finished in ([0-9.]+)s", seen.read_text())[1]))
        seen.unlink()
    tell(f"in a container userspace starts in {', '.join(f'{seconds:.1f}' for seconds in sorted(taken))} s")
    assert min(taken) < MOST_SECONDS
