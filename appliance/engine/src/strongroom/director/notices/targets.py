"""Where messages go: the destinations of the configuration, by the keys that are in the outbox.

Standard/ops                        a Notify block of the Messages resource Standard
Standard/ops:ann@example.org        one address of a block of Type Mail
report:Standard:mail:ann@...        a Mail destination of the reports of runs
ping:nightly                        the Ping File of a job
"""

from __future__ import annotations

from collections.abc import Iterator

from blake3 import blake3

from strongroom.config.settings.configuration import DirectorConfiguration
from strongroom.config.settings.messages import MessagesSettings
from strongroom.config.values.forms import Destination
from strongroom.director.catalog.incidents import Incident
from strongroom.service.notices.targets import (
    NoticeTarget,
    PingTarget,
    ReportTarget,
    Target,
    notice_targets,
)

# Destinations of Messages that are mail.
MAIL_KINDS = frozenset(("mail", "mailonerror", "mailonsuccess", "operator"))
PING = "ping:"
_REPORT = "report:"


def report_targets(messages: MessagesSettings, destination: Destination) -> Iterator[ReportTarget]:
    """Those of one Mail directive. A command gets all addresses at once, as Bareos does it."""
    kind = destination.kind.lower().replace(" ", "")
    if kind not in MAIL_KINDS:
        return
    begin = f"{_REPORT}{messages.name}:{kind}:"
    command, server = destination.command or "", messages.mail_server
    together = bool(command) or server is None
    for addresses in (
        [destination.addresses] if together else [(one,) for one in destination.addresses]
    ):
        key = begin + ",".join(addresses)
        yield ReportTarget(key, addresses, command, None if command else server)


def targets_of(configuration: DirectorConfiguration) -> dict[str, Target]:
    """Every destination of a configuration, by its key."""
    found: dict[str, Target] = {}
    for messages in configuration.messages.values():
        for target in notice_targets(messages):
            found.setdefault(target.key, target)
        for destination in messages.destinations:
            for report in report_targets(messages, destination):
                found.setdefault(report.key, report)
    for job in configuration.jobs.values():
        if job.ping_file:
            own = messages_of(configuration, job.name)
            ca_file = "" if own is None else own.ca_file
            key = PING + job.name
            found[key] = PingTarget(key, job.name, job.client, job.ping_file, ca_file)
    return found


def messages_of(configuration: DirectorConfiguration, job: str) -> MessagesSettings | None:
    """The Messages of a job; of the Director where it has none, or where there is no job."""
    settings = configuration.jobs.get(job)
    name = settings.messages if settings is not None else ""
    found = configuration.messages.get(name)
    return found or configuration.messages.get(configuration.director.messages)


def notices_of(configuration: DirectorConfiguration, job: str) -> MessagesSettings | None:
    """The Messages whose Notify blocks are reported a job, "" for what is of no job.

    Those of the Director, where the job's own have none: silence is no one's wish.
    """
    own = messages_of(configuration, job)
    if own is not None and own.notify:
        return own
    return configuration.messages.get(configuration.director.messages)


def notified_of(configuration: DirectorConfiguration, incident: Incident) -> list[NoticeTarget]:
    """The destinations that want to know of an incident."""
    messages = notices_of(configuration, incident.job)
    if messages is None:
        return []
    return [one for one in notice_targets(messages) if incident.event in one.notify.events]


def place_of(target: Target) -> str:
    """A digest of where a destination is; another one where its key means another place now."""
    if isinstance(target, PingTarget):
        words = [target.file]
    else:
        server = target.server
        words = [] if server is None else [server.host, str(server.port)]
        if isinstance(target, ReportTarget):
            words += [target.command, *target.addresses]
        else:
            of = target.notify
            words += [of.kind, of.url, of.url_file, of.room, of.command, target.address]
    return blake3("\0".join(words).encode("utf-8", "surrogateescape")).hexdigest(8)


def name_of(key: str) -> str:
    """A destination as it is shown: without the address."""
    return key.partition(":")[0] if "/" in key.partition(":")[0] else key
