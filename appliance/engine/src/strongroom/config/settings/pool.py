"""Pool resources: how long snapshots stay, and where they are copied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from strongroom.config.settings.keep_rules import KeepRules

if TYPE_CHECKING:
    from strongroom.config.model import Resource


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """A pool. next_pool: where copies of its snapshots belong, "" without one.

    keep: None without Keep directives. is_retention_set: Volume Retention was written down.
    """

    name: str
    storages: tuple[str, ...]
    next_pool: str
    auto_prune: bool
    keep: KeepRules | None
    volume_retention_seconds: int
    is_retention_set: bool
    minimum_retention_seconds: int

    @classmethod
    def of(cls, pool: Resource) -> PoolSettings:
        """Those of a Pool resource."""
        return cls(
            name=pool.name,
            storages=pool.names_of("storage"),
            next_pool=pool.name_of("next_pool"),
            auto_prune=pool.switch("auto_prune"),
            keep=KeepRules.of(pool),
            volume_retention_seconds=pool.number("volume_retention_seconds"),
            is_retention_set=pool.is_set("volume_retention_seconds"),
            minimum_retention_seconds=_minimum(pool),
        )


def _minimum(pool: Resource) -> int:
    """The usual one is not longer than a Volume Retention that was written down."""
    minimum = pool.number("minimum_retention_seconds")
    if pool.is_set("minimum_retention_seconds") or not pool.is_set("volume_retention_seconds"):
        return minimum
    return min(minimum, pool.number("volume_retention_seconds"))
