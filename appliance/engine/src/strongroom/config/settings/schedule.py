"""Schedule resources: when the jobs that name them are started."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from strongroom.config.values.run_schedule import ScheduleRun

if TYPE_CHECKING:
    from strongroom.config.model import Resource


@dataclass(frozen=True, slots=True)
class ScheduleSettings:
    """A schedule. time_zone: an IANA name, "" for that of the Director. runs: each once."""

    name: str
    enabled: bool
    time_zone: str
    runs: tuple[ScheduleRun, ...]

    @classmethod
    def of(cls, schedule: Resource) -> ScheduleSettings:
        """Those of a Schedule resource."""
        said = [directive.value for directive in schedule.directives("run")]
        return cls(
            name=schedule.name,
            enabled=schedule.switch("enabled"),
            time_zone=schedule.text("time_zone"),
            runs=tuple(dict.fromkeys(run for run in said if isinstance(run, ScheduleRun))),
        )
