"""What waits in the catalog to be sent to people, and what could not be sent.

A message is stored together with what it is about, and removed when it was sent. So none is lost by
a restart; one whose answer was lost is sent again, with the same id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from sqlalchemy import delete, func, insert, select, update

from strongroom.daemons.director.catalog.state import set_state
from strongroom.daemons.director.catalog.storable_text import plain
from strongroom.daemons.director.catalog.tables import OUTBOX

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection

    from strongroom.daemons.director.catalog.database import Catalog

# How many messages may wait for one destination; beyond that the oldest are given up.
MOST_WAITING: Final = 500
# How many of those that were given up are kept, in all.
MOST_DEAD: Final = 500
_LONGEST_ERROR: Final = 500


class OutgoingMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message for one destination. form: notice, report, digest or ping.

    expires_ns: when it is of no use any more, 0 for never. failed_ns: when it was given up, else 0.
    """

    id: str
    destination: str
    form: str
    subject: str
    created_ns: int
    not_before_ns: int = 0
    expires_ns: int = 0
    failed_ns: int = 0
    attempts: int = 0
    error: str = ""
    content: dict[str, Any] = {}


def post(
    catalog: Catalog, messages: Sequence[OutgoingMessage], noted: tuple[str, Any] | None = None
) -> None:
    """Store messages; those whose id is there already stay as they are.

    noted: name and value of a state that is stored with them.
    """
    if not messages and noted is None:
        return
    with catalog.writing() as connection:
        if messages:
            insert_messages(connection, messages)
        if noted is not None:
            set_state(connection, *noted)


def insert_messages(connection: Connection, messages: Sequence[OutgoingMessage]) -> None:
    """The same within a transaction."""
    ids = [one.id for one in messages]
    known = set(connection.execute(select(OUTBOX.c.id).where(OUTBOX.c.id.in_(ids))).scalars())
    rows = [_row(one) for one in messages if one.id not in known]
    if not rows:
        return
    connection.execute(insert(OUTBOX), rows)
    for destination in {one.destination for one in messages}:
        _bound(connection, destination, max(one.created_ns for one in messages))


def waiting(catalog: Catalog) -> dict[str, list[OutgoingMessage]]:
    """Destination -> what waits for it, the oldest first."""
    query = select(OUTBOX).where(OUTBOX.c.failed_ns == 0)
    found: dict[str, list[OutgoingMessage]] = {}
    with catalog.reading() as connection:
        for row in connection.execute(query.order_by(OUTBOX.c.created_ns, OUTBOX.c.id)):
            found.setdefault(row.destination, []).append(_message(row))
    return found


def waiting_counts(catalog: Catalog) -> dict[str, int]:
    """Destination -> how many messages wait for it."""
    query = select(OUTBOX.c.destination, func.count()).where(OUTBOX.c.failed_ns == 0)
    with catalog.reading() as connection:
        rows = connection.execute(query.group_by(OUTBOX.c.destination))
        return {row[0]: row[1] for row in rows}


def dead_letters(catalog: Catalog) -> list[OutgoingMessage]:
    """What was given up, the newest first."""
    query = select(OUTBOX).where(OUTBOX.c.failed_ns != 0).order_by(OUTBOX.c.failed_ns.desc())
    with catalog.reading() as connection:
        return [_message(row) for row in connection.execute(query)]


def note_sent(catalog: Catalog, ids: Iterable[str]) -> None:
    """These were sent, or are of no use any more."""
    with catalog.writing() as connection:
        connection.execute(delete(OUTBOX).where(OUTBOX.c.id.in_(list(ids))))


def note_failure(
    catalog: Catalog, ids: Iterable[str], error: str, not_before_ns: int, failed_ns: int
) -> None:
    """These could not be sent: they are tried again, or given up where failed_ns is not 0."""
    changes = {"error": plain(error)[:_LONGEST_ERROR], "not_before_ns": not_before_ns}
    with catalog.writing() as connection:
        connection.execute(
            update(OUTBOX)
            .where(OUTBOX.c.id.in_(list(ids)))
            .values(**changes, failed_ns=failed_ns, attempts=OUTBOX.c.attempts + 1)
        )
        if failed_ns:
            _bound_dead(connection)


def retry_dead(catalog: Catalog) -> int:
    """Try everything that was given up once more; returns how many."""
    dead = update(OUTBOX).where(OUTBOX.c.failed_ns != 0)
    with catalog.writing() as connection:
        return connection.execute(dead.values(failed_ns=0, not_before_ns=0, attempts=0)).rowcount


def drop_dead(catalog: Catalog, before_ns: int) -> int:
    """Remove what was given up before then; returns how many."""
    dead = delete(OUTBOX).where(OUTBOX.c.failed_ns != 0, OUTBOX.c.failed_ns < before_ns)
    with catalog.writing() as connection:
        return connection.execute(dead).rowcount


def _bound(connection: Connection, destination: str, now_ns: int) -> None:
    mine = (OUTBOX.c.destination == destination, OUTBOX.c.failed_ns == 0)
    newest = select(OUTBOX.c.id).where(*mine).order_by(OUTBOX.c.created_ns.desc(), OUTBOX.c.id)
    old = list(connection.execute(newest.offset(MOST_WAITING)).scalars())
    if old:
        given_up = {"failed_ns": now_ns, "error": f"more than {MOST_WAITING} messages waited"}
        connection.execute(update(OUTBOX).where(OUTBOX.c.id.in_(old)).values(**given_up))
        _bound_dead(connection)


def _bound_dead(connection: Connection) -> None:
    dead = select(OUTBOX.c.id).where(OUTBOX.c.failed_ns != 0)
    old = dead.order_by(OUTBOX.c.failed_ns.desc(), OUTBOX.c.id).offset(MOST_DEAD)
    many = list(connection.execute(old).scalars())
    if many:
        connection.execute(delete(OUTBOX).where(OUTBOX.c.id.in_(many)))


def _row(message: OutgoingMessage) -> dict[str, Any]:
    row = msgspec.structs.asdict(message)
    return {**row, "subject": plain(message.subject)}


def _message(row: Any) -> OutgoingMessage:
    return OutgoingMessage(**row._mapping)  # noqa: SLF001 - SQLAlchemy's API for columns of a row
