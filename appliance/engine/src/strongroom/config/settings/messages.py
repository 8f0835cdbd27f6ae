"""Messages resources: where the reports of runs go, and notices of what is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strongroom.config.values.notice_events import chosen_events

if TYPE_CHECKING:
    from strongroom.config.model import Resource
    from strongroom.config.values.destinations import Destination

SMTP_PORTS: Final = {"StartTLS": 587, "TLS": 465, "None": 25}
_HOURS, _MINUTES = 24, 60


@dataclass(frozen=True, slots=True)
class MailServerSettings:
    """A mail server. security: StartTLS, TLS or None. user: "" for none."""

    host: str
    port: int
    security: str
    user: str
    password_file: str
    sender: str
    ca_file: str


@dataclass(frozen=True, slots=True)
class NotifySettings:
    """A destination of notices; "" where nothing is said.

    kind: mail, webhook, slack, matrix, ntfy, gotify or command. digest_minute: the minute of the
    local day at which a digest is sent, None for no digest.
    """

    name: str
    kind: str
    to: tuple[str, ...]
    url: str
    url_file: str
    token_file: str
    room: str
    command: str
    ca_file: str
    events: frozenset[str]
    tells_resolved: bool
    digest_minute: int | None
    maximum_per_hour: int


@dataclass(frozen=True, slots=True)
class MessagesSettings:
    """The destinations in their order, each with the command that stood before it.

    mail_server: None where mail goes by commands only.
    """

    name: str
    destinations: tuple[Destination, ...]
    mail_server: MailServerSettings | None = None
    notify: tuple[NotifySettings, ...] = ()
    ca_file: str = ""

    @classmethod
    def of(cls, messages: Resource) -> MessagesSettings:
        """Those of a Messages resource of a director."""
        ca_file = messages.text("ca_file")
        return cls(
            messages.name,
            messages.destinations,
            _mail_server(messages, ca_file),
            tuple(_notify(one, ca_file) for one in messages.blocks("notify")),
            ca_file,
        )


def day_minute(text: str) -> int | None:
    """The minute of the day that `7:30` names; None where it is no time of day."""
    hour, colon, minute = text.partition(":")
    if not colon or not all(one.isascii() and one.isdecimal() for one in (hour, minute)):
        return None
    if len(minute) != 2 or len(hour) > 2 or int(hour) >= _HOURS or int(minute) >= _MINUTES:
        return None
    return int(hour) * _MINUTES + int(minute)


def _mail_server(messages: Resource, ca_file: str) -> MailServerSettings | None:
    host = messages.text("smtp_server")
    if not host:
        return None
    security = messages.text("smtp_security")
    return MailServerSettings(
        host=host,
        port=messages.number("smtp_port") or SMTP_PORTS[security],
        security=security,
        user=messages.text("smtp_user"),
        password_file=messages.text("smtp_password_file"),
        sender=messages.text("mail_from"),
        ca_file=ca_file,
    )


def _notify(block: Resource, ca_file: str) -> NotifySettings:
    return NotifySettings(
        name=block.name,
        kind=block.text("type").lower(),
        to=block.texts("to"),
        url=block.text("url"),
        url_file=block.text("url_file"),
        token_file=block.text("token_file"),
        room=block.text("room"),
        command=block.text("command"),
        ca_file=block.text("ca_file") or ca_file,
        events=chosen_events(block.texts("events")),
        tells_resolved=block.switch("resolved"),
        digest_minute=day_minute(block.text("digest_at")),
        maximum_per_hour=block.number("maximum_per_hour"),
    )
