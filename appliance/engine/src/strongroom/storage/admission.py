"""Who may connect to the storage port, and what for.

The configuration names every identity: Director resources the directors, `Clients` the agents,
`Restore Clients` those that only come with a grant of a director, to read what it names,
`Operators` the operators, each with its verbs. No one else connects, whatever certificate they
have. Local peers (root and the daemon's own user at the Unix socket) are not its business.

    list      names, sizes and times of objects
    read      their content
    add       packs, index objects, snapshots and leases of one's own
    vouch     the results of verification, and who stored what
    metrics   the metrics of the daemon
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from strongroom.config.settings.daemons import EVERYBODY
from strongroom.net.identities.peer import APPEND_ONLY_ROLE, Peer
from strongroom.net.storage.protocol import FrameType

LISTING: Final = frozenset((FrameType.LIST, FrameType.INFO, FrameType.UNVERIFIED))
_REQUESTS: Final = {
    "list": LISTING,
    "read": frozenset((FrameType.GET,)),
    "add": frozenset(
        (
            FrameType.PUT,
            FrameType.DATA,
            FrameType.COMMIT,
            FrameType.ABORT,
            FrameType.DELETE,
            FrameType.SYNC,
            FrameType.REMOVE_ABANDONED,
            # Neither reads nor stores; takes what adding takes of the line, and less of the rest.
            FrameType.PROBE,
        )
    ),
    "vouch": frozenset((FrameType.VOUCH, FrameType.OWNERS, FrameType.FALSE)),
    "metrics": frozenset((FrameType.METRICS,)),
}
AGENT_VERBS: Final = frozenset(("list", "read", "add"))
DIRECTOR_VERBS: Final = frozenset(_REQUESTS)
READING_VERBS: Final = frozenset(("list", "read"))
_NO_VERBS: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class Admission:
    """Names of agents and directors, and the verbs of operators by name; EVERYBODY: any name.

    restoring: agents that may only read, and only with a grant.
    """

    clients: frozenset[str] = frozenset()
    restoring: frozenset[str] = frozenset()
    directors: frozenset[str] = frozenset()
    operators: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))

    def verbs(self, peer: Peer) -> frozenset[str]:
        """What a peer over the network may do; nothing if the configuration does not name it."""
        if peer.role == APPEND_ONLY_ROLE:
            # No certificate has this role: who serves the peer gave it.
            return AGENT_VERBS
        if peer.role == "agent":
            if _has(self.clients, peer.name):
                return AGENT_VERBS
            return READING_VERBS if _has(self.restoring, peer.name) else _NO_VERBS
        if peer.role == "director":
            return DIRECTOR_VERBS if _has(self.directors, peer.name) else _NO_VERBS
        if peer.role == "operator":
            return self.operators.get(peer.name, self.operators.get(EVERYBODY, _NO_VERBS))
        return _NO_VERBS


def requests_of(verbs: frozenset[str]) -> frozenset[FrameType]:
    """The requests that somebody with these verbs may send."""
    return frozenset().union(*(_REQUESTS[verb] for verb in verbs))


def _has(names: frozenset[str], name: str) -> bool:
    return name in names or EVERYBODY in names
