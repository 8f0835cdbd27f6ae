"""What enrolling takes: the authority, and the put key that new agents are given with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strongroom.net.authority import Authority


@dataclass(frozen=True, slots=True)
class Enrolling:
    """`put_key`: text of the put key of this director's repository, None where it has none."""

    authority: Authority
    put_key: str | None = None
