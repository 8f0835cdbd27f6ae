"""Destinations of a Messages resource: where messages go, and which types of them."""

from __future__ import annotations

from dataclasses import dataclass

from strongroom.config.table.keywords import MESSAGE_TYPES

_EVERY_TYPE = frozenset(MESSAGE_TYPES) - {"all"}


@dataclass(frozen=True, slots=True)
class Destination:
    """One destination: `kind` is the directive (mail, append, console ...).

    `addresses` are who or where (mail addresses, a path, a director, a syslog facility); `types`
    the types as written, a `!` taking one away. `command` and `timestamp_format` are those that
    stood before it in the resource: an earlier destination is not touched by a later command.
    """

    kind: str
    addresses: tuple[str, ...]
    types: tuple[str, ...]
    command: str | None = None
    timestamp_format: str | None = None

    @property
    def accepted_types(self) -> frozenset[str]:
        """The types that go there, `all` and `!` worked out."""
        accepted: set[str] = set()
        for word in self.types:
            name = word.removeprefix("!").lower()
            names = _EVERY_TYPE if name == "all" else {name}
            accepted = accepted - names if word.startswith("!") else accepted | names
        return frozenset(accepted)


def is_message_type(word: str) -> bool:
    """Whether `word` is a message type, with or without a `!`."""
    return word.removeprefix("!").lower() in MESSAGE_TYPES
