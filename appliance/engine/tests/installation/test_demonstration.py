"""The demonstrations compare something, and say how much; where they could not, they fail."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kit.project import ENGINE

PROGRAMS = str(Path(sys.executable).parent)


def demonstrate(script: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a demonstration."""
    kept = {name: text for name, text in os.environ.items() if "STRONGROOM" not in name}
    path = f"{PROGRAMS}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", str(ENGINE / script), *words],
        env={**kept, "PATH": path, "LC_ALL": "C.UTF-8", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def picked(*candidates: Path) -> str:
    """The folder that a demonstration would take of these."""
    script = f'fail() {{ echo "$1"; exit 1; }}; . "{ENGINE}/demo_data.sh"; pick_folder "$@"'
    done = subprocess.run(
        ["bash", "-c", script, "demo", *map(str, candidates)],
        env={**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_it_says_how_many_files_and_bytes_it_compared(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for number in range(1200):
        (data / f"file {number}").write_text(f"content of {number:05}\n")
    done = demonstrate("demo.sh", str(data), TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "compared 1200 files of 20400 bytes" in done.stdout.replace(",", "")


@pytest.mark.parametrize("script", ["demo.sh", "demo_fleet.sh"])
def test_a_folder_without_files_is_refused_before_anything_is_done(tmp_path, script):
    (tmp_path / "empty" / "folder").mkdir(parents=True)
    done = demonstrate(script, str(tmp_path / "empty"), TMPDIR=str(tmp_path))
    assert done.returncode == 1
    assert "nothing to show" in done.stderr
    assert "every byte" not in done.stdout
    assert list(tmp_path.iterdir()) == [tmp_path / "empty"]


def test_folders_without_files_are_passed_over(tmp_path):
    empty, full = tmp_path / "empty", tmp_path / "full"
    empty.mkdir()
    full.mkdir()
    for number in range(200):
        (full / str(number)).write_bytes(bytes(10_000))
    assert picked(tmp_path / "missing", empty, full) == str(full)


def test_a_machine_without_any_usual_folder_has_python_itself(tmp_path):
    folder = Path(picked(tmp_path))
    assert (folder / "os.py").exists()
