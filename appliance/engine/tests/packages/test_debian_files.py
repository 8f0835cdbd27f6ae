"""The Debian packages as far as it can be seen without building them.

`make test-packages` installs, upgrades and purges them on real hosts.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from kit.daemon_process import wait_for
from kit.project import DOCUMENTS, ENGINE, PACKAGES, PROGRAM, UNITS
from strongroom.config.trees.loader import STEMS
from strongroom.director.own_jobs.own_jobs import PROGRAM as OWN_JOB

DEBIAN = PACKAGES / "debian"
DAEMONS = ("agent", "storage", "director")
SCRIPTS = sorted(
    path for path in DEBIAN.iterdir() if path.suffix in {".postinst", ".prerm", ".postrm"}
)
PROGRAMS = [PACKAGES / "freeze-files", PACKAGES / "restart-when-idle"]
SHELL = [*PACKAGES.glob("*.sh"), *PACKAGES.glob("tests/*.sh")]


def paragraphs():
    """The fields of each package, by its name."""
    text = (DEBIAN / "control").read_text()
    found = {}
    for paragraph in text.split("\n\n"):
        fields = dict(re.findall(r"^([\w-]+): (.*(?:\n .*)*)$", paragraph, re.MULTILINE))
        if "Package" in fields:
            found[fields["Package"]] = fields
    return found


def drop_in(daemon):
    return (PACKAGES / "units" / f"strongroom-{daemon}.service.d" / "10-package.conf").read_text()


def pins(lock):
    """Library -> its pinned versions."""
    found = {}
    for name, version in re.findall(
        r"^([\w.-]+)==(\S+)", (ENGINE / lock).read_text(), re.MULTILINE
    ):
        found.setdefault(name, set()).add(version)
    return found


def purge(package, root):
    """Run the script of `dpkg --purge` on a folder instead of the machine."""
    environment = {"DPKG_ROOT": str(root), "PATH": os.environ["PATH"]}
    script = str(DEBIAN / f"{package}.postrm")
    for action in ("remove", "purge"):
        subprocess.run(["/bin/sh", script, action], env=environment, check=True)


def populated(root):
    """What an appliance has that is also a client: all files, by their names below `root`."""
    state = root / "var/lib/strongroom"
    for name in (
        "agent/identity/key.pem",
        "agent/runs/1",
        "storage/identity/key.pem",
        "director/identity/key.pem",
        "director/catalog.sqlite",
        "director/catalog.sqlite-wal",
        "director/cache/1",
        "director/passphrase",
        "director/appliance.key",
        "director/restore.key",
        "ca/authority.pem",
        "repository/config",
        "repository/packs/1",
        "packages/apt/strongroom.asc",
    ):
        (state / name).parent.mkdir(parents=True, exist_ok=True)
        (state / name).touch()
    for name in ("authority.pem", "agent.d/a/a.conf", "storage.d/a/a.conf", "director.d/a/a.conf"):
        (root / "etc/strongroom" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "etc/strongroom" / name).touch()


def files(root):
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def test_each_daemon_has_a_package_that_needs_the_same_version_of_the_engine():
    found = paragraphs()
    daemons = {f"strongroom-{daemon}" for daemon in DAEMONS}
    assert set(found) == {"strongroom", "strongroom-appliance", *daemons}
    for daemon in DAEMONS:
        assert re.search(
            r"strongroom \(= \$\{(source|binary):Version\}\)",
            found[f"strongroom-{daemon}"]["Depends"],
        )
    assert "${strongroom:Python}" in found["strongroom"]["Depends"]
    of_appliance = found["strongroom-appliance"]["Depends"]
    assert "strongroom-director (= ${binary:Version})" in of_appliance
    assert "strongroom-storage (= ${source:Version})" in of_appliance


def test_what_is_installed_is_pinned_as_tests_use_it():
    tested, installed = pins("requirements.lock"), pins("requirements-runtime.lock")
    assert {name: tested.get(name) for name in installed} == installed
    assert installed.keys() >= {"cryptography", "fastapi", "httpx", "mfusepy", "numpy", "textual"}
    assert not installed.keys() & {"pytest", "mypy", "ruff", "hypothesis"}
    lock = (ENGINE / "requirements-runtime.lock").read_text()
    assert lock.count("==") <= lock.count("--hash=sha256:")


def test_both_distributions_have_one_version():
    version = tomllib.loads((ENGINE / "pyproject.toml").read_text())["project"]["version"]
    assert tomllib.loads((PROGRAM / "pyproject.toml").read_text())["project"]["version"] == version


def add_distribution(environment, name, requires=(), program=""):
    """Put a distribution of one module there, as pip does."""
    library = environment / "lib/python3.11/site-packages"
    module = name.replace("-", "_")
    information = library / f"{module}-1.dist-info"
    information.mkdir(parents=True)
    (library / f"{module}.py").write_text("")
    needs = "".join(f"Requires-Dist: {one}\n" for one in requires)
    (information / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n{needs}"
    )
    lines = [f"{module}.py,,", f"{information.name}/METADATA,,", f"{information.name}/RECORD,,"]
    if program:
        (environment / "bin" / program).write_text("")
        lines.append(f"../../../bin/{program},,")
    (information / "RECORD").write_text("\n".join(lines) + "\n")


def test_each_package_has_what_only_it_needs(tmp_path):
    environment = tmp_path / "opt/strongroom"
    (environment / "bin").mkdir(parents=True)
    (environment / "bin/python").write_text("")
    extra = 'Web_Frame; extra == "director"'
    add_distribution(environment, "strongroom", ["packer>=1", extra], "strongroom")
    of_program = ["strongroom", "packer", "codes>=2"]
    add_distribution(environment, "strongroom-appliance", of_program, "strongroom-appliance")
    for name in ("packer", "codes", "web-frame"):
        add_distribution(environment, name)
    parts = {
        package: tmp_path / "debian" / package / "opt/strongroom"
        for package in ("strongroom", "strongroom-director", "strongroom-appliance")
    }
    script = PACKAGES / "divide_environment.py"
    subprocess.run([sys.executable, script, environment, *parts.values()], check=True)
    found = {
        package: {path.name for path in part.rglob("*") if path.suffix in {"", ".py"}}
        - {"METADATA", "RECORD", "bin", "lib", "site-packages"}
        for package, part in parts.items()
    }
    assert found == {
        "strongroom": {"python", "strongroom", "strongroom.py", "packer.py"},
        "strongroom-director": {"web_frame.py"},
        "strongroom-appliance": {"strongroom-appliance", "strongroom_appliance.py", "codes.py"},
    }
    assert sum(len(files(part)) for part in parts.values()) == len(files(environment))


@pytest.mark.parametrize("path", [*SCRIPTS, *PROGRAMS, *SHELL], ids=lambda path: path.name)
def test_scripts_are_sound(path):
    shell = "bash" if path.suffix == ".sh" else "sh"
    subprocess.run([shell, "-n", str(path)], check=True)
    text = path.read_text()
    assert re.search(r"^set -eu?(o pipefail)?|^set -euo pipefail", text, re.MULTILINE)
    if path in SCRIPTS:
        assert "#DEBHELPER#" in text
        assert not re.search(r"\b(read|debconf|whiptail|dialog)\b ", re.sub(r"#.*", "", text))
    if shutil.which("shellcheck"):
        seen = subprocess.run(
            ["shellcheck", "--severity=warning", "-s", shell, str(path)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert seen.stdout == ""


@pytest.mark.parametrize("daemon", DAEMONS)
def test_a_daemon_starts_when_any_configuration_that_it_reads_is_there(daemon):
    conditions = re.findall(r"^ConditionPathExistsGlob=\|(.*)$", drop_in(daemon), re.MULTILINE)
    expected = {f"/etc/strongroom/{stem}.conf" for stem in STEMS[daemon]}
    expected |= {f"/etc/strongroom/{stem}.d/*/*.conf" for stem in STEMS[daemon]}
    assert set(conditions) == expected


@pytest.mark.parametrize("daemon", DAEMONS)
def test_the_folder_of_a_daemon_is_its_own_as_the_unit_makes_it(daemon):
    unit = dict(
        line.split("=", 1)
        for line in (UNITS / f"strongroom-{daemon}.service").read_text().splitlines()
        if re.match(r"(User|Group|StateDirectoryMode)=", line)
    )
    rule = (DEBIAN / f"strongroom-{daemon}.tmpfiles").read_text().splitlines()[0].split()
    owner = [unit["StateDirectoryMode"], unit["User"], unit["Group"]]
    assert rule == ["d", f"/var/lib/strongroom/{daemon}", *owner, "-"]


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)
def test_units_are_well_formed_with_what_the_packages_add(tmp_path):
    for unit in [*UNITS.glob("*.s*"), *PACKAGES.glob("units/*")]:
        if unit.is_file():
            shutil.copy(unit, tmp_path)
        elif unit.name.endswith(".d") and unit.name != "sysusers.d":
            shutil.copytree(unit, tmp_path / unit.name)
    names = [path.name.replace("@", "@agent") for path in tmp_path.iterdir() if path.is_file()]
    assert len(names) >= 7
    seen = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *(str(tmp_path / name) for name in names)],
        capture_output=True,
        text=True,
        check=False,
        env={"SYSTEMD_UNIT_PATH": f"{tmp_path}:", "PATH": "/usr/bin:/bin"},
    )
    faults = [line for line in seen.stderr.splitlines() if "strongroom" in line]
    assert [line for line in faults if "not executable" not in line] == []


@pytest.mark.parametrize(
    ("package", "gone"),
    [
        (
            "strongroom-agent",
            r"etc/strongroom/(agent\.d/.*|authority\.pem)|var/lib/strongroom/agent/.*",
        ),
        ("strongroom-storage", r"etc/strongroom/storage\.d/.*|var/lib/strongroom/storage/.*"),
        (
            "strongroom-director",
            (
                r"etc/strongroom/director\.d/.*"
                r"|var/lib/strongroom/(director/(identity|cata|cache)|packages/).*"
            ),
        ),
        ("strongroom", r"$"),
    ],
)
def test_purge_removes_what_is_the_daemons_and_no_key_and_no_backup(tmp_path, package, gone):
    populated(tmp_path)
    before = files(tmp_path)
    purge(package, tmp_path)
    assert files(tmp_path) == {name for name in before if not re.fullmatch(gone, name)}


@pytest.mark.parametrize("way", [1, -1])
def test_after_purging_all_the_repository_its_passphrase_and_the_authority_are_left(tmp_path, way):
    populated(tmp_path)
    for package in (*(f"strongroom-{daemon}" for daemon in DAEMONS), "strongroom")[::way]:
        purge(package, tmp_path)
    state = "var/lib/strongroom"
    assert files(tmp_path) == {
        f"{state}/director/passphrase",
        f"{state}/director/appliance.key",
        f"{state}/director/restore.key",
        f"{state}/ca/authority.pem",
        f"{state}/repository/config",
        f"{state}/repository/packs/1",
    }
    assert not (tmp_path / "etc/strongroom").exists()


def installation(folder, version):
    """A folder like /opt/strongroom; as dpkg does, files are replaced and not rewritten."""
    for name, text in {
        "bin/python": "",
        "lib/module.py": version,
        "pyvenv.cfg": "",
        "VERSION": version,
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.new").write_text(text)
        (folder / f"{name}.new").rename(folder / name)


def freeze(folder):
    subprocess.run([str(PACKAGES / "freeze-files"), "agent", str(folder)], check=True)
    return folder / ".running" / "agent"


def test_a_daemon_keeps_its_files_during_an_upgrade_and_gets_new_ones_when_it_starts(tmp_path):
    installation(tmp_path, "1")
    copy = freeze(tmp_path)
    assert (copy / "lib/module.py").read_text() == "1"
    assert (copy / "lib/module.py").samefile(tmp_path / "lib/module.py")
    installation(tmp_path, "2")
    assert (copy / "lib/module.py").read_text() == "1"
    assert freeze(tmp_path) == copy
    assert (copy / "lib/module.py").read_text() == "2"
    # A restore that began before still uses what was there.
    assert (tmp_path / ".running/agent.old/lib/module.py").read_text() == "1"


@pytest.mark.parametrize(
    ("daemon", "module"),
    [
        ("agent", "strongroom.agent.jobs.job"),
        ("director", OWN_JOB.module),
    ],
)
def test_a_restart_waits_for_the_programs_that_are_jobs(daemon, module):
    text = (PACKAGES / "restart-when-idle").read_text()
    pattern = re.search(rf"^    {daemon}\) program='(.*)' ;;$", text, re.MULTILINE)
    assert pattern is not None
    assert re.search(pattern[1], f"/opt/strongroom/bin/python -m {module}")
    assert importlib.util.find_spec(module) is not None


def test_a_start_without_an_upgrade_before_it_leaves_the_files_alone(tmp_path):
    installation(tmp_path, "1")
    before = freeze(tmp_path).stat().st_ino
    assert freeze(tmp_path).stat().st_ino == before
    assert not (tmp_path / ".running/agent.old").exists()


SYSTEMCTL = """#!/bin/sh
case $1 in
    show) echo "$PROCESS" ;;
    try-restart) echo "restarted $2" ;;
