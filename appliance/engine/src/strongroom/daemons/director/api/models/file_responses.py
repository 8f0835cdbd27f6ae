"""What the API answers about files in snapshots, as OpenAPI shows it; see `answers`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongroom.daemons.director.api.models.formats import PathText, moment, path_text
from strongroom.daemons.director.api.models.responses import Answer, Page

if TYPE_CHECKING:
    from strongroom.daemons.director import results


class File(Answer):
    """An entry of a snapshot. `kind`: file, directory, symlink and so on; `target`: of a link."""

    snapshot: str
    path: PathText
    kind: str
    mode: int
    uid: int
    gid: int
    size_bytes: int
    modified: str
    target: PathText | None
    state: str

    @classmethod
    def of(cls, entry: results.FileEntry) -> File:
        """An entry of the director."""
        return cls(
            snapshot=entry.snapshot,
            path=path_text(b"/" + entry.path.lstrip(b"/")),
            kind=entry.kind,
            mode=entry.mode,
            uid=entry.uid,
            gid=entry.gid,
            size_bytes=entry.size_bytes,
            modified=moment(entry.modified_ns) or "1970-01-01T00:00:00.000000000Z",
            target=path_text(entry.target) if entry.target else None,
            state=entry.state,
        )


class FilesFound(Page[File]):
    """What a search found; `warnings` say which snapshots it had to leave out, and why."""

    warnings: list[str]
