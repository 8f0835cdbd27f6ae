"""Single facts in the catalog: last due times of schedules, and state that survives restarts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from sqlalchemy import Connection, delete, insert, select, tuple_

from strongroom.director.catalog.database import Catalog
from strongroom.director.catalog.tables import SCHEDULE_STATE, STATE

# Databases limit the parameters of a statement.
_BATCH_ROWS: Final = 400


def last_due(catalog: Catalog) -> dict[tuple[str, str], int]:
    """(Job, digest of the Run) -> up to when its due times were processed."""
    rows = catalog.rows(select(SCHEDULE_STATE))
    return {(row.job, row.entry): row.last_due_ns for row in rows}


def note_due(catalog: Catalog, due: Mapping[tuple[str, str], int]) -> None:
    """Store up to when due times were processed."""
    if not due:
        return
    rows = [
        {"job": job, "entry": entry, "last_due_ns": time_ns}
        for (job, entry), time_ns in due.items()
    ]
    columns = tuple_(SCHEDULE_STATE.c.job, SCHEDULE_STATE.c.entry)
    with catalog.writing() as connection:
        connection.execute(delete(SCHEDULE_STATE).where(columns.in_(list(due))))
        connection.execute(insert(SCHEDULE_STATE), rows)


def keep_due(catalog: Catalog, kept: Collection[tuple[str, str]]) -> None:
    """Remove the due times of all but these: what is enabled again counts from then."""
    with catalog.writing() as connection:
        known = connection.execute(select(SCHEDULE_STATE.c.job, SCHEDULE_STATE.c.entry)).all()
        columns = tuple_(SCHEDULE_STATE.c.job, SCHEDULE_STATE.c.entry)
        gone = [(job, entry) for job, entry in known if (job, entry) not in kept]
        for first in range(0, len(gone), _BATCH_ROWS):
            batch = gone[first : first + _BATCH_ROWS]
            connection.execute(delete(SCHEDULE_STATE).where(columns.in_(batch)))


def read_state(catalog: Catalog, name: str) -> Any:
    """A fact, or None."""
    with catalog.reading() as connection:
        return connection.execute(
            select(STATE.c.value).where(STATE.c.name == name)
        ).scalar_one_or_none()


def write_state(catalog: Catalog, name: str, value: Any) -> None:
    """Store a fact; any JSON value."""
    with catalog.writing() as connection:
        set_state(connection, name, value)


def set_state(connection: Connection, name: str, value: Any) -> None:
    """The same within a transaction."""
    connection.execute(delete(STATE).where(STATE.c.name == name))
    connection.execute(insert(STATE), [{"name": name, "value": value}])