esac
"""


@contextlib.contextmanager
def busy_agent():
    """A process with a job, as the agent has it; and the job."""
    name = "strongroom.agent.jobs.job"
    job = (
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()', '-m', '{name}'])"
    )
    with subprocess.Popen([sys.executable, "-c", job], stdin=subprocess.PIPE) as agent:
        wait_for(lambda: jobs_of(agent))
        yield agent
        agent.stdin.close()


def restart_when_idle(folder, agent, seconds):
    """Start the program, with a systemctl that has no systemd."""
    (folder / "systemctl").write_text(SYSTEMCTL)
    (folder / "systemctl").chmod(0o755)
    return subprocess.Popen(
        [str(PACKAGES / "restart-when-idle"), "agent", str(seconds)],
        env={"PATH": f"{folder}:{os.environ['PATH']}", "PROCESS": str(agent.pid)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def jobs_of(process):
    """Its children that run a job's program already."""
    found = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    lines = (Path(f"/proc/{child}/cmdline").read_bytes() for child in found)
    return [line for line in lines if b"\0-m\0strongroom.agent.jobs." in line]


def test_a_job_puts_a_restart_off_and_when_it_has_ended_nothing_is_said(tmp_path):
    with busy_agent() as agent:
        waiting = restart_when_idle(tmp_path, agent, 100_000)
        assert "has a job" in waiting.stdout.readline()
        assert waiting.poll() is None
        agent.stdin.close()
        told, warned = waiting.communicate()
    assert (told, warned, waiting.returncode) == ("restarted strongroom-agent.service\n", "", 0)


