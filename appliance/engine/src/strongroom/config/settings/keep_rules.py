"""The Keep directives of a Job or a Pool: which snapshots stay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strongroom.config.model import Resource


@dataclass(frozen=True, slots=True)
class KeepRules:
    """What is kept of each kind; None where a directive is not set, and `tags` empty."""

    last: int | None = None
    hourly: int | None = None
    daily: int | None = None
    weekly: int | None = None
    monthly: int | None = None
    yearly: int | None = None
    within_seconds: int | None = None
    tags: tuple[str, ...] = ()

    @classmethod
    def of(cls, resource: Resource) -> KeepRules | None:
        """Those of a Job or Pool; None where none of them is set."""
        rules = cls(
            last=resource.optional_number("keep_last"),
            hourly=resource.optional_number("keep_hourly"),
            daily=resource.optional_number("keep_daily"),
            weekly=resource.optional_number("keep_weekly"),
            monthly=resource.optional_number("keep_monthly"),
            yearly=resource.optional_number("keep_yearly"),
            within_seconds=resource.optional_number("keep_within_seconds"),
            tags=resource.texts("keep_tag"),
        )
        return None if rules == _NOTHING else rules


_NOTHING = KeepRules()
