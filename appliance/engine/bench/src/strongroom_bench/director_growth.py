"""How the cost of a director grows with clients and runs: processor time of each answer.

    python -m strongroom_bench.director_growth --clients 10000 --runs 1000000

It makes a configuration of as many clients and jobs, and a catalog with as many runs and the
snapshots of the last month, starts the director as a process and asks it over TLS. Processor time
is that of the director alone; it has no agents, and its storage is not there.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx

from strongroom.director.catalog.database import open_catalog
from strongroom.net.channels.tls_contexts import client_context
from strongroom.net.control.messages import OWN_HEADERS
from strongroom.net.identities.authority import Authority
from strongroom.net.identities.identity import Identity

_DAY_NS = 86400 * 10**9
_CONFIGURATION = """
Director {{ Name = boss; Password = x; Messages = standard; Address = 127.0.0.1; DirPort = {port}
  Working Directory = "{folder}/state"; Identity Directory = "{folder}/boss"
  Authority Directory = "{folder}/ca"; Maximum Concurrent Jobs = 10 }}
Messages {{ Name = standard; Console = all }}
Catalog {{ Name = main; Db Name = main; Db User = x; Db Password = x }}
Storage {{ Name = vault; Address = 192.0.2.3; Password = x; Device = disk; Media Type = File }}
Pool {{ Name = short; Pool Type = Backup; Minimum Retention = 0 }}
Schedule {{ Name = nights; Run = Full daily at 23:10; }}
FileSet {{ Name = all; Include {{ File = / }} }}
JobDefs {{ Name = usual; Type = Backup; Level = Incremental; Messages = standard; Storage = vault
  Pool = short; FileSet = all }}
Profile {{ Name = everything; Command ACL = *all*; Job ACL = *all*; Client ACL = *all*
  Storage ACL = *all*; Schedule ACL = *all*; Pool ACL = *all*; FileSet ACL = *all*
  Where ACL = *all* }}
