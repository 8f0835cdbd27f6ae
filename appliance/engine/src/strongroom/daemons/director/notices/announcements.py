"""Who is told what of an incident: messages for the outbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blake3 import blake3

from strongroom import clock
from strongroom.daemons.director.catalog.outbox import OutgoingMessage
from strongroom.daemons.director.notices.letters import notice_data, one_line
from strongroom.daemons.director.notices.watch_outbox import TOPIC as OUTBOX_TOPIC
from strongroom.daemons.director.runs.targets import told_of
from strongroom.daemons.director.schedule.due_times import time_zone
from strongroom.errors import UsageError

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from strongroom.config.settings.configuration import DirectorConfiguration
    from strongroom.daemons.director.catalog.incidents import Incident
    from strongroom.daemons.director.runs.targets import NoticeTarget


class Announcements:
    """An Announcer of a configuration. zone: of the times in notices."""

    def __init__(self, configuration: DirectorConfiguration) -> None:
        self._configuration = configuration
        self.zone = zone_of_director(configuration)

    def opened(self, incident: Incident) -> list[OutgoingMessage]:
        """Messages to all destinations that want to know of it."""
        return [self._message(incident, one.key, "open") for one in self.targets(incident)]

    def over(self, incident: Incident) -> list[OutgoingMessage]:
        """Messages to those who were told of it, unless they do not want that."""
        return [
            self._message(incident, one.key, "over")
            for one in self.targets(incident)
            if one.key in incident.told and one.notify.tells_resolved
        ]

    def targets(self, incident: Incident) -> list[NoticeTarget]:
        """The destinations that are told of it; not the one that it is about."""
        found = told_of(self._configuration, incident)
        return [one for one in found if incident.topic != OUTBOX_TOPIC + one.key]

    def _message(self, incident: Incident, key: str, phase: str) -> OutgoingMessage:
        data = notice_data(incident, self.zone, is_over=phase == "over")
        return OutgoingMessage(
            id=blake3(f"{incident.id} {phase} {key}".encode()).hexdigest(16),
            destination=key,
            form="notice",
            subject=one_line(data),
            created_ns=clock.now_ns(),
            content=data,
        )


def zone_of_director(configuration: DirectorConfiguration) -> ZoneInfo:
    """The director's time zone, the system's where it names one that is not there."""
    try:
        return time_zone(configuration.director.time_zone)
    except UsageError:
        return time_zone("")
