"""The libraries of a release: wheels for each Python and machine, as requirements-runtime.lock names them."""

from __future__ import annotations

import email
import re
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from packaging.markers import Marker, default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

# What pip on such a machine takes too: wheels of older C libraries.
_GLIBC = ("2_28", "2_27", "2_26", "2_24", "2_17", "2_12", "2_5")
_PLATFORMS = ("manylinux2014", "manylinux2010", "manylinux1")
_PINNED = re.compile(r"^(?P<name>[a-z0-9._-]+)==(?P<version>\S+)(?: ; (?P<marker>.*?))? \\$")


@dataclass(frozen=True, order=True)
class Target:
    """A Python, such as 3.13, on a machine, such as x86_64."""

    python: str
    machine: str

    @property
    def name(self) -> str:
        """As the one-file program calls it: cp313-x86_64."""
        return f"cp{self.python.replace('.', '')}-{self.machine}"

    def environment(self) -> dict[str, str]:
        """What markers of requirements are asked of."""
        here = {name: str(value) for name, value in default_environment().items()}
        return here | {
            "python_version": self.python,
            "python_full_version": f"{self.python}.0",
            "platform_machine": self.machine,
        }


@dataclass(frozen=True)
class Library:
    """One entry of a lock: what it is, and its lines for pip."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]

    def is_for(self, target: Target) -> bool:
        """Whether the lock wants it there."""
        if not self.marker:
            return True
        return Marker(self.marker).evaluate(target.environment())


def read_lock(lock: Path) -> list[Library]:
    """The libraries that a lock names."""
    found: list[tuple[re.Match[str], list[str]]] = []
    for line in lock.read_text().splitlines():
        if pinned := _PINNED.match(line):
            found.append((pinned, []))
        elif line.strip().startswith("--hash="):
            found[-1][1].append(line.strip(" \\"))
    return [
        Library(canonicalize_name(one["name"]), one["version"], one["marker"] or "", tuple(hashes))
        for one, hashes in found
    ]


def fetch(libraries: list[Library], target: Target, folder: Path, lock: Path) -> None:
    """Put the wheels for `target` into `folder`, each checked against its hash. `lock` is written."""
    lines = [" \\\n    ".join((f"{one.name}=={one.version}", *one.hashes)) for one in libraries if one.is_for(target)]
    lock.write_text("\n".join(lines) + "\n")
    platforms = [f"manylinux_{one}_{target.machine}" for one in _GLIBC]
    platforms += [f"{one}_{target.machine}" for one in _PLATFORMS]
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"),
            *("--no-deps", "--require-hashes", "--only-binary", ":all:", "--requirement", lock),
            *("--implementation", "cp", "--python-version", target.python),
            *(word for one in platforms for word in ("--platform", one)),
            *("--dest", folder),
        ],
        check=True,
    )


def wheels_for(libraries: list[Library], target: Target, folder: Path) -> dict[str, Path]:
    """Library -> its wheel in `folder` for `target`, of those that pip would take there."""
    wanted = {(one.name, one.version) for one in libraries if one.is_for(target)}
    found = {}
    for path in sorted(folder.glob("*.whl")):
        name, version, _, tags = parse_wheel_filename(path.name)
        if (name, str(version)) in wanted and any(_fits(one, target) for one in map(str, tags)):
            found[str(name)] = path
    if missing := sorted(name for name, _ in wanted if name not in found):
        raise SystemExit(f"no wheel for {target.name} of {', '.join(missing)}")
    return found


def _fits(tag: str, target: Target) -> bool:
    python, abi, platform = tag.split("-", 2)
    if platform != "any" and not platform.endswith(f"_{target.machine}"):
        return False
    number = int(target.python.split(".")[1])
    if abi == "none":
        return python in {"py3", "py2.py3", f"cp3{number}", f"py3{number}"}
    if abi == "abi3":
        return int(python.removeprefix("cp3") or 0) <= number
    return abi == f"cp3{number}"


def needed_by(root: Path, wheels: dict[str, Path], target: Target) -> list[Path]:
    """The wheels that the wheel `root` needs without any of its parts, and what those need."""
    environment = target.environment()
    found: dict[str, Path] = {}
    waiting = [(root, frozenset[str]())]
    while waiting:
        wheel, extras = waiting.pop()
        for line in _requirements(wheel):
            one = Requirement(line)
            chosen = (environment | {"extra": extra} for extra in extras or {""})
            if one.marker and not any(one.marker.evaluate(each) for each in chosen):
                continue
            name = canonicalize_name(one.name)
            if name not in found:
                found[name] = wheels[name]
                waiting.append((wheels[name], frozenset(one.extras)))
    return sorted(found.values())


def _requirements(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name)).get_all("Requires-Dist") or []
