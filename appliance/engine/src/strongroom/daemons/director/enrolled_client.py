"""Which client of the repositories a name is, and its put keys: for enrolment and renewal.

A client's id and keys follow from its name and its generation, and from the secret of the
repository, which the appliance key holds. The catalog has the generation. It is raised when the
name is enrolled with a token for a new client, after a compromise: what the old keys opened or made
is not the new client's. All methods block: call them in a thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strongroom.daemons.director.catalog.clients import (
    generation_of,
    is_known,
    next_generation,
)
from strongroom.errors import PeerRefusedError
from strongroom.net.identities.peer import ClientOf
from strongroom.repo.keys.files import export_key

if TYPE_CHECKING:
    from strongroom.daemons.director.context import DirectorContext
    from strongroom.net.identities.enrolment_tokens import TokenUse
    from strongroom.net.identities.peer import Peer
    from strongroom.repo.keys.roles import ApplianceKey

# What Ansible and others run for such a name they run on the machine that they are on.
_EVERY_MACHINE: Final = frozenset(("localhost", "127.0.0.1", "::1"))


class EnrolledClient:
    """See the module's docstring. put_keys: as text, one for each repository; of agents only."""

    def __init__(self, context: DirectorContext, keys: tuple[ApplianceKey, ...], name: str) -> None:
        """`keys`: of the repositories whose clients are enrolled here."""
        self._context = context
        self._keys = keys
        self._name = name
        self.put_keys: list[str] = []

    def look(self, use: TokenUse, *, is_repeated: bool = False) -> None:
        """Whether the name can be enrolled now, before its token is used.

        is_repeated: the same machine has used it already. Raises PeerRefusedError for the
        director's own name, and if the token is for no single name for one that means something
        else, and one that was ever enrolled or backed up: its keys are those of the client before.
        CatalogUnavailableError.
        """
        if use.role == "agent" and self._name == self._context.name:
            raise PeerRefusedError(
                f"{self._name!r} is the name of this director, whose backups of the catalog are "
                "those of a client of that name: choose another for the agent"
            )
        generation_of(self._context.catalog, self._name)
        if use.name or is_repeated:
            return
        if use.role == "agent":
            self._require_free_of_meaning()
        if is_known(self._context.catalog, self._name):
            raise PeerRefusedError(
                f"there was a client {self._name!r} already; choose another name, or ask for a "
                "token for just this name"
            )

    def _require_free_of_meaning(self) -> None:
        """A machine that chooses its name does not choose that of a job, or of every machine."""
        configuration, folded = self._context.configuration, self._name.casefold()
        if folded in _EVERY_MACHINE:
            raise PeerRefusedError(
                f"{self._name!r} means every machine itself: choose another name"
            )
        for name, job in configuration.jobs.items():
            if name.casefold() == folded and job.client != self._name:
                raise PeerRefusedError(f"there is a job {name!r} already; choose another name")

    def enrol(self, use: TokenUse) -> tuple[ClientOf, ...]:
        """Which client the bearer of a token is, a new one where the token says so."""
        if use.new_client:
            next_generation(self._context.catalog, self._name)
        return self._clients(use.role)

    def deliver(self, peer: Peer) -> list[str]:
        """The put keys of an agent, as text: for the holder of its certificate alone.

        Raises PeerRefusedError where the certificate is that of an earlier client of the name.
        """
        if any(one not in peer.clients for one in self._clients(peer.role)):
            raise PeerRefusedError(f"the certificate of {peer} is not of the present client")
        return self.put_keys

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
