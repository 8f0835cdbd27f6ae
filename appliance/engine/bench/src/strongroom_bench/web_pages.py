"""How long the views of the director's web page take at the server, with a large catalog.

    python -m strongroom_bench.web_pages [--clients 1000] [--runs 100000] [--files 30000]

A director runs as a process, with a catalog of so many clients and runs, and a storage daemon with
two snapshots of a tree of so many files, which belong to the client web1. Each view is asked for
over one connection, by somebody who sees everything and by somebody who sees ten clients; printed
are the median and the longest of so many answers, and the director's CPU time for one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import httpx
from sqlalchemy import insert

from strongroom.base import clock
from strongroom.cli.measure.testbed.daemons import Daemon
from strongroom.cli.measure.testbed.vault import Vault
from strongroom.director.catalog.database import Catalog, open_catalog
from strongroom.director.catalog.tables import RUN_LOG, RUNS, SNAPSHOTS
from strongroom.net.channels.tls_contexts import client_context
from strongroom_bench.network.appliance import Appliance

_DAY_NS: Final = 86400 * clock.SECOND_NS
_SNAPSHOTS_EACH: Final = 30
_LINES: Final = 500
_AT_ONCE: Final = 5000
_FILES_EACH: Final = 3000
# What it is to take at most.
WANTED_MS: Final = 300.0
_MORE: Final = """
Schedule { Name = nights
  Run = daily at 23:10
  Run = Full 1st sun at 22:10
}
Console { Name = few; Password = x; Command ACL = *all*; Client ACL = "c000[1-9]|web1"
  Job ACL = "c000[1-9]|web1"; FileSet ACL = *all*; Pool ACL = *all*; Storage ACL = *all*
  Schedule ACL = *all*; Where ACL = *all* }
