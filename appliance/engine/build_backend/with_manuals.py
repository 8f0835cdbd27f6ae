"""Builds the package: setuptools' backend, and before it the manual pages and shell completions.

They are made from the parsers of the commands, which import the libraries of the package. So a
wheel needs those libraries to be built; an editable installation and an sdist do without.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

PROJECT = Path(__file__).resolve().parents[1]
# pyproject.toml names what is below it.
SHARED = PROJECT / "build" / "share"


def get_requires_for_build_wheel(settings: Mapping[str, str] | None = None) -> list[str]:
    """What setuptools needs, and the libraries of the package."""
    with (PROJECT / "pyproject.toml").open("rb") as file:
        libraries: list[str] = tomllib.load(file)["project"]["dependencies"]
    return [*build_meta.get_requires_for_build_wheel(settings), *libraries]


def build_wheel(
    folder: str, settings: Mapping[str, str] | None = None, metadata_folder: str | None = None
) -> str:
    """Make the manual pages and completions, then the wheel; its name."""
    shutil.rmtree(SHARED, ignore_errors=True)
    path = os.pathsep.join(filter(None, (str(PROJECT / "src"), os.environ.get("PYTHONPATH"))))
    subprocess.run(
        [sys.executable, "-m", "strongroom.cli.shared_files", SHARED],
        check=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    name: str = build_meta.build_wheel(folder, settings, metadata_folder)
    return name
