"""Who is told what of an incident: messages for the outbox."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from blake3 import blake3

from strongroom import clock
from strongroom.clock import SECOND_NS
from strongroom.daemons.director.catalog.outbox import OutgoingMessage
from strongroom.daemons.director.notices.letters import notice_data, one_line
from strongroom.daemons.director.notices.watch_outbox import TOPIC as OUTBOX_TOPIC
from strongroom.daemons.director.runs.targets import place_of, told_of
from strongroom.daemons.director.schedule.due_times import time_zone
from strongroom.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from zoneinfo import ZoneInfo

    from strongroom.config.settings.configuration import DirectorConfiguration
    from strongroom.daemons.director.catalog.incidents import Incident
    from strongroom.daemons.director.catalog.outbox import QueuedNotices
    from strongroom.daemons.director.notices.letters import Phase
    from strongroom.daemons.director.runs.targets import NoticeTarget

_DAY_NS: Final = 86400 * SECOND_NS
_WEEK_NS: Final = 7 * _DAY_NS


class Announcements:
    """An Announcer of a configuration. zone: of the times in notices."""

    def __init__(self, configuration: DirectorConfiguration) -> None:
        self._configuration = configuration
        self.zone = zone_of_director(configuration)

    def due(self, lasting: Sequence[Incident], queued: QueuedNotices) -> list[OutgoingMessage]:
        """To those that do not know of it; and once a week all that lasts, together."""
        now_ns = clock.now_ns()
        unknown: dict[str, list[Incident]] = defaultdict(list)
        known: dict[str, list[tuple[int, Incident]]] = defaultdict(list)
        for incident in lasting:
            for target in self.targets(incident):
                if (incident.id, target.key) in queued.pairs:
                    continue
                told = incident.told.get(target.key)
                if told is None or told.place not in ("", place_of(target)):
                    unknown[target.key].append(incident)
                else:
                    # One in the future: the clock was ahead.
                    ago_ns = now_ns - told.time_ns
                    known[target.key].append((ago_ns if ago_ns >= -_DAY_NS else _WEEK_NS, incident))
        reminders = [
            self._message(incident, key, "reminder")
            for key, told_of_it in known.items()
            if max(ago_ns for ago_ns, _ in told_of_it) >= _WEEK_NS
            for ago_ns, incident in told_of_it
            if ago_ns >= _DAY_NS
        ]
        # Those that find no room follow when there is some.
        first = [
            self._message(incident, key, "open")
            for key, untold in unknown.items()
            for incident in untold[: max(0, queued.room(key))]
        ]
        return first + reminders

    def over(self, incident: Incident, queued: QueuedNotices) -> list[OutgoingMessage]:
        """To those that know of it, or will, unless they do not want that."""
        return [
            self._message(incident, one.key, "over")
            for one in self.targets(incident)
            if one.notify.tells_resolved
            and (one.key in incident.told or (incident.id, one.key) in queued.pairs)
        ]

    def targets(self, incident: Incident) -> list[NoticeTarget]:
        """The destinations that are told of it; not the one that it is about."""
        found = told_of(self._configuration, incident)
        return [one for one in found if incident.topic != OUTBOX_TOPIC + one.key]

    def _message(self, incident: Incident, key: str, phase: Phase) -> OutgoingMessage:
        data = notice_data(incident, self.zone, phase)
        told_ns = incident.told[key].time_ns if key in incident.told else 0
        return OutgoingMessage(
            id=blake3(f"{incident.id} {phase} {told_ns} {key}".encode()).hexdigest(16),
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
