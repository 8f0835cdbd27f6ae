"""The apt repository: what apt checks is there, and is what was signed."""

from __future__ import annotations

import hashlib
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
