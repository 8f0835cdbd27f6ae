"""Bacula from Debian: fetched by `apt-get download` and unpacked, not installed.

So nothing of it runs but what a benchmark starts, and nothing of it is left on the machine.

    python -m strongroom_bench.testbed.bacula_packages STEP PROGRAMS FOLDER DATA [TARGET]

does one job (STEP: full, incremental or restore), in a folder that is made at the first one; its
daemons are started for it and ended.
The seconds that the job took are its last line: what goes before and after is not a part of it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from strongroom.cli.measure.testbed.daemons import plain_environment
from strongroom_bench.errors import ContenderError
from strongroom_bench.testbed.bacula import Bacula, library_path

PACKAGES = (
    "bacula-common", "bacula-common-sqlite3", "bacula-console", "bacula-director",
    "bacula-director-sqlite3", "bacula-fd", "bacula-sd", "liblzo2-2", "libwrap0",
)  # fmt: skip


def fetch(work_folder: Path) -> Path:
    """Bacula's programs below this folder, fetched at first use. Raises ContenderError."""
    folder = work_folder / "peers/bacula"
    if (folder / "whole").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        subprocess.run(
            ["apt-get", "download", "--quiet", *PACKAGES],
            cwd=folder,
            check=True,
            capture_output=True,
        )
        for package in folder.glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, folder], check=True)
        _require_libraries(folder)
    except (OSError, subprocess.CalledProcessError) as error:
        raise ContenderError("Bacula could not be fetched; it takes Debian and its archive") from (
            error
        )
    (folder / "whole").touch()
    return folder


def _require_libraries(folder: Path) -> None:
    """Raises ContenderError when a daemon could not start; better now than in the middle."""
    for name in ("dir", "sd", "fd"):
        shown = subprocess.run(
            ["ldd", folder / f"usr/sbin/bacula-{name}"],
            check=True,
            capture_output=True,
            text=True,
            env=plain_environment(folder, LD_LIBRARY_PATH=library_path(folder)),
        ).stdout
        missing = [line.split()[0] for line in shown.splitlines() if line.endswith("not found")]
        if missing:
            raise ContenderError(f"bacula-{name} needs {', '.join(missing)}: install what has it")


def version(programs: Path) -> str:
    """Of the package."""
    name = next(programs.glob("bacula-sd_*.deb")).name
    return name.split("_")[1]


def _main(step: str, programs: str, folder: str, data: str, target: str = "") -> None:
    with Bacula(Path(programs), Path(folder), [[Path(data)]]) as bacula:
        if step == "restore":
            seconds = bacula.restore(Path(target))
        else:
            seconds = bacula.run(step.capitalize()).wall_seconds
    print(seconds)


if __name__ == "__main__":
    _main(*sys.argv[1:])