"""
_VIEWS: Final = {
    "overview": "/",
    "clients": "/clients",
    "clients, the last page": "/clients?after=900",
    "client": "/client?name=c0007",
    "runs": "/runs",
    "runs, page 21": "/runs?after=1000",
    "runs of a client": "/runs?client=c0007",
    "runs of a job": "/runs?job=c0007",
    "runs that failed": "/runs?state=failed",
    "runs that run": "/runs?state=running",
    "run": "/runs/{run}",
    "schedule": "/schedule?day=2",
    "snapshots": "/snapshots",
    "snapshots of a client": "/snapshots?client=c0007",
    "a folder of a snapshot": "/snapshots/{newer}?path={tree}",
    "a folder of 3000 files": "/snapshots/{newer}?path={tree}/00",
    "search of a client": "/search?name=*1234*&client=web1",
    "search of a name": "/search?name=none-has-this-name&client=web1",
    "compare two": "/compare?before={older}&after={newer}",
    "restore, preview": "/restore?snapshot={newer}&path={tree}/00&way=content&target=/srv/restore",
    "notices": "/notices",
    "configuration": "/configuration",
    "resource": "/resource?kind=Job&name=c0007",
    "audit": "/audit",
}


def main() -> int:
    """Measure and print; the exit status."""
    parser = argparse.ArgumentParser(description="Time the views of the web page.")
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--files", type=int, default=30_000)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    names = [f"c{number:04}" for number in range(options.clients)]
    with tempfile.TemporaryDirectory() as parent:
        folder, tree = Path(parent) / "site", Path(parent) / "tree"
        made: list[str] = []
        sources = {**dict.fromkeys(names, Path("/srv")), "web1": tree}
        appliance = Appliance(
            folder,
            sources,
            at_once=10,
            more=_MORE,
            schedule="nights",
            before=lambda vault: made.extend(_back_up(vault, tree, options.files)),
        )
        catalog = open_catalog(f"sqlite:///{folder}/work/main.sqlite")
        run = _fill_runs(catalog, names, options.runs)
        few = appliance.authority.issue_identity(str(folder / "few"), "few", "operator")
        with appliance:
            time.sleep(70)  # the first look of the notices, and at the repository
            _fill_snapshots(catalog, names, made)
            catalog.close()
            older, newer = made
            reader = httpx.Client(verify=client_context(few), timeout=60.0)
            for title, client in (("everything", appliance.api), ("ten clients", reader)):
                _say(f"\nby somebody who sees {title}")
                base = f"https://localhost:{appliance.port}"
                for view, target in _VIEWS.items():
                    url = base + target.format(run=run, newer=newer, older=older, tree=tree)
                    _measure(appliance.director, client, view, url, options.repeats)
            kept = appliance.all_of("/snapshots")
            if len(kept) != _SNAPSHOTS_EACH * options.clients + 2:
                raise SystemExit(f"the catalog was changed: it has {len(kept)} snapshots")
    return 0


def _back_up(vault: Vault, tree: Path, files: int) -> tuple[str, str]:
    """Two snapshots of a tree of so many small files, a hundredth of which changes; their ids."""
    folders = max(1, files // _FILES_EACH)
    for number in range(files):
        path = tree / f"{number % folders:02}" / f"file-{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"%d" % number)
    older = _back_up_once(vault, tree)
    for number in range(0, files, 100):
        path = tree / f"{number % folders:02}" / f"file-{number}"
        path.write_bytes(b"changed %d" % number)
    return older, _back_up_once(vault, tree)


def _back_up_once(vault: Vault, tree: Path) -> str:
    """The id of the snapshot."""
    done = subprocess.run(
        vault.backup("tls", str(tree)), env=vault.environment, stdout=subprocess.PIPE, check=True
    )
    return str(json.loads(done.stdout.splitlines()[-1])["snapshot"])


def _measure(director: Daemon, client: httpx.Client, view: str, url: str, repeats: int) -> None:
    took_ms = []
    before = director.usage().cpu_seconds
    for _ in range(repeats):
        begin = time.perf_counter()
        answer = client.get(url)
        took_ms.append(1000 * (time.perf_counter() - begin))
        if answer.status_code not in (200, 403):
            raise SystemExit(f"{url}: {answer.status_code} {answer.text[:500]}")
    cpu_ms = 1000 * (director.usage().cpu_seconds - before) / repeats
    median = statistics.median(took_ms)
    remark = "" if max(took_ms) <= WANTED_MS else f"  more than {WANTED_MS:.0f} ms"
    code = "" if answer.status_code == 200 else "  (denied)"
    _say(
        f"{view:26} median {median:6.0f} ms  longest {max(took_ms):6.0f} ms  CPU {cpu_ms:5.0f} ms"
        f"  {len(answer.content) >> 10:4} KiB{code}{remark}"
    )


def _fill_runs(catalog: Catalog, names: list[str], runs: int) -> str:
    """Make runs; returns the id of one with a log."""
    now_ns = clock.now_ns()
    with catalog.writing() as connection:
        rows: list[dict[str, Any]] = []
        for row in _runs(names, runs, now_ns):
            rows.append(row)
            if len(rows) == _AT_ONCE:
                connection.execute(insert(RUNS), rows)
                rows = []
        if rows:
            connection.execute(insert(RUNS), rows)
        run = f"{7:032x}"
        lines = [
            {
                "run_id": run,
                "sequence": number,
                "time_ns": now_ns,
                "level": "info",
                "text": "x" * 80,
            }
            for number in range(1, _LINES + 1)
        ]
        connection.execute(insert(RUN_LOG), lines)
    return run


def _fill_snapshots(catalog: Catalog, names: list[str], made: list[str]) -> None:
    """Those of web1 are there; the repository has none of the others."""
    now_ns = clock.now_ns()
    with catalog.writing() as connection:
        for name in names:
            connection.execute(insert(SNAPSHOTS), list(_snapshots(name, now_ns)))
        rows = [
            {**row, "id": snapshot}
            for snapshot, row in zip(reversed(made), _snapshots("web1", now_ns), strict=False)
        ]
        connection.execute(insert(SNAPSHOTS), rows)


def _runs(names: list[str], count: int, now_ns: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        name = names[number % len(names)]
        begun_ns = now_ns - (number // len(names)) * _DAY_NS - (number % len(names)) * 10**9
        state = "failed" if number % 33 == 0 else "done"
        yield {
            "id": f"{number:032x}",
            "job": name,
            "client": name,
            "fileset": name,
            "storage": "vault",
            "pool": "pool",
            "level": "incremental",
            "kind": "backup",
            "state": state,
            "scheduled_ns": begun_ns,
            "queued_ns": begun_ns,
            "started_ns": begun_ns,
            "ended_ns": begun_ns + 600 * clock.SECOND_NS,
            "files": 100_000,
            "bytes": 1 << 33,
            "stored_bytes": 1 << 26,
            "attempt": 1,
            "error": "the connection was lost" if state == "failed" else "",
            "error_id": "connection" if state == "failed" else "",
            "requested_by": "schedule nights",
            "request": {"level": "incremental", "overrides": {}},
            "summary": {"files": 100_000, "phases": {"scan": 12.5, "read": 40.25, "store": 30.0}},
            "security": {"mode": "ktls", "cipher": "TLS_AES_256_GCM_SHA384"},
        }


def _snapshots(name: str, now_ns: int) -> Iterator[dict[str, Any]]:
    for number in range(_SNAPSHOTS_EACH):
        begun_ns = now_ns - number * _DAY_NS
        yield {
            "id": blake2b(f"{name} {number}".encode(), digest_size=32).hexdigest(),
            "client": name,
            "job": name,
            "fileset": name,
            "storage": "vault",
            "pool": "pool",
            "level": "incremental",
            "start_ns": begun_ns,
            "server_ns": begun_ns,
            "files": 100_000,
            "bytes": 1 << 33,
            "stored_bytes": 1 << 26,
            "tags": [],
        }


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
