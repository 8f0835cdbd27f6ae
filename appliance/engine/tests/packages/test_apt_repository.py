"""The apt repository: what apt checks is there, and is what was signed."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from kit.project import PACKAGES

pytestmark = pytest.mark.skipif(
    shutil.which("gpg") is None or shutil.which("dpkg-deb") is None,
    reason="gpg or dpkg-deb is not installed",
)
TIME = "1700000000"


@pytest.fixture(scope="module")
def key_folder():
    """A folder for the key; its name is short, as gpg puts sockets there."""
    folder = Path(tempfile.mkdtemp(prefix="key"))
    yield folder / "gpg"
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def packages(tmp_path):
    for name, architecture in (("strongroom", "amd64"), ("strongroom-agent", "all")):
        build(tmp_path / "debs", name, "1.0", architecture)
    return tmp_path / "debs"


def build(folder, name, version, architecture="all"):
    """A package; it says its version in a file, too."""
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as tree:
        control = Path(tree) / "DEBIAN" / "control"
        control.parent.mkdir()
        control.write_text(
            f"Package: {name}\nVersion: {version}\nArchitecture: {architecture}\n"
            "Maintainer: Some One <one@example.org>\nDescription: short\n long\n"
        )
        Path(tree).chmod(0o755)
        words = ["dpkg-deb", "--root-owner-group", "--build", tree, folder]
        subprocess.run(words, check=True, capture_output=True)


def versions(folder, name="strongroom-agent", suite="trixie"):
    """What the index has of a package."""
    index = (folder / f"dists/{suite}/main/binary-amd64/Packages").read_text()
    entries = (dict(re.findall(r"(?m)^(\S+): (.*)$", entry)) for entry in index.split("\n\n"))
    found = [entry for entry in entries if entry["Package"] == name]
    for entry in found:
        data = (folder / entry["Filename"]).read_bytes()
        assert hashlib.sha256(data).hexdigest() == entry["SHA256"]
    return [entry["Version"] for entry in found]


def make(folder, packages, *more):
    return subprocess.run(
        [
            sys.executable,
            PACKAGES / "apt_repository.py",
            folder,
            f"trixie={packages}",
            "--time",
            TIME,
            *more,
        ],
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_file_is_reached_from_the_signature(tmp_path, packages, key_folder):
    folder = tmp_path / "apt"
    made = make(folder, packages, "--key-folder", key_folder)
    assert (made.returncode, made.stderr) == (0, "")
    keyring = tmp_path / "keyring.gpg"
    subprocess.run(
        ["gpg", "--batch", "--dearmor", "-o", keyring, folder / "strongroom.asc"], check=True
    )
    place = folder / "dists" / "trixie"
    for words in ([place / "InRelease"], [place / "Release.gpg", place / "Release"]):
        subprocess.run(["gpgv", "--keyring", keyring, *words], check=True, capture_output=True)
    assert (place / "Release").read_text() in (place / "InRelease").read_text()
    sums = re.findall(r"(?m)^ ([0-9a-f]{64}) (\d+) (\S+)$", (place / "Release").read_text())
    assert len(sums) == 3
    for digest, size, name in sums:
        data = (place / name).read_bytes()
        assert (hashlib.sha256(data).hexdigest(), len(data)) == (digest, int(size))
    index = (place / "main/binary-amd64/Packages").read_text()
    assert re.findall(r"(?m)^Package: (.*)$", index) == ["strongroom-agent", "strongroom"]
    for name, digest in re.findall(r"(?m)^Filename: (.*)\nSize: .*\nSHA256: (.*)$", index):
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest


def test_the_same_packages_give_the_same_repository_and_the_key_stays(
    tmp_path, packages, key_folder
):
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        assert make(folder, packages, "--key-folder", key_folder).returncode == 0
    signed = {"InRelease", "Release.gpg"}
    one, two = (
        {
            path.relative_to(folder): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file() and path.name not in signed
        }
        for folder in folders
    )
    assert one == two


def test_a_web_server_tells_apt_of_a_new_repository_of_the_same_time(
    tmp_path, packages, key_folder
):
    before = time.time() - 1
    assert make(tmp_path / "apt", packages, "--key-folder", key_folder).returncode == 0
    assert (tmp_path / "apt/dists/trixie/InRelease").stat().st_mtime > before


def test_a_repository_takes_the_place_of_the_one_before(tmp_path, packages, key_folder):
    folder = tmp_path / "apt"
    assert make(folder, packages, "--key-folder", key_folder).returncode == 0
    (packages / "strongroom-agent_1.0_all.deb").unlink()
    assert make(folder, packages, "--key-folder", key_folder).returncode == 0
    assert [path.name for path in folder.rglob("*.deb")] == ["strongroom_1.0_amd64.deb"]
    assert sorted(path.name for path in tmp_path.glob(".apt*")) == []


def test_older_versions_stay_for_a_downgrade_but_not_for_ever(tmp_path, packages, key_folder):
    folder = tmp_path / "apt"
    keep = ("--keep", "3", "--key-folder", key_folder)
    for version in ("1.0", "1.2~rc1", "1.2", "1.10"):
        shutil.rmtree(packages)
        build(packages, "strongroom", version, "amd64")
        build(packages, "strongroom-agent", version)
        assert make(folder, packages, *keep).returncode == 0
    assert sorted(versions(folder)) == ["1.10", "1.2", "1.2~rc1"]
    assert sorted(versions(folder, "strongroom")) == ["1.10", "1.2", "1.2~rc1"]
    assert len(list(folder.rglob("*.deb"))) == 6
    # An older one that is given is there, and what it needs a place for goes: the oldest.
    shutil.rmtree(packages)
    build(packages, "strongroom", "0.9", "amd64")
    build(packages, "strongroom-agent", "0.9")
    assert make(folder, packages, *keep).returncode == 0
    assert sorted(versions(folder)) == ["0.9", "1.10", "1.2"]


def test_a_version_that_is_given_again_replaces_what_was_there(tmp_path, packages, key_folder):
    folder = tmp_path / "apt"
    keep = ("--keep", "2", "--key-folder", key_folder)
    assert make(folder, packages, *keep).returncode == 0
    before = next(folder.rglob("strongroom-agent*.deb")).read_bytes()
    build(packages, "strongroom-agent", "1.0\nHomepage: https://example.org/other")
    assert make(folder, packages, *keep).returncode == 0
    assert versions(folder) == ["1.0"]
    assert next(folder.rglob("strongroom-agent*.deb")).read_bytes() != before


def test_a_suite_that_is_not_given_stays_and_no_date_goes_back(tmp_path, packages, key_folder):
    folder = tmp_path / "apt"
    key = ("--key-folder", key_folder)
    assert make(folder, packages, f"bookworm={packages}", *key).returncode == 0
    dated = (folder / "dists/trixie/Release").read_text()
    build(packages, "strongroom-agent", "2.0")
    (packages / "strongroom-agent_1.0_all.deb").unlink()
    earlier = ("--time", str(int(TIME) - 1000))
    assert make(folder, packages, *earlier, *key).returncode == 0
    assert versions(folder, suite="bookworm") == ["1.0"]
    assert versions(folder) == ["2.0"]
    date = re.search(r"(?m)^Date: .*$", dated)[0]
    assert date in (folder / "dists/trixie/Release").read_text()


def test_faults_are_one_line_and_leave_what_was_there(tmp_path, packages, key_folder, monkeypatch):
    folder = tmp_path / "apt"
    assert make(folder, packages, "--key-folder", key_folder).returncode == 0
    (tmp_path / "none").mkdir()
    made = make(folder, tmp_path / "none", "--key-folder", key_folder)
    assert made.returncode == 1
    assert made.stderr == (
        "apt_repository: there are no packages of trixie; make packages builds them\n"
    )
    assert len(list(folder.rglob("*.deb"))) == 2
    monkeypatch.setenv("GNUPGHOME", str(key_folder))
    made = make(folder, packages, "--key", "nobody@example.org")
    assert made.returncode == 1
    assert made.stderr.count("\n") == 1
    assert "nobody@example.org" in made.stderr
    assert make(folder, packages).returncode == 2
    assert make(folder, packages, "--keep", "0", "--key-folder", key_folder).returncode == 2


def apt(state, repository, *words):
    """Run apt-get as on a machine whose only source is `repository`; its state is in `state`."""
    for name in ("lists/partial", "cache/archives/partial"):
        (state / name).mkdir(parents=True, exist_ok=True)
    (state / "strongroom.sources").write_text(
        f"Types: deb\nURIs: copy:{repository}\nSuites: trixie\nComponents: main\n"
        f"Signed-By: {state}/strongroom.asc\n"
    )
    settings = {
        "Dir::State::Lists": state / "lists",
        "Dir::State::status": "/dev/null",
        "Dir::Cache": state / "cache",
        "Dir::Etc::SourceList": state / "strongroom.sources",
        "Dir::Etc::SourceParts": "/dev/null",
        "APT::Sandbox::User": "root",
        "APT::Architecture": "amd64",
        "Acquire::GzipIndexes": "false",
        "Acquire::Languages": "none",
    }
    options = [f"--option={name}={value}" for name, value in settings.items()]
    return subprocess.run(
        ["apt-get", "--quiet", *options, *words],
        cwd=state,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )


def offered(state, repository):
    """Which versions apt would install."""
    apt(state, repository, "update")
    told = apt(state, repository, "indextargets", "--format", "$(FILENAME)").stdout.split()
    return re.findall(r"(?m)^Version: (.*)$", "".join(Path(name).read_text() for name in told))


@pytest.fixture
def machine(tmp_path, packages, key_folder):
    """A machine that trusts the key, and has seen the repository."""
    if shutil.which("apt-get") is None:
        pytest.skip("apt-get is not installed")
    assert make(tmp_path / "apt", packages, "--key-folder", key_folder).returncode == 0
    state = tmp_path / "machine"
    state.mkdir()
    shutil.copy(tmp_path / "apt" / "strongroom.asc", state)
    return state


def test_apt_believes_no_index_that_another_signed(tmp_path, packages, machine):
    assert offered(machine, tmp_path / "apt") == ["1.0", "1.0"]
    build(packages, "strongroom-agent", "6.6")
    stranger = Path(tempfile.mkdtemp(prefix="key"))
    later = ("--time", str(int(TIME) + 1000), "--key-folder", stranger)
    assert make(tmp_path / "false", packages, *later).returncode == 0
    for signed in (True, False):
        done = apt(machine, tmp_path / "false", "update", "--error-on=any")
        assert done.returncode != 0
        assert "6.6" not in offered(machine, tmp_path / "false")
        if signed:
            # Nor one that no one has signed.
            for name in ("InRelease", "Release.gpg"):
                (tmp_path / "false/dists/trixie" / name).unlink()
    shutil.rmtree(stranger)


def test_apt_takes_no_package_that_was_changed(tmp_path, machine):
    repository = tmp_path / "apt"
    words = ("download", "strongroom-agent=1.0")
    assert offered(machine, repository) == ["1.0", "1.0"]
    assert apt(machine, repository, *words).returncode == 0
    (machine / "strongroom-agent_1.0_all.deb").unlink()
    path = next(repository.rglob("strongroom-agent*.deb"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert apt(machine, repository, *words).returncode != 0
    assert not (machine / "strongroom-agent_1.0_all.deb").exists()


def test_apt_ignores_an_older_index(tmp_path, packages, machine, key_folder):
    shutil.copytree(tmp_path / "apt", tmp_path / "old")
    build(packages, "strongroom-agent", "2.0")
    later = ("--time", str(int(TIME) + 1000), "--key-folder", key_folder)
    assert make(tmp_path / "apt", packages, *later).returncode == 0
    assert "2.0" in offered(machine, tmp_path / "apt")
    # The one before in its place, as an attacker has kept it.
    shutil.rmtree(tmp_path / "apt")
    (tmp_path / "old").rename(tmp_path / "apt")
    assert "2.0" in offered(machine, tmp_path / "apt")


def test_apt_takes_no_list_and_no_package_in_place_of_another(
    tmp_path, packages, machine, key_folder
):
    shutil.copytree(tmp_path / "apt", tmp_path / "old")
    build(packages, "strongroom-agent", "2.0")
    later = ("--time", str(int(TIME) + 1000), "--key-folder", key_folder)
    assert make(tmp_path / "apt", packages, *later).returncode == 0
    # The list of before, below the signature of today.
    mixed = tmp_path / "mixed"
    shutil.copytree(tmp_path / "apt", mixed)
    for file in mixed.glob("dists/trixie/main/binary-amd64/**/*"):
        was = tmp_path / "old" / file.relative_to(mixed)
        if file.is_file() and was.is_file():
            shutil.copyfile(was, file)
    shutil.rmtree(mixed / "dists/trixie/main/binary-amd64/by-hash", ignore_errors=True)
    assert apt(machine, mixed, "update", "--error-on=any").returncode != 0
    # A package of before, in place of a newer one.
    assert "2.0" in offered(machine, tmp_path / "apt")
    (newer,) = (tmp_path / "apt").rglob("strongroom-agent_2.0*.deb")
    (older,) = (tmp_path / "old").rglob("strongroom-agent_1.0*.deb")
    shutil.copyfile(older, newer)
    assert apt(machine, tmp_path / "apt", "download", "strongroom-agent=2.0").returncode != 0
    assert not list(machine.glob("strongroom-agent_*.deb"))
