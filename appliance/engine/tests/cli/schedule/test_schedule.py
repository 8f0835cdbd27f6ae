"""The schedule of one machine: its configuration, its units, and what a run does."""

import fcntl
import re
import shutil
import subprocess
import textwrap
from contextlib import closing
from pathlib import Path

import pytest

from kit.command import PASSPHRASE
from kit.project import DOCUMENTS
from kit.sealed_by_hand import snapshot_object
from kit.sealed_by_hand import store as stored
from strongroom.base.errors import (
    EXIT_INCOMPLETE,
    CheckFailedError,
    ConfigurationError,
    LeaseError,
    OperatingSystemError,
    PathMissingError,
    RepositoryNotFoundError,
    ScriptError,
    SourceError,
    UsageError,
    WrongKeyError,
)
from strongroom.cli.main import command_parser
from strongroom.cli.schedule.machine import ScheduledMachine
from strongroom.cli.schedule.run import steps_of
from strongroom.config.settings.machine import MachineSettings
from strongroom.engine.repository.repository import Repository
from strongroom.engine.stores.local import LocalStore


def test_the_service_backs_up_forgets_and_checks_a_part(machine):
    unit = machine.units()["strongroom-backup.service"]
    done = machine.start_service(unit)
    assert done.returncode == 0, done.stderr
    (snapshot,) = machine.command.objects("snapshots")
    assert (snapshot["host"], snapshot["job"], snapshot["files"]) == ("web1", "scheduled", 1)
    assert [line for line in done.stdout.splitlines() if line.endswith(":")] == [
        "backup:",
        "forget:",
        "check:",
    ]


def test_each_run_checks_the_next_part_until_all_are(machine):
    shown = []
    for _ in range(4):
        machine.schedule("run")
        shown.append(machine.schedule("show").stdout)
    parts = [text.split("one of 3 parts with each run, last ")[1][0] for text in shown]
    assert parts == ["1", "2", "3", "1"]


def test_the_rules_are_about_snapshots_of_the_schedule_only(machine):
    by_hand = machine.command.back_up(str(machine.data))
    for _ in range(3):
        machine.schedule("run")
    left = {one["id"]: one["job"] for one in machine.command.objects("snapshots")}
    assert sorted(left.values()) == ["", "scheduled"]
    assert by_hand in left


def test_a_run_removes_no_young_snapshot_unless_it_is_told_to_and_a_person_may(machine):
    text = machine.configuration.read_text()
    machine.configuration.write_text(text.replace("Minimum Retention = 0;", ""))
    for _ in range(3):
        machine.schedule("run")
    assert len(machine.command.objects("snapshots")) == 3
    machine.command("forget", "--keep-last", "1", "--minimum-retention", "7d")
    assert len(machine.command.objects("snapshots")) == 3
    machine.command("forget", "--keep-last", "1")
    assert len(machine.command.objects("snapshots")) == 1


def test_without_rules_nothing_is_forgotten(machine):
    machine.configuration.write_text(
        machine.configuration.read_text().replace("Keep Daily = 14", "")
    )
    for _ in range(3):
        machine.schedule("run")
    assert len(machine.command.objects("snapshots")) == 3
    assert "everything, without limit" in machine.schedule("show").stdout


@pytest.mark.parametrize(
    ("repository", "names"),
    [("/mnt/repository", ["backup"]), ("s3://bucket/web1", ["backup", "lock"])],
)
def test_a_bucket_is_locked_after_each_backup(repository, names):
    settings = MachineSettings(
        name="web1",
        repository=repository,
        passphrase_file="/root/passphrase",
        fileset="all",
        events=(),
        randomized_delay_seconds=0,
        keep=None,
        minimum_retention_seconds=0,
        check_parts=0,
        notify_command="",
        success_command="",
    )
    steps = steps_of(ScheduledMachine("/etc/machine.conf", settings, (), ()), 1)
    assert [step.name for step in steps] == names
    for step in steps:
        command_parser(step.words[0]).parse_args(list(step.words[1:]))


def test_a_failed_backup_ends_the_run_with_its_code(machine):
    shutil.rmtree(machine.data)
    done = machine.schedule("run", exit_code=SourceError.exit_code)
    assert "backup failed with exit code 4; the rest is left out" in done.stderr
    assert "forget:" not in done.stdout


def test_a_repository_that_is_away_is_an_exit_code(machine):
    machine.command.repository.rename(machine.command.folder / "elsewhere")
    machine.schedule("run", exit_code=RepositoryNotFoundError.exit_code)


