"""The names of clients and jobs that there are runs or snapshots of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from sqlalchemy import func, select

from strongroom.daemons.director.catalog.tables import RUNS, SNAPSHOTS

if TYPE_CHECKING:
    from strongroom.daemons.director.catalog.database import Catalog

RecordedKind = Literal["client", "job"]


def names_of_runs(catalog: Catalog, kind: RecordedKind) -> list[str]:
    """All of them; "" where a run is of none.

    There are many runs of each, so one name after the other is looked up in the index.
    """
    column = RUNS.c[kind]
    names = select(func.min(column).label("name")).cte("names", recursive=True)
    following = select(func.min(column)).where(column > names.c.name).scalar_subquery()
    names = names.union_all(select(following).where(names.c.name.is_not(None)))
    with catalog.reading() as connection:
        query = select(names.c.name).where(names.c.name.is_not(None))
        return list(connection.execute(query).scalars())


def names_of_snapshots(catalog: Catalog, kind: RecordedKind) -> list[str]:
    """All of them; "" where a snapshot is of none."""
    with catalog.reading() as connection:
        return list(connection.execute(select(SNAPSHOTS.c[kind]).distinct()).scalars())