def test_a_job_puts_a_restart_off_no_longer_than_it_is_said(tmp_path):
    with busy_agent() as agent:
        told, warned = restart_when_idle(tmp_path, agent, 2).communicate()
        assert jobs_of(agent)
    assert told.endswith("restarted strongroom-agent.service\n")
    assert warned.count("\n") == 1
    assert "still has a job after 2 seconds; it is restarted now" in warned
    assert "RESTART_LIMIT_SECONDS of strongroom-restart@agent" in warned


def test_it_says_whether_a_job_runs_and_restarts_nothing(tmp_path):
    with busy_agent() as agent:
        asked = restart_when_idle(tmp_path, agent, "is-busy")
        assert (asked.communicate(), asked.returncode) == (("", ""), 0)
        agent.stdin.close()
        agent.wait()
    asked = restart_when_idle(tmp_path, agent, "is-busy")
    assert (asked.communicate(), asked.returncode) == (("", ""), 1)


# An agent that comes up unless its limits are too small, without systemd.
LIMITED = """#!/bin/sh
limits="$UNIT_FOLDER/strongroom-agent.service.d/50-inventory.conf"
echo "$*" >> "$UNIT_FOLDER/given"
case $1 in
    show) echo 4242 ;;
    is-active) ! grep -qs MemoryMax=1M "$limits" ;;
    restart) ! grep -qs MemoryMax=1M "$limits" ;;
esac
"""


