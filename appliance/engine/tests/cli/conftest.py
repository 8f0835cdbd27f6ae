"""Runs the real command in its own process, as a user would."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kit.prepared_commands import run_for_text

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A user's environment without any setting of ours, at home in a folder of the test."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STRONGROOM")}
    kept.pop("XDG_CACHE_HOME", None)
    return {**kept, "HOME": str(tmp_path / "home"), "LC_ALL": "C.UTF-8"}


@pytest.fixture
def strongroom(environment: dict[str, str]) -> Run:
    """Run `strongroom WORDS...`; keyword arguments are added to the environment."""

    def run(*words: str, **additions: str) -> "subprocess.CompletedProcess[str]":
        return run_for_text(words, {**environment, **additions})

    return run
