"""What a Client resource, the agent's or the director's, says about the knobs of backups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strongroom.config.table.schema import key_of
from strongroom.knobs.settings import KnobSettings
from strongroom.knobs.table import AGENT_KNOBS, BACKUP_KNOBS

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


def knob_origins(client: Resource) -> dict[str, str]:
    """Knob -> file and line, of those that the Client sets."""
    found = {}
    for knob in (*BACKUP_KNOBS, *AGENT_KNOBS):
        spec = client.spec.by_key.get(key_of(knob.directive)) if knob.directive else None
        if spec is not None and client.is_set(spec.attribute):
            found[knob.name] = str(client.origin(spec.attribute))
    return found
