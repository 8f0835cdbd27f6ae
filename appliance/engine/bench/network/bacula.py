"""Bacula from Debian as the peer: unpacked, not installed, in a private folder on loopback.

Its packages are fetched by `apt-get download` and unpacked, so nothing of it runs but what a
benchmark starts, and nothing of it is left on the machine. Each folder has a director, a storage
and a file daemon of its own, with an SQLite catalog and volumes of its own. Bacula's defaults are
kept, except for the measured settings. Bacula neither deduplicates nor encrypts what it stores.

    python -m bench.network.bacula full|incremental|restore PROGRAMS FOLDER DATA [TARGET]

does one job, in a folder that is made at the first one; its daemons are started for it and ended.
The seconds that the job took are its last line: what goes before and after is no part of it.
"""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from bench.errors import ContenderError
from strongroom.measure.testbed.daemons import Daemon, free_ports, plain_environment

PACKAGES = (
    "bacula-common", "bacula-common-sqlite3", "bacula-console", "bacula-director",
    "bacula-director-sqlite3", "bacula-fd", "bacula-sd", "liblzo2-2", "libwrap0",
)  # fmt: skip
_LIBRARIES = ("usr/lib/bacula", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu")
_CATALOG = "usr/share/dbconfig-common/data/bacula-director-sqlite3/install/sqlite3"
_TLS = """
  TLS Enable = yes; TLS Require = yes
  TLS CA Certificate File = {folder}/certificate.pem
  TLS Certificate = {folder}/certificate.pem
  TLS Key = {folder}/key.pem
"""
_DIRECTOR = """
Director {{ Name = bench-dir; DIR Address = 127.0.0.1; DIR Port = {dir_port}; Password = bench
  Query File = {folder}/query.sql; Working Directory = {folder}; Pid Directory = {folder}
  Messages = standard; Maximum Concurrent Jobs = 5; Comm Compression = {wire} }}
Catalog {{ Name = catalog; dbname = bacula; dbuser = ""; dbpassword = "" }}
Messages {{ Name = standard; append = {folder}/messages = all, !skipped; catalog = all
}}
Client {{ Name = bench-fd; Address = localhost; FD Port = {fd_port}; Password = bench
  Catalog = catalog
  {tls} }}
Storage {{ Name = disk; Address = localhost; SD Port = {sd_port}; Password = bench
  Device = files; Media Type = File
  {tls} }}
Pool {{ Name = pool; Pool Type = Backup; Label Format = "volume-" }}
FileSet {{ Name = data; Ignore FileSet Changes = yes
  Include {{ Options {{ Signature = MD5; {compression} }}
    File = "{data}" }} }}
Job {{ Name = bench; Type = Backup; Level = Full; Client = bench-fd; FileSet = data
  Storage = disk; Pool = pool; Messages = standard
  Run After Job = "/bin/sh -c 'date +%%s.%%N > {folder}/ended'" }}
Job {{ Name = restore; Type = Restore; Client = bench-fd; FileSet = data
  Storage = disk; Pool = pool; Messages = standard
  Run After Job = "/bin/sh -c 'date +%%s.%%N > {folder}/ended'" }}
"""
_STORAGE = """
Storage {{ Name = bench-sd; SD Address = 127.0.0.1; SD Port = {sd_port}
  Working Directory = {folder}; Pid Directory = {folder}; Comm Compression = {wire}
  {tls} }}
Director {{ Name = bench-dir; Password = bench
  {tls} }}
Device {{ Name = files; Media Type = File; Archive Device = {folder}/volumes; Label Media = yes
  Random Access = yes; Automatic Mount = yes; Removable Media = no; Always Open = no }}
Messages {{ Name = standard; director = bench-dir = all
}}
"""
_FILE = """
FileDaemon {{ Name = bench-fd; FD Address = 127.0.0.1; FD Port = {fd_port}
  Working Directory = {folder}; Pid Directory = {folder}; Comm Compression = {wire}
  {tls} }}
Director {{ Name = bench-dir; Password = bench
  {tls} }}
Messages {{ Name = standard; director = bench-dir = all, !skipped, !restored
}}
"""
_CONSOLE = """
Director {{ Name = bench-dir; DIR Port = {dir_port}; Address = 127.0.0.1; Password = bench }}
"""


class BaculaError(Exception):
    """A job of Bacula did not end well; the message holds its report."""


@dataclass(frozen=True)
class BaculaJob:
    """compression: of files, as a FileSet's Options say it, "" for none. wire: LZ4 on the way."""

    compression: str
    wire: bool
    tls: bool


@dataclass(frozen=True)
class BaculaResult:
    """One job; from asking for it until its catalog records were made."""

    wall_seconds: float
    file_daemon_cpu_seconds: float
    storage_daemon_cpu_seconds: float
    director_cpu_seconds: float
    file_daemon_peak_bytes: int
    storage_daemon_peak_bytes: int
    stored_bytes: int


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
            env=plain_environment(folder, LD_LIBRARY_PATH=_library_path(folder)),
        ).stdout
        missing = [line.split()[0] for line in shown.splitlines() if line.endswith("not found")]
        if missing:
            raise ContenderError(f"bacula-{name} needs {', '.join(missing)}: install what has it")