Console {{ Name = admin; Password = x; Profile = everything }}
"""
_CLIENT = """Client {{ Name = host{0:05}; Address = host{0:05}; Password = x }}
Job {{ Name = nightly-host{0:05}; Job Defs = usual; Client = host{0:05}; Schedule = nights }}
"""
_STAGES = ("scan", "read", "chunk", "digest", "compress", "encrypt", "store", "wait")
_SUMMARY = json.dumps(
    {
        "files": 1000,
        "size_bytes": 10**9,
        "stored_bytes": 10**7,
        "files_read": 12,
        "bytes_read": 10**8,
        "new_bytes": 2 * 10**7,
        "stage_seconds": dict.fromkeys(_STAGES, 1.5),
    }
)
_SECURITY = json.dumps(
    {"mode": "ktls", "cipher": "TLS_AES_256_GCM_SHA384", "ktls_send": True, "ktls_receive": True}
)
_PATHS = (
    "/metrics",
    "/api/v1/status",
    "/api/v1/status?limit=100",
    "/api/v1/jobs",
    "/api/v1/jobs?limit=100",
    "/api/v1/clients",
    "/api/v1/clients?limit=100",
    "/api/v1/runs",
    "/api/v1/snapshots",
    "/",
    "/clients",
    "/schedule",
)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--folder", help="where it is made; with a catalog there it is used")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(wanted.folder or temporary)
        if not (folder / "state").exists():
            _make(folder, wanted.clients, wanted.runs)
        _measure(folder, wanted.clients)


def _make(folder: Path, clients: int, runs: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    authority = Authority.create(str(folder / "ca"), "house")
    authority.issue_identity(str(folder / "boss"), "boss", "director", ("localhost", "127.0.0.1"))
    authority.issue_identity(str(folder / "admin"), "admin", "operator", ())
    (folder / "state").mkdir()
    path = folder / "state" / "main.sqlite"
    open_catalog(f"sqlite:///{path}").close()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA synchronous = off")
        now_ns = time.time_ns()
        rows = _runs(clients, runs // clients, now_ns)
        _insert(database, "runs", rows)
        database.execute(
            "INSERT INTO snapshots (id, client, job, fileset, storage, pool, level, run, start_ns, "
            "server_ns, files, bytes, stored_bytes, tags) SELECT snapshot, client, job, fileset, "
            "storage, pool, level, id, started_ns, ended_ns, files, bytes, stored_bytes, '[]' "
            "FROM runs WHERE snapshot != '' AND ended_ns > ?",
            (now_ns - 30 * _DAY_NS,),
        )
        known = (
            {
                "name": f"host{number:05}",
                "enrolled_ns": now_ns - 90 * _DAY_NS,
                "last_seen_ns": now_ns,
                "version": "1",
                "features": "[]",
            }
            for number in range(clients)
        )
        _insert(database, "clients", known)


def _runs(clients: int, days: int, now_ns: int) -> Iterator[dict[str, Any]]:
    chance = random.Random(1)
    for age in range(days - 1, -1, -1):
        for number in range(clients):
            begun_ns = now_ns - age * _DAY_NS - 3600 * 10**9 + number * 10**6
            is_good = (number * 7 + age) % 97 != 0
            name = chance.randbytes(16).hex()
            times = dict.fromkeys(("scheduled_ns", "queued_ns", "started_ns"), begun_ns)
            yield {
                "id": name,
                "job": f"nightly-host{number:05}",
                "client": f"host{number:05}",
                "fileset": "all",
                "storage": "vault",
                "pool": "short",
                "level": "incremental",
                "kind": "backup",
                "state": "done" if is_good else "failed",
                **times,
                "ended_ns": begun_ns + 60 * 10**9,
                "files": 1000,
                "bytes": 10**9,
                "stored_bytes": 10**7,
                "snapshot": name * 2 if is_good else "",
                "requested_by": "schedule nights",
                "attempt": 1,
                "request": "{}",
                "summary": _SUMMARY,
                "security": _SECURITY,
            }


def _insert(database: sqlite3.Connection, table: str, rows: Iterator[dict[str, Any]]) -> None:
    first = next(rows)
    marks = ", ".join("?" * len(first))
    text = f"INSERT INTO {table} ({', '.join(first)}) VALUES ({marks})"
    database.execute(text, tuple(first.values()))
    database.executemany(text, (tuple(one.values()) for one in rows))


def _measure(folder: Path, clients: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    text = _CONFIGURATION.format(folder=folder, port=port)
    text += "".join(map(_CLIENT.format, range(clients)))
    (folder / "director.conf").write_text(text)
    log = folder / "log"
    command = [sys.executable, "-m", "strongroom", "director", "--config"]
    with log.open("wb") as output:
        process = subprocess.Popen([*command, str(folder / "director.conf")], stderr=output)
        try:
            while f"port {port}".encode() not in log.read_bytes():
                if process.poll() is not None:
                    sys.exit(log.read_text())
                time.sleep(0.1)
            print(f"start: {_seconds(process):.1f} s, {_mebibytes(process)} MiB\n")
            print("| answer | kB | first s | then s | MiB |\n|---|---:|---:|---:|---:|")
            _ask(process, folder, port)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(120)


def _ask(process: subprocess.Popen[bytes], folder: Path, port: int) -> None:
    verify = client_context(Identity.load(str(folder / "admin")))
    with httpx.Client(
        base_url=f"https://localhost:{port}", verify=verify, headers=OWN_HEADERS, timeout=300
    ) as http:
        for path in _PATHS:
            before = _seconds(process)
            http.get(path).raise_for_status()
            first = _seconds(process) - before
            before = _seconds(process)
            for _ in range(5):
                answer = http.get(path)
            each = (_seconds(process) - before) / 5
            size = len(answer.content) / 1000
            print(f"| `{path}` | {size:,.0f} | {first:.2f} | {each:.3f} | {_mebibytes(process)} |")


def _seconds(process: subprocess.Popen[bytes]) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _mebibytes(process: subprocess.Popen[bytes]) -> int:
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())
    return int(found[1]) >> 10 if found else 0


if __name__ == "__main__":
    main()
