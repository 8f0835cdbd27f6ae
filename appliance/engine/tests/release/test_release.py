"""A release: one version everywhere, the same bytes each time, sums that show a change."""

from __future__ import annotations

import io
import os
import random
import re
import subprocess
import tarfile
import tomllib

import pytest
from archives import normalise_tarball, write_zip
from libraries import Target, read_lock
from make_release import NAMESPACE, sign

import strongroom
from kit.project import ENGINE, PROGRAM

PROJECT = ENGINE.parents[1]
TIME = 1_700_000_000


def test_every_part_has_the_version_of_the_engine():
    versions = {
        str(part): tomllib.loads((part / "pyproject.toml").read_text())["project"]["version"]
        for part in (ENGINE, PROGRAM, ENGINE / "bench")
    }
    (collection,) = re.findall(
        r"^version: (\S+)$", (PROJECT / "galaxy.yml").read_text(), re.MULTILINE
    )
    assert {*versions.values(), collection} == {strongroom.__version__}, versions


def tarball(path, names, owner):
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size, member.uid, member.mtime = len(name), owner, TIME + owner
            archive.addfile(member, io.BytesIO(name.encode()))
    normalise_tarball(path, TIME)
    return path.read_bytes()


def test_order_owner_and_time_of_files_change_no_archive(tmp_path):
    names = [f"folder/{number}" for number in range(20)]
    shuffled = random.Random(1).sample(names, len(names))
    assert tarball(tmp_path / "a.tar.gz", names, 1) == tarball(tmp_path / "b.tar.gz", shuffled, 2)
    zips = []
    for order in (names, shuffled):
        made = io.BytesIO()
        write_zip(made, ((name, name.encode()) for name in order), TIME, packed=True)
        zips.append(made.getvalue())
    assert zips[0] == zips[1]


def test_every_library_of_the_lock_is_read_with_its_hashes():
    lock = ENGINE / "requirements-runtime.lock"
    libraries = read_lock(lock)
    assert len(libraries) == len(re.findall(r"^\S+==", lock.read_text(), re.MULTILINE))
    assert sum(len(one.hashes) for one in libraries) == lock.read_text().count("--hash=")
    for python in ("3.11", "3.14"):
        names = [one.name for one in libraries if one.is_for(Target(python, "x86_64"))]
        assert "numpy" in names
        assert "tzdata" not in names
        assert len(names) == len(set(names))


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "9.0"
    (made / "wheels").mkdir(parents=True)
    (made / "wheels" / "one.whl").write_bytes(b"one")
    (made / "strongroom.pyz").write_bytes(b"program")
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    sign(made, key)
    return made


def verified(folder):
    """What docs/guides/install.md says to type."""
    command = (
        f"ssh-keygen -Y verify -f signer -I {NAMESPACE} -n {NAMESPACE}"
        " -s SHA256SUMS.sig < SHA256SUMS && sha256sum --check --strict --quiet SHA256SUMS"
    )
    guide = re.sub(
        r"\s+", " ", (PROJECT / "docs/guides/install.md").read_text().replace("\\\n", "")
    )
    assert command in guide
    return subprocess.run(["sh", "-c", command], cwd=folder, check=False).returncode == 0


def test_the_folder_as_it_was_signed_is_verified(folder):
    assert verified(folder)


@pytest.mark.parametrize("changed", ["wheels/one.whl", "SHA256SUMS", "SHA256SUMS.sig"])
def test_a_change_of_any_file_is_noticed(folder, changed):
    content = bytearray((folder / changed).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / changed).write_bytes(content)
    assert not verified(folder)


def test_the_signature_of_another_key_is_refused(folder, tmp_path):
    signer = (folder / "signer").read_text()
    other = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", other], check=True)
    for name in ("SHA256SUMS", "SHA256SUMS.sig"):
        os.unlink(folder / name)
    sign(folder, other)
    (folder / "signer").write_text(signer)
    assert not verified(folder)
