"""What was asked for with a run: the column `request` of its record, JSON in the catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import msgspec

from strongroom.jobs.restore.options import Overwrite

if TYPE_CHECKING:
    from strongroom.daemons.director.catalog.runs import RunRecord


class RunRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Fields of all kinds of runs; what is not said has its default.

    Of a job: level, as it was planned, None if it was not; overrides, by their names; pools, that a
    backup has by the level that it gets in the end; deadline_bounds_end, whether the deadline is
    for its end, else for its beginning; companion_depth, how many runs started each other before.
    Of an estimate: listing. Of a restore: what a RestoreRequest says, with paths and target as the
    hexadecimal digits of their bytes. limit_set_bytes_per_second: by an operator, while it ran.
    """

    level: str | None = None
    overrides: dict[str, str | int] = {}
    pools: dict[str, str] = {}
    deadline_bounds_end: bool = False
    companion_depth: int = 0
    listing: bool = False
    snapshot: str = ""
    paths: tuple[str, ...] = ()
    subpath: str = ""
    target: str = ""
    in_place: bool = False
    overwrite: Overwrite = Overwrite.IF_CHANGED
    delete: bool = False
    dry_run: bool = False
    workers: int = 0
    where: tuple[tuple[str, ...], ...] = ()
    keeps_privileges: bool = False
    maximum_bytes_per_second: int = 0
    limit_set_bytes_per_second: int | None = None

    @classmethod
    def of(cls, record: RunRecord) -> Self:
        """That of a run."""
        return msgspec.convert(record.request, cls)

    def stored(self) -> dict[str, Any]:
        """As the record of a run has it."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found
