"""The Debian packages as far as it can be seen without building them.

`make test-packages` installs, upgrades and purges them on real hosts.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess

import pytest

from kit.project import ENGINE, PACKAGES, UNITS
from strongroom.config.trees.loader import STEMS
from strongroom.daemons.director.own_jobs.processes import PROGRAM as OWN_JOB

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
    assert "strongroom-director (>= ${source:Version})" in of_appliance
    assert "strongroom-storage (= ${source:Version})" in of_appliance


def test_what_is_installed_is_pinned_as_tests_use_it():
    tested, installed = pins("requirements.lock"), pins("requirements-runtime.lock")
    assert {name: tested.get(name) for name in installed} == installed
    assert installed.keys() >= {"cryptography", "fastapi", "httpx", "mfusepy", "numpy", "textual"}
    assert not installed.keys() & {"pytest", "mypy", "ruff", "hypothesis"}
    lock = (ENGINE / "requirements-runtime.lock").read_text()
    assert lock.count("==") <= lock.count("--hash=sha256:")


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
    rule = (DEBIAN / f"strongroom-{daemon}.tmpfiles").read_text().split()
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
            r"etc/strongroom/director\.d/.*|var/lib/strongroom/director/(identity|cata|cache).*",
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
        ("agent", "strongroom.daemons.agent.jobs.job"),
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
