"""Looking into snapshots through the director: as rows and snapshots of the engine.

So the commands that inspect a repository show both in the same way. What the catalog does not know
of a snapshot, such as its paths, is not shown.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from strongroom.base.errors import PathNotFoundError, UsageError
from strongroom.base.printable import printable
from strongroom.cli.client.client import DirectorClient, named
from strongroom.cli.client.restore import chosen_snapshot
from strongroom.cli.client.view import ApiObject, moment_ns, path_for_api, plain_path
from strongroom.cli.snapshot_choice import shown_path, snapshot_filter, snapshot_object
from strongroom.cli.terminal import JsonObject, Terminal
from strongroom.engine.inspect.diff import Difference
from strongroom.engine.inspect.find import Criteria
from strongroom.engine.repository.snapshots import Snapshot, Totals, find_snapshot
from strongroom.engine.rows.rows import KINDS, STATE_NAMES, WHOLE, type_bits
from strongroom.engine.rows.views import RowView, split_path
from strongroom.engine.scan.attributes import encode_xattrs

# The most that one answer has.
_PAGE = 1000
_STATES = {name: state for state, name in STATE_NAMES.items()}
_DAMAGED_XATTRS = b"\xff"
# Of `snapshot_object`, what the catalog does not know.
_NOT_KNOWN = (
    "end_time", "parent", "paths", "directories", "others", "missing_paths", "protected",
    "engine_version",
)  # fmt: skip


class DirectorSnapshots:
    """The snapshots of a director that the options of a command select."""

    def __init__(
        self, arguments: argparse.Namespace, director: DirectorClient, terminal: Terminal
    ) -> None:
        """Raises UsageError for options that need the repository itself."""
        if arguments.path:
            raise UsageError("--path works without the director only: its catalog has no paths")
        self._arguments = arguments
        self._director = director
        self._terminal = terminal
        self.false: set[str] = set()

    def all(self) -> list[Snapshot]:
        """Those that the options select, the oldest first; false ones are in `false`, too."""
        host, job = self._arguments.host, self._arguments.job
        pages = self._director.pages("/snapshots", client=host, job=job, limit=_PAGE)
        found = snapshot_filter(self._arguments)(map(self._snapshot, pages))
        return sorted(found, key=lambda one: (one.start_ns, one.server_ns, one.id))

    def find(self, wanted: str) -> Snapshot:
        """The snapshot that `latest` or the beginning of an id selects."""
        host, job = self._arguments.host, self._arguments.job
        if wanted == "latest" and (self._arguments.tag or self._arguments.before is not None):
            return find_snapshot([one for one in self.all() if one.id not in self.false], wanted)
        return self._snapshot(chosen_snapshot(self._director, wanted, client=host, job=job))

    def entries(self, snapshot: Snapshot, folder: bytes) -> Iterator[RowView]:
        """The entries of a directory, or the one that is not a directory."""
        path = f"/snapshots/{snapshot.id}/files"
        found = self._director.pages(path, limit=_PAGE, **_query("path", folder))
        return map(_row, found)

    def below(self, snapshot: Snapshot, folder: bytes) -> Iterator[RowView]:
        """All entries below a directory, in the order of listings."""
        children = []
        for row in self.entries(snapshot, folder):
            yield row
            if row.mode & 0o170000 == type_bits("directory"):
                children.append(row.path)
        for child in children:
            yield from self.below(snapshot, child)

    def differences(self, older: Snapshot, newer: Snapshot, folder: bytes) -> Iterator[Difference]:
        """What differs below a directory."""
        path = f"/snapshots/{newer.id}/changes"
        pages = self._director.pages(path, since=older.id, limit=_PAGE, **_query("path", folder))
        for item in pages:
            before, after = (
                None if item[name] is None else _row(item[name]) for name in ("before", "after")
            )
            where = plain_path(item["path"]).strip(b"/")
            yield Difference(item["kind"], where, before, after, tuple(item["what"]))

    def matches(
        self, pattern: str, criteria: Criteria, only: Snapshot | None
    ) -> Iterator[tuple[str, RowView]]:
        """Entries whose name or path matches a glob, each after the id of its snapshot.

        The patterns of the criteria do not count.
        """
        kinds = [kind for kind, bits in KINDS.items() if bits in criteria.formats]
        found = self._director.get(
            "/files/search",
            name=pattern,
            client=self._arguments.host,
            job=self._arguments.job,
            snapshot=None if only is None else only.id,
            ignore_case=bool(criteria.globs_ignoring_case),
            kinds=",".join(kinds),
            smallest_bytes=criteria.smallest_bytes,
            largest_bytes=criteria.largest_bytes,
            earliest_ns=criteria.earliest_ns,
            latest_ns=criteria.latest_ns,
            limit=_PAGE,
            **_query("below", criteria.below),
        )
        for warning in found["warnings"]:
            self._terminal.warn(str(warning))
        if len(found["items"]) == _PAGE:
            self._terminal.warn(
                f"these are the first {_PAGE:,} of {printable(pattern)}, there may be more; narrow "
                "it by --in, --host, --job or --below"
            )
        for item in found["items"]:
            yield str(item["snapshot"]), _row(item)

    def object_of(self, snapshot: Snapshot) -> JsonObject:
        """The object for --json; what is not known is null."""
        found = snapshot_object(snapshot, is_false=snapshot.id in self.false)
        return {**found, **dict.fromkeys(_NOT_KNOWN)}

    def by_id(self, snapshot_id: str) -> Snapshot:
        """One snapshot by its whole id."""
        return self._snapshot(self._director.get(f"/snapshots/{named(snapshot_id)}"))

    def _snapshot(self, item: ApiObject) -> Snapshot:
        if item["false_reason"]:
            self.false.add(item["id"])
        return Snapshot(
            id=item["id"],
            host=item["client"],
            job=item["job"],
            fileset=item["fileset"],
            level=item["level"],
            original=item["original"],
            start_ns=moment_ns(item["time"] or item["server_time"]),
            server_ns=moment_ns(item["server_time"]),
            totals=Totals(
                files=item["files"],
                content_bytes=item["bytes"],
                stored_bytes=item["stored_bytes"],
            ),
            error_count=item["errors"],
            tags=tuple(item["tags"]),
        )


def require_entries(rows: Iterator[RowView], path: bytes) -> Iterator[RowView]:
    """The rows; PathNotFoundError where the director says that there is no such path."""
    try:
        yield from rows
    except PathNotFoundError:
        raise PathNotFoundError(f"the snapshot has no {printable(shown_path(path))}") from None


def _row(item: ApiObject) -> RowView:
    directory, name = split_path(plain_path(item["path"]).strip(b"/"))
    names = item["xattrs"]
    return RowView(
        directory,
        name,
        item["mode"] | type_bits(item["kind"]),
        item["uid"],
        item["gid"],
        item["size_bytes"],
        moment_ns(item["modified"]),
        moment_ns(item["changed"]),
        item["inode"],
        0,
        item["links"],
        item["rdev"],
        plain_path(item["target"]) if item["target"] else b"",
        _DAMAGED_XATTRS
        if names is None
        else encode_xattrs((plain_path(one), b"") for one in names),
        item["flags"],
        _STATES.get(item["state"], WHOLE),
        None,
        (),
        bytes.fromhex(item["signature"]),
    )


def _query(name: str, folder: bytes) -> dict[str, str]:
    path = path_for_api(shown_path(folder))
    return {name: path} if isinstance(path, str) else {f"{name}_base64": path["base64"]}