def _library_path(programs: Path) -> str:
    return ":".join(str(programs / library) for library in _LIBRARIES)


def version(programs: Path) -> str:
    """Of the package."""
    name = next(programs.glob("bacula-sd_*.deb")).name
    return name.split("_")[1]


class Bacula:
    """The three daemons within a `with` block; `folder` is the caller's, what it holds is kept."""

    def __init__(self, programs: Path, folder: Path, data: Path, job: BaculaJob) -> None:
        (folder / "volumes").mkdir(parents=True, exist_ok=True)
        (folder / "query.sql").touch()
        self._programs = programs
        self._folder = folder
        self._stack = ExitStack()
        self._ports = dict(zip(("dir", "sd", "fd"), free_ports(3), strict=True))
        self._environment = plain_environment(folder, LD_LIBRARY_PATH=_library_path(programs))
        if job.tls:
            self._make_certificate()
        fields = {f"{name}_port": port for name, port in self._ports.items()} | {
            "folder": folder,
            "data": data,
            "compression": f"Compression = {job.compression}" if job.compression else "",
            "wire": "yes" if job.wire else "no",
            "tls": _TLS.format(folder=folder) if job.tls else "",
        }
        for name, text in (("dir", _DIRECTOR), ("sd", _STORAGE), ("fd", _FILE), ("con", _CONSOLE)):
            (folder / f"{name}.conf").write_text(text.format(**fields))
        if not (folder / "bacula.db").exists():
            with sqlite3.connect(folder / "bacula.db") as catalog:
                catalog.executescript((programs / _CATALOG).read_text())
            catalog.close()

    def __enter__(self) -> Self:
        self.daemons: dict[str, Daemon] = {}
        try:
            for name in ("sd", "fd", "dir"):
                program = self._programs / f"usr/sbin/bacula-{name}"
                command = [str(program), "-f", "-c", str(self._folder / f"{name}.conf")]
                daemon = Daemon(command, self._environment, self._folder / f"{name}.log")
                self.daemons[name] = self._stack.enter_context(daemon)
                daemon.await_port(self._ports[name])
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(self, level: str = "Full") -> BaculaResult:
        """Run the job. Raises BaculaError."""
        ended = self._folder / "ended"
        ended.unlink(missing_ok=True)
        before = {name: daemon.usage() for name, daemon in self.daemons.items()}
        begin = time.time()
        self._console(f"run job=bench level={level} yes\nwait\n")
        self._require_success()
        after = {name: daemon.usage() for name, daemon in self.daemons.items()}
        cpu = {name: after[name].cpu_seconds - before[name].cpu_seconds for name in after}
        return BaculaResult(
            float(ended.read_text()) - begin,
            cpu["fd"],
            cpu["sd"],
            cpu["dir"],
            after["fd"].peak_rss_bytes,
            after["sd"].peak_rss_bytes,
            sum(path.stat().st_size for path in (self._folder / "volumes").iterdir()),
        )

    def restore(self, target: Path) -> float:
        """Restore the last backup below `target`; returns the seconds. Raises BaculaError."""
        ended = self._folder / "ended"
        ended.unlink(missing_ok=True)
        begin = time.time()
        words = f"restorejob=restore client=bench-fd where={target} select current all done yes"
        self._console(f"restore {words}\nwait\n")
        self._require_success()
        return float(ended.read_text()) - begin

    def _console(self, commands: str) -> str:
        console = [str(self._programs / "usr/sbin/bconsole"), "-c", str(self._folder / "con.conf")]
        return subprocess.run(
            console,
            env=self._environment,
            input=commands,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout

    def _require_success(self) -> None:
        with sqlite3.connect(self._folder / "bacula.db") as catalog:
            rows = catalog.execute(
                "SELECT JobStatus, JobErrors, Level, JobFiles FROM Job ORDER BY JobId DESC LIMIT 1"
            ).fetchall()
        catalog.close()
        ended = (self._folder / "ended").exists()
        if not ended or not rows or rows[0][:2] != ("T", 0) or rows[0][2:] == ("F", 0):
            messages = self._folder / "messages"
            said = messages.read_text(errors="replace")[-4000:] if messages.exists() else ""
            raise BaculaError(f"{rows}\n{said}")

    def _make_certificate(self) -> None:
        subprocess.run(
            [
                *("openssl", "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
                *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
                *("-addext", "subjectAltName=DNS:localhost"),
                *("-keyout", str(self._folder / "key.pem")),
                *("-out", str(self._folder / "certificate.pem")),
            ],
            check=True,
            capture_output=True,
        )


def _main(step: str, programs: str, folder: str, data: str, target: str = "") -> None:
    with Bacula(Path(programs), Path(folder), Path(data), BaculaJob("", False, False)) as bacula:
        if step == "restore":
            seconds = bacula.restore(Path(target))
        else:
            seconds = bacula.run(step.capitalize()).wall_seconds
    print(seconds)


if __name__ == "__main__":
    _main(*sys.argv[1:])
