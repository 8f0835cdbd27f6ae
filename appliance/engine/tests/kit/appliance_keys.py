"""The appliance key of a repository as text, and which client an agent is in it."""

from __future__ import annotations

from strongroom.engine.repository.keys.files import export_key
from strongroom.engine.repository.keys.roles import ApplianceKey, Key, required_appliance_key
from strongroom.net.identities.peer import ClientOf


def appliance_key_text(key: Key) -> str:
    """What `strongroom key export-appliance` writes, from a restore key."""
    whole = required_appliance_key(key)
    return export_key(ApplianceKey(whole.repository_id, whole.restore_public, whole.secret))


def client_of(key: Key, name: str, generation: int = 0) -> ClientOf:
    """What the certificate of an agent says of the repository of a key."""
    whole = required_appliance_key(key)
    return ClientOf(whole.repository_id, whole.client_id(name, generation))
