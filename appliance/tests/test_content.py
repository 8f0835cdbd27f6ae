"""What the image holds when no one has started it: no secret, no identity, nothing of anyone who built it."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from conftest import BOOT_OFFSET, in_tools

SECRET = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\s+[A-Za-z0-9+/=]{40}")
GIB = 1 << 30


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]


def test_the_copy_is_complete(root):
    assert (root / "usr/bin/dpkg").stat().st_size > 100_000
    assert (root / "opt/strongroom/VERSION").exists()


def test_no_private_key_is_in_any_file(root):
    found = [path.relative_to(root) for path in files_below(root) if SECRET.search(path.read_bytes())]
    # Examples that packages bring, each with its reason.
    assert [str(path) for path in found if str(path) not in KNOWN_EXAMPLES] == []


KNOWN_EXAMPLES: set[str] = set()


def test_no_identity_is_in_it(root):
    assert (root / "etc/machine-id").read_text() == ""
    assert list((root / "etc/ssh").glob("ssh_host_*")) == []
    for name in ("random-seed", "credential.secret"):
        assert not (root / "var/lib/systemd" / name).exists()
    assert not (root / "var/lib/cloud/instance").exists()
    assert files_below(root / "var/lib/systemd/network") == []


def test_nobody_can_log_in(root):
    shadow = [line.split(":") for line in (root / "etc/shadow").read_text().splitlines()]
    assert len(shadow) > 10
    assert [line[0] for line in shadow if line[1][:1] not in ("!", "*")] == []
    assert list(root.glob("root/.ssh/*")) + list(root.glob("home/*")) == []


def test_nothing_of_the_appliance_was_set_up(root):
    assert files_below(root / "etc/strongroom") == []
    assert files_below(root / "var/lib/strongroom") == []


def test_nothing_of_its_making_stays(root):
    for folder in ("var/log/journal", "var/log/audit", "var/log/apt", "var/lib/apt/lists", "var/tmp", "root/.ansible"):
        assert not (root / folder).exists() or files_below(root / folder) == [], folder
    assert not (root / "var/cache/strongroom-packages").exists()
    assert list((root / "var/cache/apt").rglob("*.deb")) == []
    logs = [path for path in files_below(root / "var/log") if path.stat().st_size]
    assert [str(path.relative_to(root)) for path in logs if path.suffix == ".log"] == []


def test_root_a_is_the_good_one(raw, root):
    environment = in_tools("mtype", "-i", f"{raw}@@{BOOT_OFFSET}", "::/grub/grubenv").stdout.splitlines()
    assert {"a_state=good", "b_state=0"} <= set(environment)


def test_the_bill_of_materials_names_what_dpkg_has(root, image):
    bill = json.loads(next(image.parent.glob("*.cdx.json")).read_text())
    listed = {(one["name"], one["version"]) for one in bill["components"] if one["purl"].startswith("pkg:deb/")}
    status = (root / "usr/lib/sysimage/dpkg/status").read_text().split("\n\n")
    fields = [dict(re.findall(r"^(Package|Version|Status): (.*)$", text, re.MULTILINE)) for text in status]
    installed = {(one["Package"], one["Version"]) for one in fields if one.get("Status") == "install ok installed"}
    assert len(installed) > 100
    assert listed == installed
    libraries = {one["name"].lower() for one in bill["components"] if one["purl"].startswith("pkg:pypi/")}
    assert {"cryptography", "pyparsing", "fastapi"} <= libraries


def test_the_checksums_and_the_manifest_are_those_of_the_files(image):
    sums = dict(reversed(line.split()) for line in (image.parent / "SHA256SUMS").read_text().splitlines())
    for name, digest in sums.items():
        with (image.parent / name).open("rb") as file:
            assert hashlib.file_digest(file, "sha256").hexdigest() == digest
    manifest = json.loads(next(image.parent.glob("*.manifest.json")).read_text())
    assert manifest["files"][image.name]["sha256"] == sums[image.name]
    assert set(sums) >= set(manifest["files"])


def test_it_is_small_enough(image):
    assert image.stat().st_size < 1.5 * GIB
