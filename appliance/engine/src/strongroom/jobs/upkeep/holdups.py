"""What keeps a prune from freeing space: the leases of other jobs, named with their holders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strongroom.clock import SECOND_NS
from strongroom.repo.leases import EXPIRY_SECONDS, MOST_AGE_SECONDS

if TYPE_CHECKING:
    from strongroom.repo.leases import ListedLease

REMEDY: Final = (
    "if that job hangs, cancel its run or end its process there; a lease that nobody renews ends "
    f"after {EXPIRY_SECONDS / 60:.0f} minutes, and one of a client after "
    f"{MOST_AGE_SECONDS / 86400:.0f} days in any case"
)
_LONG_SECONDS: Final = 86400.0


@dataclass(frozen=True, slots=True)
class Holdup:
    """A lease that keeps packs. owner: the id of its client, as in ListedLease.

    What the holder says of itself is "" or 0 where the lease cannot be read; age_seconds is then
    the time since it was renewed.
    """

    lease: str
    owner: bytes
    purpose: str
    host: str
    process_id: int
    age_seconds: float

    @classmethod
    def of(cls, listed: ListedLease, store_time_ns: int) -> Holdup:
        """The lease of somebody else, by the store's clock."""
        holder = listed.holder
        begun_ns = listed.renewed_ns if holder is None else holder.started_ns
        age_seconds = max(0.0, (store_time_ns - begun_ns) / SECOND_NS)
        if holder is None:
            return cls(listed.name, listed.owner, "", "", 0, age_seconds)
        return cls(
            listed.name, listed.owner, holder.purpose, holder.host, holder.process_id, age_seconds
        )

    @property
    def is_long(self) -> bool:
        """Whether it has lasted longer than jobs usually do."""
        return self.age_seconds > _LONG_SECONDS

    @property
    def text(self) -> str:
        """Who is waited for, and since when that job runs."""
        age = _age_text(self.age_seconds)
        if not self.purpose:
            return f"the lease {self.lease}, which can't be read, renewed {age} ago, to end"
        where = f"{self.purpose} on {self.host} (process {self.process_id})"
        return f"{where}, begun {age} ago, to end"


def _age_text(seconds: float) -> str:
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return "less than a minute"
