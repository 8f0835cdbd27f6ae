"""What is wrong, in the catalog: one incident of a topic is open at a time.

`settle` compares what is wrong now with the open incidents. A new condition opens one, a condition
that has gone ends its incident, and each of both is stored in one transaction with the messages
about it. A warning that has become an error is a new incident, which replaces the old one.

A destination knows of an incident once a message about it was delivered, and only then: `told` is
written when its server has accepted it. While an incident lasts, `settle` adds messages for each
destination that does not know of it and has none waiting, whatever the reason: it is new, it was
changed, it wants more events than before, its messages were given up. So no one gets one twice, and
everybody gets one, also after a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol

import msgspec
from sqlalchemy import Connection, delete, insert, select, update

from strongroom.base import clock
from strongroom.base.printable import printable
from strongroom.config.values.notice_events import EVENTS, REMEDIES
from strongroom.director.catalog.database import Catalog
from strongroom.director.catalog.outbox import (
    OutgoingMessage,
    QueuedNotices,
    incident_of,
    insert_messages,
    note_works,
    queued_notices,
    remove_messages,
)
from strongroom.director.catalog.storable import plain
from strongroom.director.catalog.tables import INCIDENTS

_LONGEST_TEXT: Final = 1000
_TEXTS: Final = ("title", "detail", "remedy")


class Condition(NamedTuple):
    """Something that is wrong now. event: of EVENTS. topic: what it is about.

    title: one line. since_ns: since when. detail: more of it, "" for nothing. remedy: what to do,
    "" for what the table of conditions says. job, client, storage: whom it concerns, "" for none.
    """

    event: str
    topic: str
    title: str
    since_ns: int
    detail: str = ""
    remedy: str = ""
    job: str = ""
    client: str = ""
    storage: str = ""


class Delivered(NamedTuple):
    """The last message about an incident that a destination accepted: when, and at which place."""

    time_ns: int
    place: str


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """A condition as it was found first. told: by destination; ended_ns: 0 while it lasts."""

    id: str
    topic: str
    event: str
    severity: str
    job: str = ""
    client: str = ""
    storage: str = ""
    title: str
    detail: str = ""
    remedy: str = ""
    since_ns: int = 0
    opened_ns: int = 0
    ended_ns: int = 0
    told: dict[str, Delivered] = {}

    @property
    def is_error(self) -> bool:
        """Whether it is more than a warning."""
        return self.severity == "error"


class Announcer(Protocol):
    """Says which destination gets which message about an incident."""

    def due(self, lasting: Sequence[Incident], queued: QueuedNotices) -> Sequence[OutgoingMessage]:
        """To those that do not know of it yet, and the weekly reminders."""

    def over(self, incident: Incident, queued: QueuedNotices) -> Sequence[OutgoingMessage]:
        """To those that know of it, or will: it is over."""


def open_incidents(catalog: Catalog) -> list[Incident]:
    """Those that last, the oldest first."""
    with catalog.reading() as connection:
        return _open(connection)


def incidents_since(catalog: Catalog, since_ns: int) -> list[Incident]:
    """Those that were opened since then, the oldest first."""
    query = select(INCIDENTS).where(INCIDENTS.c.opened_ns >= since_ns)
    rows = catalog.rows(query.order_by(INCIDENTS.c.opened_ns, INCIDENTS.c.id))
    return [_incident(row) for row in rows]


def settle(
    catalog: Catalog,
    conditions: Iterable[Condition],
    judged: Callable[[Incident], bool],
    announcer: Announcer,
) -> bool:
    """Open and end incidents; returns whether any was.

    judged: whether an open incident has gone if there is no condition of its topic.
    """
    worst: dict[str, Condition] = {}
    for one in conditions:
        known = worst.get(one.topic)
        if known is None or _rank(one) < _rank(known):
            worst[one.topic] = one
    with catalog.reading() as connection:
        open_now = _open(connection)
        is_news = _has_news(open_now, worst, judged)
        if not is_news and not announcer.due(open_now, queued_notices(connection)):
            return False
    now_ns = clock.now_ns()
    with catalog.writing() as connection:
        lasting = {one.topic: one for one in _open(connection)}
        queued = queued_notices(connection)
        messages: list[OutgoingMessage] = []
        for incident in list(lasting.values()):
            condition = worst.get(incident.topic)
            if condition is None and judged(incident):
                ended = msgspec.structs.replace(incident, ended_ns=now_ns)
                messages += announcer.over(ended, queued)
            elif condition is None or not _is_worse(condition, incident):
                continue
            _end(connection, incident.id, now_ns)
            del lasting[incident.topic]
        for condition in worst.values():
            mine = lasting.get(condition.topic)
            if mine is None:
                lasting[condition.topic] = _add(connection, _new(condition, now_ns))
            elif _says_otherwise(condition, mine):
                lasting[condition.topic] = _follow(connection, condition, mine)
        messages += announcer.due(list(lasting.values()), queued)
        insert_messages(connection, messages)
    return True


def note_once(catalog: Catalog, conditions: Iterable[Condition], announcer: Announcer) -> None:
    """Incidents that have no end: each topic is reported once, ever."""
    found = {one.topic: one for one in conditions}
    if not found:
        return
    now_ns = clock.now_ns()
    with catalog.writing() as connection:
        known = _known(connection, found)
        added = [
            _add(connection, msgspec.structs.replace(_new(condition, now_ns), ended_ns=now_ns))
            for topic, condition in found.items()
            if topic not in known
        ]
        insert_messages(connection, announcer.due(added, QueuedNotices()))


def add_ended(catalog: Catalog, incident: Incident, messages: Sequence[OutgoingMessage]) -> None:
    """Enter an incident reported while it could not be stored, and the messages of its end."""
    with catalog.writing() as connection:
        _add(connection, incident)
        insert_messages(connection, messages)


def note_delivered(
    catalog: Catalog, messages: Sequence[OutgoingMessage], destination: str, place: str
) -> None:
    """A destination has accepted these: they leave the outbox, and it knows of their incidents.

    place: where it was, as `Delivered` has it.
    """
    delivered = Delivered(clock.now_ns(), place)
    known = [incident_of(one) for one in messages]
    with catalog.writing() as connection:
        # Other destinations are noted at the same time.
        columns = (INCIDENTS.c.id, INCIDENTS.c.told, INCIDENTS.c.opened_ns)
        mine = select(*columns).where(INCIDENTS.c.id.in_(known))
        for row in connection.execute(mine.with_for_update()).all():
            told = {**_told(row.told, row.opened_ns), destination: delivered}
            changed = update(INCIDENTS).where(INCIDENTS.c.id == row.id)
            connection.execute(changed.values(told=told))
        note_works(connection, destination)
        remove_messages(connection, [one.id for one in messages])


def new_incident(condition: Condition) -> Incident:
    """The incident that a condition opens now."""
    return _new(condition, clock.now_ns())


def remove_old_incidents(catalog: Catalog, before_ns: int) -> None:
    """Forget those that ended before then."""
    old = (INCIDENTS.c.ended_ns != 0, INCIDENTS.c.ended_ns < before_ns)
    catalog.change(delete(INCIDENTS).where(*old))


def _has_news(
    lasting: list[Incident], worst: dict[str, Condition], judged: Callable[[Incident], bool]
) -> bool:
    topics = {one.topic: one for one in lasting}
    if any(one.topic not in worst and judged(one) for one in lasting):
        return True
    return any(
        one.topic not in topics
        or _is_worse(one, topics[one.topic])
        or _says_otherwise(one, topics[one.topic])
        for one in worst.values()
    )


def _rank(condition: Condition) -> tuple[bool, int]:
    return EVENTS[condition.event] != "error", list(EVENTS).index(condition.event)


def _is_worse(condition: Condition, incident: Incident) -> bool:
    return EVENTS[condition.event] == "error" and not incident.is_error


def _says_otherwise(condition: Condition, incident: Incident) -> bool:
    """Whether what lasts has another text by now: of the run that failed last, for example."""
    return condition.event == incident.event and any(
        _shown(condition, name) != getattr(incident, name) for name in _TEXTS
    )


def _follow(connection: Connection, condition: Condition, incident: Incident) -> Incident:
    texts = {name: _shown(condition, name) for name in _TEXTS}
    changed = update(INCIDENTS).where(INCIDENTS.c.id == incident.id)
    connection.execute(changed.values(**texts))
    return msgspec.structs.replace(incident, **texts)


def _shown(condition: Condition, name: str) -> str:
    text = getattr(condition, name)
    if name == "remedy" and not text:
        text = REMEDIES[condition.event]
    return printable(str(plain(text)), _LONGEST_TEXT)


def _new(condition: Condition, now_ns: int) -> Incident:
    fields = {name: plain(value) for name, value in condition._asdict().items()}
    fields |= {name: _shown(condition, name) for name in _TEXTS}
    return Incident(
        id=clock.random_bytes(8).hex(),
        severity=EVENTS[condition.event],
        opened_ns=now_ns,
        **fields,
    )


def _add(connection: Connection, incident: Incident) -> Incident:
    row = {**msgspec.structs.asdict(incident), "told": incident.told}
    connection.execute(insert(INCIDENTS), [row])
    return incident


def _end(connection: Connection, incident_id: str, now_ns: int) -> None:
    ended = update(INCIDENTS).where(INCIDENTS.c.id == incident_id)
    connection.execute(ended.values(ended_ns=now_ns))


def _open(connection: Connection) -> list[Incident]:
    lasting = select(INCIDENTS).where(INCIDENTS.c.ended_ns == 0)
    rows = connection.execute(lasting.order_by(INCIDENTS.c.opened_ns, INCIDENTS.c.id))
    return [_incident(row) for row in rows]


def _known(connection: Connection, topics: Collection[str]) -> set[str]:
    query = select(INCIDENTS.c.topic).where(INCIDENTS.c.topic.in_(list(topics)))
    return set(connection.execute(query).scalars())


def _incident(row: Any) -> Incident:
    fields = dict(row._mapping)  # noqa: SLF001 - SQLAlchemy's API for columns of a row
    return Incident(**{**fields, "told": _told(fields["told"], fields["opened_ns"])})


def _told(stored: Any, opened_ns: int) -> dict[str, Delivered]:
    """As stored; older versions listed the destinations that were to get the first message."""
    if isinstance(stored, list):
        return {key: Delivered(opened_ns, "") for key in stored}
    return {key: Delivered(*one) for key, one in stored.items()}
