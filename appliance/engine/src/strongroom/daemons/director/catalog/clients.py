"""Agents in the catalog: who they are and when they were seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import func, insert, select, update

from strongroom.daemons.director.catalog.tables import CLIENTS, SNAPSHOTS

if TYPE_CHECKING:
    from strongroom.daemons.director.catalog.database import Catalog


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


def change_client(catalog: Catalog, name: str, **changes: Any) -> None:
    """Set columns of a client, which is added if it is new."""
    if "features" in changes:
        changes["features"] = list(changes["features"])
    with catalog.writing() as connection:
        known = CLIENTS.c.name == name
        if connection.execute(select(CLIENTS.c.name).where(known)).one_or_none() is None:
            connection.execute(insert(CLIENTS), [{"name": name, "features": [], **changes}])
        elif changes:
            connection.execute(update(CLIENTS).where(known).values(**changes))


def generation_of(catalog: Catalog, name: str) -> int:
    """The generation of a client, 0 for an unknown one."""
    with catalog.reading() as connection:
        found = connection.execute(select(CLIENTS.c.generation).where(CLIENTS.c.name == name))
        return found.scalar_one_or_none() or 0


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
    with catalog.writing() as connection:
        raised = {CLIENTS.c.generation: CLIENTS.c.generation + 1}
        connection.execute(update(CLIENTS).where(CLIENTS.c.name == name).values(raised))


def note_generation(catalog: Catalog, name: str, generation: int) -> None:
    """Raise the generation of a client to one that its snapshots have: the catalog was lost."""
    if generation > generation_of(catalog, name):
        change_client(catalog, name, generation=generation)


def load_clients(catalog: Catalog) -> dict[str, ClientRecord]:
    """Every client that was ever seen or enrolled, by name."""
    with catalog.reading() as connection:
        rows = [dict(row._mapping) for row in connection.execute(select(CLIENTS))]  # noqa: SLF001
    return {
        row["name"]: ClientRecord(**{**row, "features": tuple(row["features"])}) for row in rows
    }
