"""Agents in the catalog, when they were seen, and the names that runs and snapshots have."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

import msgspec
from sqlalchemy import func, insert, select, update

from strongroom.director.catalog.database import Catalog, Changed, note_stale
from strongroom.director.catalog.runs import among
from strongroom.director.catalog.tables import CLIENTS, RUNS, SNAPSHOTS

RecordedKind = Literal["client", "job"]


class ClientRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An agent; see Client. clock_ahead_ns: at its last Hello.

    generation: how often the name became a new client, with other keys; see enrolled_client.
    """

    name: str
    address: str = ""
    certificate_serial: str = ""
    enrolled_ns: int = 0
    generation: int = 0
    last_seen_ns: int = 0
    clock_ahead_ns: int = 0
    version: str = ""
    platform: str = ""
    features: tuple[str, ...] = ()


def change_client(catalog: Catalog, /, name: str, **changes: Any) -> None:
    """Set columns of a client, which is added if it is new."""
    if "features" in changes:
        changes["features"] = list(changes["features"])
    with catalog.writing() as connection:
        known = CLIENTS.c.name == name
        is_new = connection.execute(select(CLIENTS.c.name).where(known)).one_or_none() is None
        if is_new or "clock_ahead_ns" in changes:
            note_stale(connection, Changed(client=name))
        if is_new:
            connection.execute(insert(CLIENTS), [{"name": name, "features": [], **changes}])
        elif changes:
            connection.execute(update(CLIENTS).where(known).values(**changes))


def generation_of(catalog: Catalog, name: str) -> int:
    """The generation of a client, 0 for an unknown one."""
    found = catalog.rows(select(CLIENTS.c.generation).where(CLIENTS.c.name == name))
    return next((row.generation for row in found), 0)


def is_known(catalog: Catalog, name: str) -> bool:
    """Whether a client of this name was ever enrolled or backed up, in whichever case."""
    folded = name.lower()
    enrolled = select(CLIENTS.c.name).where(
        func.lower(CLIENTS.c.name) == folded, CLIENTS.c.enrolled_ns > 0
    )
    backed_up = select(SNAPSHOTS.c.client).where(func.lower(SNAPSHOTS.c.client) == folded)
    with catalog.reading() as connection:
        return any(connection.execute(one.limit(1)).first() for one in (enrolled, backed_up))


def next_generation(catalog: Catalog, name: str) -> None:
    """Make a name another client from now on."""
    change_client(catalog, name)
    raised = {CLIENTS.c.generation: CLIENTS.c.generation + 1}
    catalog.change(update(CLIENTS).where(CLIENTS.c.name == name).values(raised))


def note_generation(catalog: Catalog, name: str, generation: int) -> None:
    """Raise the generation of a client to one that its snapshots have: the catalog was lost."""
    if generation > generation_of(catalog, name):
        change_client(catalog, name, generation=generation)


def load_clients(catalog: Catalog, names: Collection[str] | None = None) -> dict[str, ClientRecord]:
    """Every client that was ever seen or enrolled, by name; some only."""
    query = select(CLIENTS).where(*among(CLIENTS.c.name, names))
    rows = [dict(row._mapping) for row in catalog.rows(query)]  # noqa: SLF001
    return {
        row["name"]: ClientRecord(**{**row, "features": tuple(row["features"])}) for row in rows
    }


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
