"""What is installed in an image, and its bill of materials (CycloneDX 1.6)."""

from __future__ import annotations

import email
import uuid
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

NAMES = uuid.UUID("0a6f0a44-92d0-4a59-b7a4-5c6c3d6fd5c1")


@dataclass(frozen=True)
class Component:
    """A package, of Debian or of Python."""

    name: str
    version: str
    purl: str
    licence: str = ""


def debian_packages(status: str) -> list[Component]:
    """The installed packages of dpkg's status file."""
    found = []
    for paragraph in status.strip().split("\n\n"):
        fields = email.message_from_string(paragraph)
        if fields["Status"] != "install ok installed":
            continue
        name, version, architecture = fields["Package"], fields["Version"], fields["Architecture"]
        found.append(
            Component(
                name,
                version,
                f"pkg:deb/debian/{quote(name)}@{quote(version, safe='')}?arch={architecture}&distro=debian-13",
            )
        )
    return sorted(found, key=lambda one: one.name)


def python_packages(folder: Path) -> list[Component]:
    """The libraries that the environment in FOLDER has."""
    found = []
    for path in folder.glob("lib*/**/*.dist-info/METADATA"):
        fields = email.message_from_string(path.read_text(errors="replace"))
        name, version = fields["Name"], fields["Version"]
        licence = fields["License-Expression"] or ""
        found.append(Component(name, version, f"pkg:pypi/{quote(name.lower())}@{quote(version, safe='')}", licence))
    return sorted(set(found), key=lambda one: one.name.lower())


def bill_of_materials(
    name: str, version: str, time: datetime, components: list[Component], kind: str = "operating-system"
) -> dict[str, Any]:
    """A CycloneDX document of a product of that kind; the same components give the same one."""
    entries = []
    for one in components:
        entry: dict[str, Any] = {
            "type": "library",
            "bom-ref": one.purl,
            "name": one.name,
            "version": one.version,
            "purl": one.purl,
        }
        if one.licence:
            entry["licenses"] = [{"expression": one.licence}]
        entries.append(entry)
    listed = "\n".join(one.purl for one in components)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(NAMES, listed)}",
        "version": 1,
        "metadata": {
            "timestamp": time.isoformat(),
            "component": {"type": kind, "bom-ref": name, "name": name, "version": version},
        },
        "components": entries,
    }
