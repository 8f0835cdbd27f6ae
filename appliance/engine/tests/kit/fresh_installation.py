"""The package installed as a user installs it: a wheel in an environment with nothing else.

Nothing is fetched: libraries come from the environment of the tests, and only those that the wheel
itself says it needs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path

from kit.project import ENGINE

# The benchmark lies beside, so that a test sees that it stays out.
_BUILT_FROM = ("src", "bench", "build_backend", "pyproject.toml")
# What `Requires-Dist` may say of the Python or the system at hand.
_EVALUATE = (
    "import sys; from pip._vendor.packaging.requirements import Requirement\n"
    "for line in sys.stdin:\n"
    "    one = Requirement(line)\n"
    "    for extra in sys.argv[1:] or ['']:\n"
    "        if one.marker is None or one.marker.evaluate({'extra': extra}):\n"
    "            print(one.name, *one.extras)\n"
    "            break\n"
)


@dataclass(frozen=True, slots=True)
class FreshInstallation:
    """An environment in `folder`: its programs are in `folder/bin`."""

    folder: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    def run(self, *words: str, home: Path) -> subprocess.CompletedProcess[str]:
        """Run its `strongroom` as a user whose home is `home`, in a folder that is not ours."""
        return subprocess.run(
            [self.folder / "bin" / "strongroom", *words],
            capture_output=True,
            text=True,
            check=False,
            cwd=home,
            stdin=subprocess.DEVNULL,
            env={"HOME": str(home), "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
        )


def build_wheel(folder: Path) -> Path:
    """Build the wheel of the present source in `folder`, as `pip wheel` does; its path."""
    source = folder / "source"
    source.mkdir(parents=True)
    for name in _BUILT_FROM:
        part = ENGINE / name
        if part.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(part, source / name, ignore=ignored)
        else:
            shutil.copy2(part, source / name)
    _pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(source))
    (wheel,) = folder.glob("strongroom-*.whl")
    return wheel


def install(wheel: Path, folder: Path, extras: Iterable[str] = ()) -> FreshInstallation:
    """Install `wheel` with `extras` into a new environment in `folder`."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    made = FreshInstallation(folder)
    _pip("--python", str(made.python), "install", "--no-index", "--no-deps", str(wheel))
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    (information,) = packages.glob("strongroom-*.dist-info")
    for library in _needed(PathDistribution(information), extras):
        for file in library.files or ():
            top = file.parts[0]
            if top not in {"..", "__pycache__"} and not (packages / top).exists():
                (packages / top).symlink_to(Path(str(library.locate_file(top))))
    return made


def _needed(package: Distribution, extras: Iterable[str]) -> list[Distribution]:
    """The libraries that `package` needs, and what those need."""
    found: dict[tuple[str, ...], Distribution] = {}
    waiting: list[tuple[Distribution, tuple[str, ...]]] = [(package, tuple(extras))]
    while waiting:
        needing, chosen = waiting.pop()
        answer = subprocess.run(
            [sys.executable, "-c", _EVALUATE, *(("", *chosen) if chosen else ())],
            input="\n".join(needing.requires or ()),
            capture_output=True,
            text=True,
            check=True,
        )
        for line in answer.stdout.splitlines():
            name, *more = line.split()
            key = (re.sub(r"[-_.]+", "-", name).lower(), *more)
            if key not in found:
                found[key] = distribution(name)
                waiting.append((found[key], tuple(more)))
    return list(found.values())


def _pip(*words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
