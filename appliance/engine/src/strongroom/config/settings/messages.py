"""Messages resources: where the reports of runs go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strongroom.config.model import Resource
    from strongroom.config.values.destinations import Destination


@dataclass(frozen=True, slots=True)
class MessagesSettings:
    """The destinations in their order, each with the command that stood before it."""

    name: str
    destinations: tuple[Destination, ...]

    @classmethod
    def of(cls, messages: Resource) -> MessagesSettings:
        """Those of a Messages resource."""
        return cls(messages.name, messages.destinations)
