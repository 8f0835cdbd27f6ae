"""The names of clients and jobs that there are runs or snapshots of, the configured and the gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from sqlalchemy import select, union

from strongroom.daemons.director.catalog.tables import RUNS, SNAPSHOTS

if TYPE_CHECKING:
    from strongroom.daemons.director.catalog.database import Catalog

RecordedKind = Literal["client", "job"]


def recorded_names(catalog: Catalog, kind: RecordedKind) -> list[str]:
    """All of them, read from indexes; "" where something is of none."""
    query = union(select(RUNS.c[kind]).distinct(), select(SNAPSHOTS.c[kind]).distinct())
    with catalog.reading() as connection:
        return sorted(connection.execute(query).scalars())
