"""Which client of the repositories a name is, and its put keys: for enrolment and renewal.

A client's id and keys follow from its name and its generation, and from the secret of the
repository, which the appliance key holds. The catalog has the generation. It is raised when the
name is enrolled with a token for a new client, after a compromise: what the old keys opened or made
is not the new client's. All methods block: call them in a thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongroom.daemons.director.catalog.clients import generation_of, next_generation
from strongroom.errors import PeerRefusedError
from strongroom.net.identities.peer import ClientOf
from strongroom.repo.keys.files import export_key

if TYPE_CHECKING:
    from strongroom.daemons.director.context import DirectorContext
    from strongroom.net.identities.enrolment_tokens import TokenUse
    from strongroom.net.identities.peer import Peer
    from strongroom.repo.keys.roles import ApplianceKey


class EnrolledClient:
    """See the module's docstring. put_keys: as text, one for each repository; of agents only."""

    def __init__(self, context: DirectorContext, keys: tuple[ApplianceKey, ...], name: str) -> None:
        """`keys`: of the repositories whose clients are enrolled here."""
        self._context = context
        self._keys = keys
        self._name = name
        self.put_keys: list[str] = []

    def look(self, use: TokenUse) -> None:
        """Whether the name can be enrolled now, before its token is consumed.

        Raises PeerRefusedError for the director's own name, CatalogUnavailableError.
        """
        if use.role == "agent" and self._name == self._context.name:
            raise PeerRefusedError(
                f"{self._name!r} is the name of this director, whose backups of the catalog are "
                "those of a client of that name: choose another for the agent"
            )
        generation_of(self._context.catalog, self._name)

    def enrol(self, use: TokenUse) -> tuple[ClientOf, ...]:
        """Which client the bearer of a token is, a new one where the token says so."""
        if use.new_client:
            next_generation(self._context.catalog, self._name)
        return self._clients(use.role)

    def renew(self, peer: Peer) -> tuple[ClientOf, ...]:
        """Which client a peer is; where the key is elsewhere as its certificate says."""
        ours = {key.repository_id for key in self._keys}
        others = tuple(one for one in peer.clients if one.repository not in ours)
        return self._clients(peer.role) + others

    def _clients(self, role: str) -> tuple[ClientOf, ...]:
        if role != "agent":
            return ()
        generation = generation_of(self._context.catalog, self._name)
        made = [key.put_key(self._name, generation) for key in self._keys]
        self.put_keys = [export_key(key) for key in made]
        return tuple(ClientOf(key.repository_id, key.client_id) for key in made)
