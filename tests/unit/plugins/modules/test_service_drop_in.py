"""With a systemctl that has no systemd, and the program of the packages that restarts a daemon."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.strongroom.backup.plugins.modules import service_drop_in

RESTART = Path(__file__).resolve().parents[4] / "appliance/packages/restart-when-idle"
# The agent runs unless its limits are too small; the unit that restarts it runs the program that the packages have.
SYSTEMCTL = """#!/bin/sh
limits="$UNIT_FOLDER/strongroom-agent.service.d/50-inventory.conf"
echo "$*" >> "$UNIT_FOLDER/given"
[ -e "$UNIT_FOLDER/stopped" ] || ! grep -qs MemoryMax=1M "$limits" && up=0 || up=1
case "$*" in
    *ActiveState*restart@*) echo inactive ;;
    *ActiveState*) [ -e "$UNIT_FOLDER/stopped" ] && echo inactive || echo active ;;
    show*MainPID*) echo 4242 ;;
    *--no-block*) %s agent 10 ;;
    is-active*|restart*) exit $up ;;
esac
exit 0
"""


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A folder of units, beside those programs."""
    (tmp_path / "systemctl").write_text(SYSTEMCTL % RESTART)
    (tmp_path / "journalctl").write_text(
        "#!/bin/sh\necho \"strongroom-agent.service: Failed with result 'oom-kill'.\"\n"
    )
    for name in ("systemctl", "journalctl"):
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("UNIT_FOLDER", str(tmp_path))
    monkeypatch.setenv("SETTLE_SECONDS", "0")
    return tmp_path


@pytest.fixture
def limit(host, run_module):
    """Limit the agent to so much memory; what the module returns."""

    def run(size, **words):
        content = "[Service]\nMemoryMax=%s\n" % size
        return run_module(service_drop_in, daemon="agent", content=content, folder=str(host), **words)

    return run


def files_of(host):
    folder = host / "strongroom-agent.service.d"
    return {path.name: path.read_text() for path in folder.iterdir()} if folder.exists() else {}


def test_limits_are_written_and_the_daemon_restarted_and_the_same_again_changes_nothing(host, limit):
    assert limit("1G")["changed"]
    assert files_of(host) == {"50-inventory.conf": "[Service]\nMemoryMax=1G\n"}
    given = (host / "given").read_text()
    assert "daemon-reload" in given
    assert "restart strongroom-agent.service" in given
    told = limit("1G")
    assert (told["changed"], told["waiting"]) == (False, False)
    assert (host / "given").read_text() == given


def test_a_check_changes_nothing(host, limit):
    assert limit("1G", check=True)["changed"]
    assert files_of(host) == {}
    assert not (host / "given").exists()


@pytest.mark.parametrize("before", ["1G", None])
def test_limits_with_which_the_daemon_does_not_come_up_are_put_back_with_the_reason(host, limit, before):
    if before:
        limit(before)
    told = limit("1M")
    assert told["failed"]
    assert "the limits of before were put back, for the agent did not come up with the new ones" in told["msg"]
    assert "oom-kill" in told["msg"]
    expected = {"50-inventory.conf": "[Service]\nMemoryMax=1G\n"} if before else {}
    assert files_of(host) == expected


def test_a_daemon_that_does_not_run_is_not_started(host, limit):
    (host / "stopped").touch()
    assert limit("1G")["changed"]
    assert "restart" not in (host / "given").read_text()
    assert files_of(host) == {"50-inventory.conf": "[Service]\nMemoryMax=1G\n"}


def test_while_a_job_runs_nobody_waits_and_the_limits_of_before_stay_for_the_host(host, limit, monkeypatch):
    limit("1G")
    busy = host / "busy"
    busy.write_text("#!/bin/sh\n# is-busy\nexit 0\n")
    busy.chmod(0o755)
    monkeypatch.setattr(service_drop_in, "BUSY", str(busy))
    # The unit waits for the job.
    (host / "systemctl").write_text((SYSTEMCTL % "true").replace("%s agent 10", "true"))
    assert limit("2G")["waiting"]
    assert limit("3G")["waiting"]
    assert files_of(host) == {
        "50-inventory.conf": "[Service]\nMemoryMax=3G\n",
        "50-inventory.conf.before": "[Service]\nMemoryMax=1G\n",
    }
