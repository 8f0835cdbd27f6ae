"""What a Client resource, the agent's or the director's, says about the knobs of backups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strongroom.config.table.schema import key_of
from strongroom.knobs.settings import KnobSettings
from strongroom.knobs.table import BACKUP_KNOBS

if TYPE_CHECKING:
    from strongroom.config.model import Resource


def client_knobs(client: Resource) -> KnobSettings:
    """The knobs that the Client sets; for the others its defaults do not count as said."""
    found: dict[str, Any] = {}
    for knob in BACKUP_KNOBS:
        if not knob.stands_in("Client"):
            continue
        attribute = client.spec.by_key[key_of(knob.directive)].attribute
        if client.is_set(attribute):
            found[knob.name] = knob.from_directive(client.number(attribute))
    return KnobSettings(**found)
