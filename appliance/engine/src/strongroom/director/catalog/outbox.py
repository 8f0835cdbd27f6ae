"""What waits in the catalog to be sent to people, and what could not be sent.

A message is stored together with what it is about, and removed when it was sent. So none is lost by
a restart; one whose answer was lost is sent again, with the same id.

Since when a destination fails is its own fact: it outlives the messages, which may be given up
or expire, and ends with the first message that the destination accepts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from sqlalchemy import Connection, delete, func, insert, select, update

from strongroom.base import clock
from strongroom.director.catalog.database import Catalog
from strongroom.director.catalog.state import set_state
from strongroom.director.catalog.storable import plain
from strongroom.director.catalog.tables import OUTBOX, STATE

# How many messages may wait for one destination; beyond that the oldest are given up.
MOST_WAITING: Final = 500
# How many of those that were given up are kept, in all.
MOST_DEAD: Final = 500
_LONGEST_ERROR: Final = 500
# Before the destination, in the table of states.
_FAILING: Final = "failing destination "


class OutgoingMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message for one destination. form: notice, report, digest or ping.

    expires_ns: when it is useless any more, 0 for never. failed_ns: when it was given up, else 0.
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


class Failing(NamedTuple):
    """A destination that accepts nothing: since when, and its last error."""

    since_ns: int
    error: str


class QueuedNotices(NamedTuple):
    """What waits. pairs: incident and destination of notices; counts: messages by destination."""

    pairs: frozenset[tuple[str, str]] = frozenset()
    counts: Mapping[str, int] = {}

    def room(self, destination: str) -> int:
        """How many more may wait for it."""
        return MOST_WAITING - self.counts.get(destination, 0)


def post(
    catalog: Catalog,
    messages: Sequence[OutgoingMessage],
    noted: tuple[str, Any] | None = None,
    instead_of: Sequence[str] = (),
) -> None:
    """Store messages; those whose id is waiting already stay as they are.

    noted: name and value of a state that is stored with them. instead_of: ids of messages that
    these replace.
    """
    if not messages and noted is None:
        return
    with catalog.writing() as connection:
        remove_messages(connection, instead_of)
        if messages:
            insert_messages(connection, messages)
        if noted is not None:
            set_state(connection, *noted)


def insert_messages(connection: Connection, messages: Sequence[OutgoingMessage]) -> None:
    """The same within a transaction."""
    if not messages:
        return
    ids = [one.id for one in messages]
    connection.execute(delete(OUTBOX).where(OUTBOX.c.id.in_(ids), OUTBOX.c.failed_ns != 0))
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
    for row in catalog.rows(query.order_by(OUTBOX.c.created_ns, OUTBOX.c.id)):
        found.setdefault(row.destination, []).append(_message(row))
    return found


def waiting_counts(catalog: Catalog) -> dict[str, int]:
    """Destination -> how many messages wait for it."""
    query = select(OUTBOX.c.destination, func.count()).where(OUTBOX.c.failed_ns == 0)
    rows = catalog.rows(query.group_by(OUTBOX.c.destination))
    return {row[0]: row[1] for row in rows}


def dead_letters(catalog: Catalog) -> list[OutgoingMessage]:
    """What was given up, the newest first."""
    query = select(OUTBOX).where(OUTBOX.c.failed_ns != 0).order_by(OUTBOX.c.failed_ns.desc())
    return [_message(row) for row in catalog.rows(query)]


def undelivered_digests(catalog: Catalog, destination: str) -> list[OutgoingMessage]:
    """The digests that it did not get: they wait, or were given up."""
    mine = (OUTBOX.c.destination == destination, OUTBOX.c.form == "digest")
    return [_message(row) for row in catalog.rows(select(OUTBOX).where(*mine))]


def incident_of(message: OutgoingMessage) -> str:
    """The incident of which a message says that it lasts; "" where it says nothing like that."""
    content = message.content
    is_open = message.form == "notice" and content.get("state") == "open"
    return str(content.get("incident", "")) if is_open else ""


def queued_notices(connection: Connection) -> QueuedNotices:
    """What waits of lasting incidents."""
    alive = OUTBOX.c.failed_ns == 0
    counted = select(OUTBOX.c.destination, func.count().label("count")).where(alive)
    rows = connection.execute(counted.group_by(OUTBOX.c.destination))
    counts = {row.destination: row[1] for row in rows}
    notices = connection.execute(select(OUTBOX).where(alive, OUTBOX.c.form == "notice"))
    found = [_message(row) for row in notices]
    return QueuedNotices(frozenset((incident_of(one), one.destination) for one in found), counts)


def failing_destinations(catalog: Catalog) -> dict[str, Failing]:
    """Those whose last attempt failed."""
    query = select(STATE).where(STATE.c.name.startswith(_FAILING, autoescape=True))
    rows = catalog.rows(query)
    return {row.name.removeprefix(_FAILING): Failing(*row.value) for row in rows}


def note_works(connection: Connection, destination: str) -> None:
    """It has accepted something, or does not exist any more."""
    connection.execute(delete(STATE).where(STATE.c.name == _FAILING + destination))


def note_working(catalog: Catalog, destination: str) -> None:
    """The same as its own transaction; what waits for it is due."""
    with catalog.writing() as connection:
        note_works(connection, destination)
        mine = update(OUTBOX).where(OUTBOX.c.destination == destination, OUTBOX.c.failed_ns == 0)
        connection.execute(mine.values(not_before_ns=0))


def note_failure(
    catalog: Catalog,
    destination: str,
    error: str,
    *,
    again: Collection[str],
    again_ns: int,
    given_up: Collection[str],
) -> None:
    """An attempt failed. again: messages that are tried again at `again_ns`."""
    now_ns, text = clock.now_ns(), plain(error)[:_LONGEST_ERROR]
    name = _FAILING + destination
    with catalog.writing() as connection:
        known = connection.execute(select(STATE.c.value).where(STATE.c.name == name)).scalar()
        since_ns = now_ns if known is None else min(now_ns, known[0])
        set_state(connection, name, Failing(since_ns, text))
        for ids, changes in (
            (again, {"not_before_ns": again_ns}),
            (given_up, {"not_before_ns": 0, "failed_ns": now_ns}),
        ):
            failed = update(OUTBOX).where(OUTBOX.c.id.in_(list(ids)))
            counted = {"error": text, "attempts": OUTBOX.c.attempts + 1, **changes}
            connection.execute(failed.values(**counted))
        if given_up:
            _bound_dead(connection)


def give_up(catalog: Catalog, ids: Collection[str], error: str) -> None:
    """No one will accept these."""
    lost = update(OUTBOX).where(OUTBOX.c.id.in_(list(ids)))
    with catalog.writing() as connection:
        connection.execute(lost.values(failed_ns=clock.now_ns(), error=plain(error)))
        _bound_dead(connection)


def drop(catalog: Catalog, ids: Collection[str]) -> None:
    """These are of no use any more."""
    with catalog.writing() as connection:
        remove_messages(connection, ids)


def remove_messages(connection: Connection, ids: Collection[str]) -> None:
    """The same within a transaction."""
    if ids:
        connection.execute(delete(OUTBOX).where(OUTBOX.c.id.in_(list(ids))))


def retry_waiting(catalog: Catalog) -> None:
    """What waits after failures is due now."""
    late = update(OUTBOX).where(OUTBOX.c.failed_ns == 0, OUTBOX.c.not_before_ns != 0)
    catalog.change(late.values(not_before_ns=0))


def retry_dead(catalog: Catalog) -> int:
    """Try everything at once that failed, also what was given up; returns how many."""
    failed = update(OUTBOX).where((OUTBOX.c.failed_ns != 0) | (OUTBOX.c.attempts != 0))
    return catalog.change(failed.values(failed_ns=0, not_before_ns=0, attempts=0))


def drop_dead(catalog: Catalog, before_ns: int) -> int:
    """Remove what was given up before then; returns how many."""
    dead = delete(OUTBOX).where(OUTBOX.c.failed_ns != 0, OUTBOX.c.failed_ns < before_ns)
    return catalog.change(dead)


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