def test_two_runs_at_once_are_refused(machine):
    machine.state.mkdir()
    with (machine.state / "run.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = machine.schedule("run", exit_code=LeaseError.exit_code)
    assert "a scheduled run is in progress" in done.stderr
    assert machine.command.objects("snapshots") == []
    machine.schedule("run")


def test_files_that_cannot_be_read_do_not_end_a_run(machine):
    # No one may read it, not even root.
    unreadable = Path("/sys/bus/platform/drivers_probe")
    if not unreadable.exists():
        pytest.skip("there is no such file here")
    text = machine.configuration.read_text()
    machine.configuration.write_text(text.replace("Include {", f"Include {{ File = {unreadable}; "))
    done = machine.schedule("run", exit_code=EXIT_INCOMPLETE)
    assert "no damage found" in done.stdout


def test_an_object_that_cannot_be_read_does_not_keep_the_other_steps_from_their_work(machine):
    store = LocalStore(str(machine.command.repository))
    with closing(Repository.open(store, PASSPHRASE.encode())) as house:
        other = house.for_client("web2")
        name = stored(other, "snapshots", snapshot_object(other.writer, {"generation": 1 << 40}))
    # The check, which is last, finds it.
    done = machine.schedule("run", exit_code=CheckFailedError.exit_code)
    assert name in done.stderr
    assert [line for line in done.stdout.splitlines() if line.endswith(":")] == [
        "backup:",
        "forget:",
        "check:",
    ]


def test_a_named_path_that_is_not_there_is_told_and_the_rest_is_backed_up(machine):
    heard, disk = machine.command.folder / "heard", machine.command.folder / "disk"
    machine.configure(f'Success Command = "touch {heard}"')
    text = machine.configuration.read_text()
    machine.configuration.write_text(
        text.replace("Include {", f'Include {{ File = "{disk}"; ').replace("= 14", "= 1")
    )
    disk.mkdir()
    machine.schedule("run")
    heard.unlink()
    (whole,) = machine.command.objects("snapshots")
    disk.rmdir()
    for _ in range(2):
        done = machine.schedule("run", exit_code=PathMissingError.exit_code)
        assert "no damage found" in done.stdout
        assert f"{disk}: named by FileSet everything, but nothing of it" in done.stderr
        # It is none of the runs that a watchdog hears of.
        assert not heard.exists()
        # The newest of the day displaces the one before it, but not the one that has all.
        left = machine.command.objects("snapshots")
        assert [one["missing_paths"] for one in left] == [0, 1]
        assert left[0]["id"] == whole["id"]
    disk.mkdir()
    machine.schedule("run")
    assert heard.exists()
    assert [one["missing_paths"] for one in machine.command.objects("snapshots")] == [0]


def test_a_watchdog_hears_of_runs_that_did_not_fail_only(machine):
    heard = machine.command.folder / "heard"
    machine.configure(f'Success Command = "touch {heard}"')
    machine.command.repository.rename(machine.command.folder / "elsewhere")
    machine.schedule("run", exit_code=RepositoryNotFoundError.exit_code)
    assert not heard.exists()
    (machine.command.folder / "elsewhere").rename(machine.command.repository)
    machine.schedule("run")
    assert heard.exists()


def test_the_notify_command_hears_what_happened(machine):
    heard = machine.command.folder / "heard"
    machine.configure(f'Notify Command = "tee {heard}"')
    unit = machine.units()["strongroom-backup-failed.service"]
    assert machine.start_service(unit).returncode == 0
    assert heard.read_text().startswith("The backup of web1 has failed: ")
    machine.schedule("notify")
    assert heard.read_text().startswith("This tests how you are notified")


def test_a_notify_command_that_fails_is_told(machine):
    machine.configure("Notify Command = false")
    done = machine.schedule("notify", exit_code=ScriptError.exit_code)
    assert "Notify Command false ended with 1" in done.stderr


@pytest.mark.parametrize("scope", [(), ("--user",)])
def test_systemd_finds_nothing_wrong_with_the_units(machine, scope):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    machine.configure('Notify Command = "mail -s 100% root"; Run = last sun at 5:10')
    units = machine.units(*scope)
    assert set(units) == {
        "strongroom-backup.service",
        "strongroom-backup.timer",
        "strongroom-backup-failed.service",
    }
    folder = machine.command.folder / "units"
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *(folder / name for name in units)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_timer_says_when(machine):
    machine.configure("Run = 1st,last sat at 21:30\n  Randomized Delay = 90 seconds")
    timer = machine.units()["strongroom-backup.timer"].splitlines()
    assert [line for line in timer if line.startswith("OnCalendar=")] == [
        "OnCalendar=*-*-* 02:00:00",
        "OnCalendar=Sat *-*-01,02,03,04,05,06,07 21:30:00",
        "OnCalendar=Sat *-*~01,02,03,04,05,06,07 21:30:00",
    ]
    assert {"Persistent=yes", "RandomizedDelaySec=90s"} <= set(timer)


def test_paths_with_blanks_and_signs_of_systemd_stay_what_they_are(machine, tmp_path):
    folder = tmp_path / "100% of $HOME"
    folder.mkdir()
    machine.configuration = folder / "machine.conf"
    machine.configure()
    service = machine.units()["strongroom-backup.service"]
    assert f'--config "{tmp_path}/100%% of $$HOME/machine.conf"' in service


def test_nobody_to_tell_is_a_warning(machine):
    done = machine.schedule("install", "--into", str(machine.command.folder / "units"))
    assert "failures are not reported" in done.stderr
    assert not (machine.command.folder / "units" / "strongroom-backup-failed.service").exists()


@pytest.mark.parametrize(
    ("directive", "message"),
    [
        ("Run = w03 at 2:00", "weeks of the year"),
        ("Run = feb on 30 at 2:00", "this Run is never due: no day matches all of it"),
        ("Run = Full daily at 2:00", "says only when, not Level"),
        ("Repository = some/where", "neither an absolute path"),
        ('Notify Command = "mail \'root"', "cannot be read"),
        ("FileSet = nothing", "which is not defined"),
    ],
)
def test_what_cannot_be_carried_out_is_an_error_with_its_place(machine, directive, message):
    machine.configure(directive)
    done = machine.schedule("show", exit_code=ConfigurationError.exit_code)
    assert message in done.stderr
    assert "machine.conf:10:" in done.stderr


def test_a_machine_without_a_configuration_is_told_where_one_belongs(machine):
    folder = machine.command.folder / "etc"
    done = machine.command.run(
        *("schedule", "show", "--config", str(folder)), exit_code=UsageError.exit_code
    )
    assert f"there is no {folder}/machine.conf; docs/guides/single-machine.md" in done.stderr


def test_install_opens_the_repository_before_it_writes_anything(machine):
    machine.command.passphrase_file.write_text("something else\n")
    # As root, else it says that a schedule of the system needs root.
    done = machine.command.run(
        *("schedule", "install", "--user", "--config", str(machine.configuration)),
        exit_code=WrongKeyError.exit_code,
    )
    assert "[wrong-key]" in done.stderr
    assert not (machine.command.folder / "home" / ".config" / "systemd").exists()


def without_systemd(folder: Path, answer: str | None) -> str:
    """A PATH with a systemctl that fails as in a container, or without any."""
    folder.mkdir()
    if answer is not None:
        (folder / "systemctl").write_text(f"#!/bin/sh\n{answer}\n")
        (folder / "systemctl").chmod(0o755)
    return str(folder)


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "echo 'System has not been booted with systemd as init system (PID 1).' >&2; exit 1",
        # It answers, but takes nothing up.
        'case "$*" in *Version*) exit 0;; esac; echo "Access denied" >&2; exit 1',
    ],
)
def test_without_systemd_no_units_are_left(machine, tmp_path, answer):
    units = machine.command.folder / "home" / ".config" / "systemd" / "user"
    words = ("schedule", "install", "--user", "--config", str(machine.configuration))
    path = without_systemd(tmp_path / "bin", answer)
    machine.command.run(*words, exit_code=OperatingSystemError.exit_code, PATH=path)
    assert not units.exists() or list(units.iterdir()) == []
    # What was there before stays as it was.
    units.mkdir(parents=True, exist_ok=True)
    (units / "strongroom-backup.timer").write_text("of before\n")
    machine.command.run(*words, exit_code=OperatingSystemError.exit_code, PATH=path)
    assert {one.name: one.read_text() for one in units.iterdir()} == {
        "strongroom-backup.timer": "of before\n"
    }
    if answer is None:
        machine.command.run("schedule", "remove", "--user", PATH=path)
        assert list(units.iterdir()) == []


