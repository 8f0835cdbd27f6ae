"""Data of the browser: snapshots of a director and their entries. Calls block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from strongroom.cli.client.client import PAGE_SIZE, DirectorClient, named
from strongroom.cli.client.run_watch import run_events
from strongroom.cli.client.view import ApiObject, moment_ns, path_for_api, plain_path
from strongroom.engine.rows.rows import type_bits

MOST_SNAPSHOTS = 2000
MOST_FOUND = 1000


@dataclass(frozen=True, slots=True)
class ShownSnapshot:
    """A snapshot in the list."""

    id: str
    client: str
    job: str
    fileset: str
    level: str
    time_ns: int
    files: int
    size_bytes: int
    errors: int
    is_false: bool
    storage: str
    is_copy: bool

    @property
    def series(self) -> tuple[str, str, str]:
        """What identifies the series of snapshots that it belongs to."""
        return self.client, self.job, self.fileset


@dataclass(frozen=True, slots=True)
class ShownFile:
    """An entry of a directory; `path` is absolute, `mode` has the bits of the type as well.

    state: `unreadable`, `changed` or "".
    """

    path: bytes
    kind: str
    mode: int
    size_bytes: int
    modified_ns: int
    target: bytes
    state: str = ""

    @property
    def name(self) -> bytes:
        """The last part of its path."""
        return self.path.rpartition(b"/")[2]

    @property
    def is_directory(self) -> bool:
        """Whether it is a directory that can be opened."""
        return self.kind == "directory"


class SnapshotPosition:
    """The snapshots of a director, only those of a client and a job where these are named."""

    def __init__(self, director: DirectorClient, client: str = "", job: str = "") -> None:
        self._director = director
        self.client = client
        self.job = job

    def snapshots(self) -> list[ShownSnapshot]:
        """The newest snapshots first, at most MOST_SNAPSHOTS."""
        pages = self._director.pages(
            "/snapshots", client=self.client, job=self.job, limit=min(1000, MOST_SNAPSHOTS)
        )
        return [_snapshot(one) for one in islice(pages, MOST_SNAPSHOTS)]

    def snapshot(self, beginning: str) -> ShownSnapshot:
        """The snapshot whose id has this beginning."""
        return _snapshot(self._director.get(f"/snapshots/{named(beginning)}"))

    def files(self, snapshot: ShownSnapshot, folder: bytes) -> Iterator[ShownFile]:
        """The entries right in a directory, in the listing's order."""
        pages = self._director.pages(f"/snapshots/{snapshot.id}/files", **_query(folder))
        return (_file(one) for one in pages)

    def find(
        self, snapshot: ShownSnapshot, pattern: str
    ) -> tuple[list[tuple[str, ShownFile]], list[str]]:
        """Entries by name in all snapshots of the same series: (id of the snapshot, entry).

        And what could not be searched, one line each.
        """
        client, job, fileset = snapshot.series
        found = self._director.get(
            "/files/search",
            name=pattern,
            client=client,
            job=job,
            fileset=fileset,
            ignore_case=True,
            limit=MOST_FOUND,
        )
        entries = [(str(one["snapshot"]), _file(one)) for one in found["items"]]
        return entries, [str(line) for line in found["warnings"]]

    def clients(self) -> list[str]:
        """Names of the clients that files may go to."""
        return [str(one["name"]) for one in self._director.pages("/clients", limit=PAGE_SIZE)]

    def restore(self, snapshot: ShownSnapshot, paths: list[bytes], how: ApiObject) -> str:
        """Queue a restore; gives the run's id. `how`: further fields of the API's request."""
        body = {"snapshot": snapshot.id, "paths": [path_for_api(path) for path in paths], **how}
        return str(self._director.post("/restores", body)["id"])

    def events(self, run_id: str) -> Iterator[ApiObject]:
        """The events of a run, until its end."""
        return run_events(self._director, run_id)

    def cancel(self, run_id: str) -> None:
        """End a run."""
        self._director.post(f"/runs/{named(run_id)}/cancel")


def _snapshot(item: ApiObject) -> ShownSnapshot:
    return ShownSnapshot(
        id=item["id"],
        client=item["client"],
        job=item["job"],
        fileset=item["fileset"],
        level=item["level"],
        time_ns=moment_ns(item["time"] or item["server_time"]),
        files=item["files"],
        size_bytes=item["bytes"],
        errors=item["errors"],
        is_false=bool(item["false_reason"]),
        storage=item["storage"],
        is_copy=bool(item["original"]),
    )


def _file(item: ApiObject) -> ShownFile:
    return ShownFile(
        path=b"/" + plain_path(item["path"]).lstrip(b"/"),
        kind=item["kind"],
        mode=item["mode"] | type_bits(item["kind"]),
        size_bytes=item["size_bytes"],
        modified_ns=moment_ns(item["modified"]),
        target=plain_path(item["target"]) if item["target"] else b"",
        state=item.get("state", ""),
    )


def _query(folder: bytes) -> dict[str, str]:
    path = path_for_api(folder)
    return {"path": path} if isinstance(path, str) else {"path_base64": path["base64"]}
