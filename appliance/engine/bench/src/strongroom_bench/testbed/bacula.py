"""Bacula as a peer: a director, a storage and a file daemon on loopback, in their own folder.

The programs are those that are installed, or packages that were unpacked below a folder. Each
folder has an SQLite catalog and its own volumes. Bacula's defaults are kept, except for what is
measured and for limits of concurrent jobs. It neither deduplicates nor encrypts what it stores.
"""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final, NamedTuple, Self

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.cli.measure.testbed.daemons import Daemon, free_ports, plain_environment

_DAEMONS: Final = ("sd", "fd", "dir")
_PROGRAMS: Final = (*(f"bacula-{name}" for name in _DAEMONS), "bconsole")
_LIBRARIES: Final = ("usr/lib/bacula", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu")
_CATALOG: Final = "usr/share/dbconfig-common/data/bacula-director-sqlite3/install/sqlite3"
_MOST_JOBS: Final = 20
_SHOWN_CHARACTERS: Final = 4000
_TLS: Final = """
  TLS Enable = yes; TLS Require = yes
  TLS CA Certificate File = {folder}/certificate.pem
  TLS Certificate = {folder}/certificate.pem
  TLS Key = {folder}/key.pem
"""
_DIRECTOR: Final = """
Director {{ Name = bench-dir; DIR Address = 127.0.0.1; DIR Port = {dir_port}; Password = bench
  Query File = {folder}/query.sql; Working Directory = {folder}; Pid Directory = {folder}
  Messages = standard; Maximum Concurrent Jobs = {most}; Comm Compression = {wire} }}
Catalog {{ Name = catalog; dbname = bacula; dbuser = ""; dbpassword = "" }}
Messages {{ Name = standard; append = {folder}/messages = all, !skipped; catalog = all
}}
Client {{ Name = bench-fd; Address = localhost; FD Port = {fd_port}; Password = bench
  Catalog = catalog; Maximum Concurrent Jobs = {most}
  {tls} }}
Storage {{ Name = disk; Address = localhost; SD Port = {sd_port}; Password = bench
  Device = files; Media Type = File; Maximum Concurrent Jobs = {most}
  {tls} }}
Pool {{ Name = pool; Pool Type = Backup; Label Format = "volume-" }}
Job {{ Name = restore; Type = Restore; Client = bench-fd; FileSet = data0
  Storage = disk; Pool = pool; Messages = standard
  {after} }}
"""
_JOB: Final = """
FileSet {{ Name = data{number}; Ignore FileSet Changes = yes
  Include {{ Options {{ Signature = MD5; {compression} }}
    {files} }} }}
Job {{ Name = bench{number}; Type = Backup; Level = Full; Client = bench-fd; FileSet = data{number}
  Storage = disk; Pool = pool; Messages = standard
  {after} }}
"""
_AFTER: Final = "Run After Job = \"/bin/sh -c 'date +%%s.%%N >> {folder}/ended'\""
_STORAGE: Final = """
Storage {{ Name = bench-sd; SD Address = 127.0.0.1; SD Port = {sd_port}
  Working Directory = {folder}; Pid Directory = {folder}; Comm Compression = {wire}
  Maximum Concurrent Jobs = {most}
  {tls} }}
Director {{ Name = bench-dir; Password = bench
  {tls} }}
Device {{ Name = files; Media Type = File; Archive Device = {folder}/volumes; Label Media = yes
  Random Access = yes; Automatic Mount = yes; Removable Media = no; Always Open = no }}
Messages {{ Name = standard; director = bench-dir = all
}}
"""
_FILE: Final = """
FileDaemon {{ Name = bench-fd; FD Address = 127.0.0.1; FD Port = {fd_port}
  Working Directory = {folder}; Pid Directory = {folder}; Comm Compression = {wire}
  Maximum Concurrent Jobs = {most}
  {tls} }}
Director {{ Name = bench-dir; Password = bench
  {tls} }}
Messages {{ Name = standard; director = bench-dir = all, !skipped, !restored
}}
"""
_CONSOLE: Final = """
Director {{ Name = bench-dir; DIR Port = {dir_port}; Address = 127.0.0.1; Password = bench }}
"""


class BaculaError(Exception):
    """A job of Bacula did not end well; the message holds its report."""


class BaculaSettings(NamedTuple):
    """compression: of files, as a FileSet's Options say it, "" for none. wire: LZ4 on the way."""

    compression: str = ""
    wire: bool = False
    tls: bool = False


class BaculaResult(NamedTuple):
    """One run; from asking for it until the catalog records of its last job were made."""

    wall_seconds: float
    file_daemon_cpu_seconds: float
    storage_daemon_cpu_seconds: float
    director_cpu_seconds: float
    file_daemon_peak_bytes: int
    storage_daemon_peak_bytes: int
    stored_bytes: int


def installed_bacula() -> Path | None:
    """The folder below which Bacula's programs and the tables of its catalog are, None without."""
    found = [shutil.which(name) for name in _PROGRAMS]
    if None in found:
        return None
    # ROOT/usr/sbin/bacula-sd
    root = Path(str(found[0])).resolve().parents[2]
    return root if (root / _CATALOG).exists() else None


def library_path(root: Path) -> str:
    """What LD_LIBRARY_PATH has to say for programs that were unpacked below `root`."""
    return ":".join(str(root / library) for library in _LIBRARIES)


class Bacula:
    """The daemons within a `with` block; `folder` is the caller's, what it holds is kept."""

    def __init__(
        self,
        root: Path,
        folder: Path,
        jobs: Sequence[Sequence[Path]],
        settings: BaculaSettings = BaculaSettings(),  # noqa: B008 - no one can change it
    ) -> None:
        """root: below which the programs are. jobs: what each of them backs up."""
        (folder / "volumes").mkdir(parents=True, exist_ok=True)
        (folder / "query.sql").touch()
        self._root = root
        self._folder = folder
        self._job_count = len(jobs)
        self._stack = ExitStack()
        self._ports = dict(zip(_DAEMONS, free_ports(len(_DAEMONS)), strict=True))
        own = {} if root == Path("/") else {"LD_LIBRARY_PATH": library_path(root)}
        self._environment = plain_environment(folder, **own)
        if settings.tls:
            self._make_certificate()
        self._configure(jobs, settings)
        if not self._database.exists():
            with closing(sqlite3.connect(self._database)) as catalog:
                catalog.executescript((root / _CATALOG).read_text())

    def __enter__(self) -> Self:
        self.daemons: dict[str, Daemon] = {}
        try:
            for name in _DAEMONS:
                program = self._root / f"usr/sbin/bacula-{name}"
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
        """Run all jobs at once. Raises BaculaError."""
        before = {name: daemon.usage() for name, daemon in self.daemons.items()}
        asked = [f"run job=bench{number} level={level} yes" for number in range(self._job_count)]
        wall_seconds = self._timed(asked, self._job_count)
        after = {name: daemon.usage() for name, daemon in self.daemons.items()}
        cpu = {name: after[name].cpu_seconds - before[name].cpu_seconds for name in after}
        return BaculaResult(
            wall_seconds,
            cpu["fd"],
            cpu["sd"],
            cpu["dir"],
            after["fd"].peak_rss_bytes,
            after["sd"].peak_rss_bytes,
            sum(path.stat().st_size for path in (self._folder / "volumes").iterdir()),
        )

    def restore(self, target: Path) -> float:
        """Restore the last backup of the first job below `target`; returns the seconds.

        Raises BaculaError.
        """
        what = "restorejob=restore client=bench-fd fileset=data0"
        return self._timed([f"restore {what} where={target} select current all done yes"], 1)

    @property
    def _database(self) -> Path:
        return self._folder / "bacula.db"

    def _configure(self, jobs: Sequence[Sequence[Path]], settings: BaculaSettings) -> None:
        folder = self._folder
        fields = {f"{name}_port": port for name, port in self._ports.items()} | {
            "folder": folder,
            "most": _MOST_JOBS,
            "after": _AFTER.format(folder=folder),
            "compression": f"Compression = {settings.compression}" if settings.compression else "",
            "wire": "yes" if settings.wire else "no",
            "tls": _TLS.format(folder=folder) if settings.tls else "",
        }
        texts = {
            "dir": _DIRECTOR.format(**fields),
            "sd": _STORAGE.format(**fields),
            "fd": _FILE.format(**fields),
            "console": _CONSOLE.format(**fields),
        }
        for number, paths in enumerate(jobs):
            files = "\n    ".join(f'File = "{path}"' for path in paths)
            texts["dir"] += _JOB.format(number=number, files=files, **fields)
        for name, text in texts.items():
            (folder / f"{name}.conf").write_text(text)

    def _timed(self, asked: Sequence[str], job_count: int) -> float:
        """Let so many jobs run and wait for them; the seconds until the last has ended."""
        ended = self._folder / "ended"
        ended.unlink(missing_ok=True)
        begin_ns = clock.now_ns()
        self._console("".join(f"{line}\n" for line in (*asked, "wait")))
        times = ended.read_text().split() if ended.exists() else []
        self._require_success(job_count, len(times))
        return max(map(float, times)) - begin_ns / SECOND_NS

    def _console(self, commands: str) -> None:
        console = [str(self._root / "usr/sbin/bconsole"), "-c", str(self._folder / "console.conf")]
        subprocess.run(
            console,
            env=self._environment,
            input=commands,
            stdout=subprocess.DEVNULL,
            text=True,
            check=True,
        )

    def _require_success(self, job_count: int, ended_count: int) -> None:
        with closing(sqlite3.connect(self._database)) as catalog:
            rows = catalog.execute(
                "SELECT JobStatus, JobErrors, Level, JobFiles FROM Job ORDER BY JobId DESC LIMIT ?",
                (job_count,),
            ).fetchall()
        fine = [row for row in rows if row[:2] == ("T", 0) and row[2:] != ("F", 0)]
        if len(fine) != job_count or ended_count != job_count:
            messages = self._folder / "messages"
            log = messages.read_text(errors="replace") if messages.exists() else ""
            raise BaculaError(f"{rows}\n{log[-_SHOWN_CHARACTERS:]}")

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