def test_systemd_reads_the_units_before_any_is_written(machine, tmp_path):
    folder = tmp_path / "bin"
    path = without_systemd(folder, 'case "$*" in *Version*) exit 0;; esac; exit 1')
    (folder / "systemd-analyze").write_text(
        '#!/bin/sh\nfor unit; do test -f "$unit" && grep -H ExecStart= "$unit" >&2; done; exit 1\n'
    )
    (folder / "systemd-analyze").chmod(0o755)
    done = machine.command.run(
        *("schedule", "install", "--user", "--config", str(machine.configuration)),
        exit_code=OperatingSystemError.exit_code,
        PATH=f"{path}:/usr/bin:/bin",
    )
    assert "strongroom-backup.service:ExecStart=" in done.stderr
    assert not (machine.command.folder / "home" / ".config" / "systemd").exists()


def test_a_configuration_that_is_missing_says_where_to_look(machine):
    machine.configuration = machine.command.folder / "nowhere" / "machine.conf"
    done = machine.schedule("show", exit_code=UsageError.exit_code)
    assert "single-machine.md" in done.stderr


def test_the_configuration_of_the_guide_is_right(machine):
    page = (DOCUMENTS / "guides" / "single-machine.md").read_text("utf-8")
    block = re.search(r"    # /etc/strongroom/machine\.conf\n((?:    .*\n|\n)+)", page)
    assert block is not None
    machine.configuration.write_text(textwrap.dedent(block[1]))
    shown = machine.schedule("show").stdout
    assert "14 daily, 8 weekly, 12 monthly" in shown
    done = machine.command.run("config", "check", str(machine.configuration))
    assert "0 errors, 0 warnings" in done.stdout
