"""Pool resources: how long snapshots stay, and where they are copied.

The Keep directives, which snapshots stay, may be a Job's and a Machine's as well.
"""

from __future__ import annotations

from dataclasses import dataclass

from strongroom.config.model import Resource
from strongroom.config.settings.reading import settings_of


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
        """Those of a Job, Pool or Machine; None where none of them is set."""
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


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """A pool. next_pool: where copies of its snapshots belong, "" without one.

    copy_to: the Pool or Storage to which each of its snapshots is copied, "" for none.
    keep: None without Keep directives. is_retention_set: Volume Retention was written down.
    """

    name: str
    storages: tuple[str, ...]
    next_pool: str
    copy_to: str
    auto_prune: bool
    keep: KeepRules | None
    volume_retention_seconds: int
    is_retention_set: bool
    minimum_retention_seconds: int

    @classmethod
    def of(cls, pool: Resource) -> PoolSettings:
        """Those of a Pool resource."""
        is_retention_set = pool.is_set("volume_retention_seconds")
        minimum = pool.number("minimum_retention_seconds")
        if is_retention_set and not pool.is_set("minimum_retention_seconds"):
            # The usual one is not longer than a Volume Retention that was written down.
            minimum = min(minimum, pool.number("volume_retention_seconds"))
        return settings_of(
            cls,
            pool,
            storages=pool.names_of("storage"),
            keep=KeepRules.of(pool),
            is_retention_set=is_retention_set,
            minimum_retention_seconds=minimum,
        )
