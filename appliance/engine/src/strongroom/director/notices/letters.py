"""The words of notices, and who is notified what of an incident.

One incident, several together, and as data for webhooks. Everything that comes from others is one
printable line of bounded length.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import tzinfo
from typing import Any, Final, Literal

from blake3 import blake3

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.printable import printable
from strongroom.config.settings.configuration import DirectorConfiguration
from strongroom.director.catalog.incidents import Incident
from strongroom.director.catalog.outbox import OutgoingMessage, QueuedNotices
from strongroom.director.notices.targets import notified_of, place_of
from strongroom.director.notices.watch_director import OUTBOX_TOPIC
from strongroom.director.schedule.due_times import zone_of
from strongroom.director.shown_text import shown_time
from strongroom.service.notices.letter import one_line
from strongroom.service.notices.targets import NoticeTarget

# A new incident, one that lasts for weeks, one that is over.
Phase = Literal["open", "reminder", "over"]


_DAY_NS: Final = 86400 * SECOND_NS
_WEEK_NS: Final = 7 * _DAY_NS


def notice_data(incident: Incident, zone: tzinfo, phase: Phase) -> dict[str, Any]:
    """An incident as webhooks and the outbox have it."""
    is_over = phase == "over"
    return {
        "incident": incident.id,
        "topic": printable(incident.topic),
        "event": incident.event,
        "state": "resolved" if is_over else "open",
        "severity": incident.severity,
        "job": printable(incident.job),
        "client": printable(incident.client),
        "storage": printable(incident.storage),
        "title": incident.title,
        "detail": incident.detail,
        "remedy": incident.remedy,
        "since": shown_time(incident.since_ns, zone),
        "until": shown_time(incident.ended_ns, zone) if is_over else "",
        "reminder": phase == "reminder",
    }


class Announcements:
    """An Announcer of a configuration. zone: of the times in notices."""

    def __init__(self, configuration: DirectorConfiguration) -> None:
        self._configuration = configuration
        self.zone = zone_of(configuration)

    def due(self, lasting: Sequence[Incident], queued: QueuedNotices) -> list[OutgoingMessage]:
        """To those that do not know of it; and once a week all that lasts, together."""
        now_ns = clock.now_ns()
        unknown: dict[str, list[Incident]] = defaultdict(list)
        known: dict[str, list[tuple[int, Incident]]] = defaultdict(list)
        for incident in lasting:
            for target in self.targets(incident):
                if (incident.id, target.key) in queued.pairs:
                    continue
                delivered = incident.told.get(target.key)
                if delivered is None or delivered.place not in ("", place_of(target)):
                    unknown[target.key].append(incident)
                else:
                    # One in the future: the clock was ahead.
                    ago_ns = now_ns - delivered.time_ns
                    known[target.key].append((ago_ns if ago_ns >= -_DAY_NS else _WEEK_NS, incident))
        reminders = [
            self._message(incident, key, "reminder")
            for key, known_of_it in known.items()
            if max(ago_ns for ago_ns, _ in known_of_it) >= _WEEK_NS
            for ago_ns, incident in known_of_it
            if ago_ns >= _DAY_NS
        ]
        # Those that find no room follow when there is some.
        first = [
            self._message(incident, key, "open")
            for key, unreported in unknown.items()
            for incident in unreported[: max(0, queued.room(key))]
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
        """The destinations that are notified of it; not the one that it is about."""
        found = notified_of(self._configuration, incident)
        return [one for one in found if incident.topic != OUTBOX_TOPIC + one.key]

    def _message(self, incident: Incident, key: str, phase: Phase) -> OutgoingMessage:
        data = notice_data(incident, self.zone, phase)
        delivered_ns = incident.told[key].time_ns if key in incident.told else 0
        return OutgoingMessage(
            id=blake3(f"{incident.id} {phase} {delivered_ns} {key}".encode()).hexdigest(16),
            destination=key,
            form="notice",
            subject=one_line(data),
            created_ns=clock.now_ns(),
            content=data,
        )
