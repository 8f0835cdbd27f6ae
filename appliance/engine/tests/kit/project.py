"""Where the parts of the project are that tests look at besides the engine's modules."""

from __future__ import annotations

from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).resolve().parents[1]
ENGINE: Final = TESTS.parent
FUZZ: Final = ENGINE / "fuzz"
PROGRAM: Final = ENGINE.parent / "program"
UNITS: Final = ENGINE.parent / "systemd"
PACKAGES: Final = ENGINE.parent / "packages"
RELEASE: Final = ENGINE.parent / "release"
MONITORING: Final = ENGINE.parent / "monitoring"
ROLES: Final = ENGINE.parents[1] / "roles"
DOCUMENTS: Final = ENGINE.parents[1] / "docs"
