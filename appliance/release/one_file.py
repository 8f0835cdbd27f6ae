"""The one-file program: strongroom.pyz, with its libraries for every Python and machine of the release.

A zip archive that Python runs. `one_file_program` is its first part; the others are stored archives:

    environment/common.zip          what every target has: the engine, and libraries in Python alone
    environment/cp313-x86_64.zip    what only this target has
    host.zip                        units and programs of the agent, at the paths of the Debian packages
    release.json                    version, and a digest of all of it
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from pathlib import Path

from archives import write_zip
from libraries import Target

PROGRAM = Path(__file__).resolve().parent / "one_file_program"
# What debian/strongroom.install and strongroom-agent.install put on a host, without what only Debian has.
_UNITS = "usr/lib/systemd/system"
HOST_FILES = {
    "packages/freeze-files": "usr/libexec/strongroom/freeze-files",
    "packages/restart-when-idle": "usr/libexec/strongroom/restart-when-idle",
    "packages/units/strongroom-files@.service": f"{_UNITS}/strongroom-files@.service",
    "packages/units/strongroom-restart@.service": f"{_UNITS}/strongroom-restart@.service",
    "systemd/strongroom-agent.service": f"{_UNITS}/strongroom-agent.service",
    "systemd/strongroom-agent-restore.socket": f"{_UNITS}/strongroom-agent-restore.socket",
    "systemd/strongroom-agent-restore@.service": f"{_UNITS}/strongroom-agent-restore@.service",
    **{
        f"packages/units/{one}.d/10-package.conf": f"{_UNITS}/{one}.d/10-package.conf"
        for one in (
            "strongroom-agent.service",
            "strongroom-agent-restore.socket",
            "strongroom-agent-restore@.service",
        )
    },
}


def make(
    path: Path,
    version: str,
    wheels: dict[Target, list[Path]],
    appliance: Path,
    seconds: int,
) -> None:
    """Write the program for the targets of `wheels`. `appliance` is the folder of that name."""
    sets = [set(some) for some in wheels.values()]
    shared = set.intersection(*sets)
    parts = {"environment/common.zip": _environment(shared, seconds)}
    for target, some in wheels.items():
        parts[f"environment/{target.name}.zip"] = _environment(set(some) - shared, seconds)
    parts["host.zip"] = _archive(_host_files(appliance), seconds)
    parts |= {one.name: one.read_bytes() for one in PROGRAM.glob("*.py")}
    digest = hashlib.sha256()
    for name in sorted(parts):
        digest.update(f"{name} {hashlib.sha256(parts[name]).hexdigest()}\n".encode())
    release = {"version": version, "digest": digest.hexdigest()}
    parts["release.json"] = json.dumps(release).encode()
    whole = io.BytesIO()
    write_zip(whole, parts.items(), seconds, packed=False)
    path.write_bytes(b"#!/usr/bin/env python3\n" + whole.getvalue())
    path.chmod(0o755)


def _environment(wheels: set[Path], seconds: int) -> bytes:
    entries: dict[str, bytes] = {}
    for wheel in sorted(wheels):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if (place := _place(name)) and not name.endswith("/"):
                    entries[place] = archive.read(name)
    return _archive(entries, seconds)


def _place(name: str) -> str:
    """Where a file of a wheel goes in an environment; empty: nowhere."""
    top, _, rest = name.partition("/")
    if not top.endswith(".data"):
        # Tests of libraries are a tenth of their size.
        return "" if "/tests/" in name else f"site-packages/{name}"
    kind, _, rest = rest.partition("/")
    places = {"purelib": "site-packages/", "platlib": "site-packages/", "data": ""}
    return f"{places[kind]}{rest}" if kind in places else ""


def _host_files(appliance: Path) -> dict[str, bytes]:
    files = {place: (appliance / name).read_bytes() for name, place in HOST_FILES.items()}
    users = (appliance / "systemd/sysusers.d/strongroom.conf").read_text().splitlines(keepends=True)
    own = "".join(line for line in users if line.startswith("u strongroom-agent "))
    files["usr/lib/sysusers.d/strongroom-agent.conf"] = own.encode()
    files["usr/lib/tmpfiles.d/strongroom-agent.conf"] = (
        appliance / "packages/debian/strongroom-agent.tmpfiles"
    ).read_bytes()
    return files


def _archive(entries: dict[str, bytes], seconds: int) -> bytes:
    packed = io.BytesIO()
    write_zip(packed, entries.items(), seconds, packed=True)
    return packed.getvalue()


def release_of(path: Path) -> dict[str, str]:
    """Version and digest that a one-file program has."""
    with zipfile.ZipFile(path) as archive:
        found: dict[str, str] = json.loads(archive.read("release.json"))
    return found
