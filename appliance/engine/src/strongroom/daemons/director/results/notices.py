"""What is wrong, and what people were told of it or could not be."""

from __future__ import annotations

from dataclasses import dataclass

from strongroom.daemons.director.served_formats import Time, served


@served()
@dataclass(frozen=True, slots=True)
class OpenIncident:
    """Something that is wrong. event: what, one of the events of notices; id: in notices of it."""

    id: str
    event: str
    severity: str
    job: str
    client: str
    storage: str
    title: str
    detail: str
    remedy: str
    since_ns: Time


@served()
@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that could not be delivered and was given up."""

    destination: str
    form: str
    subject: str
    created_ns: Time
    failed_ns: Time
    error: str


@dataclass(frozen=True, slots=True)
class NoticeOverview:
    """What is wrong now, how many messages wait to be sent, and what was given up."""

    incidents: tuple[OpenIncident, ...]
    waiting: int
    dead: tuple[DeadLetter, ...]


@dataclass(frozen=True, slots=True)
class NoticeTest:
    """The test of a destination; error: "" when its server took the notice."""

    destination: str
    error: str
