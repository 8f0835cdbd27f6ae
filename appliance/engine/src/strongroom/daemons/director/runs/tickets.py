"""Restore tickets stored for runs, and their removal after the runs have ended.

They are tracked in memory only: tickets left behind by a crash expire, and are removed with the
next ticket or by prune (strongroom.repo.ticket_objects).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strongroom.daemons.director.context import DirectorContext


@dataclass(frozen=True, slots=True)
class StoredTicket:
    """The ticket of a run: the Storage of its repository, and the name of the object."""

    storage: str
    name: str


def remove_ticket(context: DirectorContext, ticket: StoredTicket) -> None:
    """Remove a ticket. Blocks. Raises what reaching a repository raises."""
    store = context.repositories.open_store(ticket.storage)
    try:
        store.delete("tickets", ticket.name)
    finally:
        store.close()
