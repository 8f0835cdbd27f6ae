"""Where messages go: a destination of each kind, and those of the Notify blocks of Messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from strongroom.config.settings.messages import (
    MailServerSettings,
    MessagesSettings,
    NotifySettings,
)


@dataclass(frozen=True, slots=True)
class NoticeTarget:
    """A destination of notices: a block, and for mail one of its addresses."""

    key: str
    notify: NotifySettings
    address: str = ""
    server: MailServerSettings | None = None


@dataclass(frozen=True, slots=True)
class ReportTarget:
    """A destination of reports of runs: a command, or mail to one address."""

    key: str
    addresses: tuple[str, ...]
    command: str
    server: MailServerSettings | None


@dataclass(frozen=True, slots=True)
class PingTarget:
    """The addresses that a job pings."""

    key: str
    job: str
    client: str
    file: str
    ca_file: str


Target = NoticeTarget | ReportTarget | PingTarget


def notice_targets(messages: MessagesSettings) -> Iterator[NoticeTarget]:
    """The destinations of notices of a Messages resource."""
    for notify in messages.notify:
        key = f"{messages.name}/{notify.name}"
        if notify.kind != "mail":
            yield NoticeTarget(key, notify)
            continue
        for address in dict.fromkeys(notify.to):
            yield NoticeTarget(f"{key}:{address}", notify, address, messages.mail_server)
