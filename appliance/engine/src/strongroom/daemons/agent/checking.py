"""Whether the agent could start, and back up; see preflight."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from strongroom.daemons.agent.put_keys import read_put_keys
from strongroom.daemons.agent.restore_authority import restore_authority_path
from strongroom.daemons.agent.settings import load_settings
from strongroom.daemons.preflight import Preflight
from strongroom.errors import KeyRightError, PeerRefusedError
from strongroom.net.channels.tls_contexts import client_context
from strongroom.net.identities.identity import Identity
from strongroom.net.renewal.certificates import require_living

if TYPE_CHECKING:
    from strongroom.daemons.agent.settings import AgentSettings


def check_agent(path: str) -> tuple[AgentSettings, Preflight]:
    """The settings at `path`, and the faults of what they name.

    Raises ConfigurationError and UsageError when the configuration itself is invalid.
    """
    settings = load_settings(path)
    look = Preflight()
    with look.part("Identity Directory"):
        identity = Identity.load(settings.identity_folder)
        if identity.role != "agent" or identity.name != settings.name:
            raise PeerRefusedError(
                f"the certificate in {settings.identity_folder} is of {identity.peer}, but this "
                f"agent is {settings.name!r}: enrol it, or correct the Client's Name"
            )
        require_living(identity)
        client_context(identity, check_hostname=False)
        with look.part("put keys in the Identity Directory"):
            try:
                read_put_keys(settings.identity_folder)
            except KeyRightError as error:  # without a put key it restores, but cannot back up
                look.warnings.append(str(error))
    authority = restore_authority_path(path)
    if os.path.exists(settings.restore_socket) and not os.path.exists(authority):
        look.warnings.append(
            f"{authority} is missing, so nothing is restored through Restore Socket: enrol as "
            f"root, or as root copy {settings.identity_folder}/authority.pem there"
        )
    look.writable("Working Directory", settings.working_folder)
    look.changeable("Working Directory", os.path.join(settings.working_folder, "agent.lock"))
    look.addresses("Address, Port and Addresses of the Client", settings.listen_addresses)
    return settings, look
