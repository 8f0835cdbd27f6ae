"""Findings of a check: what is damaged, and which snapshots and files suffer from it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from strongroom.base.printable import printable
from strongroom.engine.check.pages import BadRow
from strongroom.engine.repository.snapshots import PageReference
from strongroom.engine.rows.views import join_path

# Advice to run check makes no sense in a finding of check.
_ADVICE: Final = re.compile(r"[;:,] run (strongroom )?(check|repair)( to [a-z ]+)?")
# Paths kept for each finding; more are only counted.
PATHS_KEPT: Final = 1000


class Finding(msgspec.Struct, frozen=True):
    """One damaged object.

    kind, name: of the object. snapshots: ids of those that suffer. paths: of files whose content is
    lost (the first PATHS_KEPT, sorted), path_count: of all of them.
    """

    kind: str
    name: str
    problem: str
    snapshots: tuple[str, ...]
    paths: tuple[bytes, ...]
    path_count: int


class _Open(msgspec.Struct):
    """A finding that is still being collected."""

    problems: dict[str, None] = {}
    snapshots: set[str] = set()
    paths: set[bytes] = set()


class Findings:
    """Collects findings, one for each object."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], _Open] = {}
        self._packs_of_block: dict[bytes, list[str]] = {}
        self._missing: set[str] = set()

    def add(self, kind: str, name: str, problem: str, snapshots: Iterable[str] = ()) -> None:
        """Something is wrong with an object."""
        found = self._found.setdefault((kind, name), _Open())
        found.problems[_ADVICE.sub("", problem)] = None
        found.snapshots.update(snapshots)

    def add_marked_and_missing(self, pack: str) -> None:
        """A marked pack is missing, which is damage only where a file has lost content to it."""
        self._missing.add(pack)

    def blame(self, block_id: bytes, pack: str) -> None:
        """A copy of a block is bad, and this pack has it."""
        self._packs_of_block.setdefault(block_id, []).append(pack)

    def add_page(
        self, snapshot_id: str, page: PageReference, after: PageReference | None, problem: str
    ) -> None:
        """A page of a snapshot can't be read: even the names of its rows are lost.

        after: the page that follows it there.
        """
        first = join_path(page.first_directory, page.first_name)
        text = f"{page.row_count} files from {_shown(first)}"
        if after is not None:
            text += f" to just before {_shown(join_path(after.first_directory, after.first_name))}"
        self.add("snapshots", snapshot_id, f"{text}: {problem}", [snapshot_id])

    def add_row(self, row: BadRow, snapshots: list[str]) -> None:
        """The content of a file is lost; it counts for each pack that had some of it."""
        packs = {pack for block in row.blocks for pack in self._packs_of_block.get(block, ())}
        if packs:
            for pack in packs:
                found = self._found.setdefault(("packs", pack), _Open())
                if pack in self._missing:
                    found.problems["it is missing"] = None
                found.snapshots.update(snapshots)
                found.paths.add(row.path)
            return
        for snapshot_id in snapshots:
            self.add("snapshots", snapshot_id, row.problem, [snapshot_id])
            self._found["snapshots", snapshot_id].paths.add(row.path)

    def report(self) -> tuple[Finding, ...]:
        """Everything found, sorted by kind and name."""
        return tuple(
            Finding(
                kind,
                name,
                "; ".join(found.problems),
                tuple(sorted(found.snapshots)),
                tuple(sorted(found.paths)[:PATHS_KEPT]),
                len(found.paths),
            )
            for (kind, name), found in sorted(self._found.items())
        )


def _shown(path: bytes) -> str:
    return "/" + printable(path)
