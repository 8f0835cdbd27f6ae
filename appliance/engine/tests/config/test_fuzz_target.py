"""The fuzz target runs: its seeds pass, and a short search finds nothing."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

from kit.project import FUZZ

TARGET = FUZZ / "fuzz_config.py"


@pytest.mark.skipif(find_spec("atheris") is None, reason="atheris is not installed")
def test_a_short_search_finds_nothing(tmp_path):
    seeds = tmp_path / "seeds"
    subprocess.run([sys.executable, str(TARGET), "--seeds", str(seeds)], check=True, cwd=tmp_path)
    assert len(list(seeds.iterdir())) > 300
    done = subprocess.run(
        [sys.executable, str(TARGET), str(seeds), "-max_total_time=5", "-timeout=10", "-seed=1"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Done " in done.stderr