def restart_with_limits(folder, before, now):
    """What the program does after a change of limits: exit code, warning, the files there."""
    drop_ins = folder / "strongroom-agent.service.d"
    drop_ins.mkdir()
    (drop_ins / "50-inventory.conf").write_text(now)
    (drop_ins / "50-inventory.conf.before").write_text(before)
    (folder / "systemctl").write_text(LIMITED)
    (folder / "systemctl").chmod(0o755)
    done = subprocess.run(
        [str(PACKAGES / "restart-when-idle"), "agent", "10"],
        env={
            "PATH": f"{folder}:{os.environ['PATH']}",
            "UNIT_FOLDER": str(folder),
            "SETTLE_SECONDS": "0",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    files = {path.name: path.read_text() for path in drop_ins.iterdir()}
    return done.returncode, done.stderr, files


def test_limits_with_which_the_daemon_comes_up_stay(tmp_path):
    code, warned, files = restart_with_limits(tmp_path, "MemoryMax=1G\n", "MemoryMax=2G\n")
    assert (code, warned, files) == (0, "", {"50-inventory.conf": "MemoryMax=2G\n"})


@pytest.mark.parametrize("before", ["MemoryMax=1G\n", ""])
def test_limits_with_which_it_does_not_come_up_are_put_back(tmp_path, before):
    code, warned, files = restart_with_limits(tmp_path, before, "MemoryMax=1M\n")
    assert (code, files) == (1, {"50-inventory.conf": before} if before else {})
    assert "strongroom-agent did not come up with its new limits" in warned
    given = (tmp_path / "given").read_text().splitlines()
    assert given[-3:] == [
        "daemon-reload",
        "reset-failed strongroom-agent.service",
        "restart strongroom-agent.service",
    ]


def test_the_unit_says_how_long_a_restart_waits():
    unit = (PACKAGES / "units/strongroom-restart@.service").read_text()
    assert re.search(r"(?m)^Environment=RESTART_LIMIT_SECONDS=86400$", unit)
    assert re.search(r"(?m)^ExecStart=\S+/restart-when-idle %i \$\{RESTART_LIMIT_SECONDS\}$", unit)
    guide = (DOCUMENTS / "guides/install.md").read_text()
    assert "24 hours" in guide
    assert "RESTART_LIMIT_SECONDS" in guide


def test_the_director_finds_the_folder_of_joining_clients_when_it_starts():
    folder = "/etc/strongroom/director.d/client"
    unit = (UNITS / "strongroom-director.service").read_text()
    assert f"ReadWritePaths=-{folder}" in unit
    assert (DEBIAN / "strongroom-director.dirs").read_text() == f"{folder[1:]}\n"
    rules = (DEBIAN / "strongroom-director.tmpfiles").read_text().splitlines()
    assert f"d {folder} 0755 strongroom-director strongroom -" in rules
