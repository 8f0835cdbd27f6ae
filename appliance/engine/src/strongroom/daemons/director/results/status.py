"""The state of the director as a whole, what ends soon, and the result of a reload."""

from __future__ import annotations

from dataclasses import dataclass

from strongroom.daemons.director.results.notices import OpenIncident
from strongroom.daemons.director.results.resources import DueRun
from strongroom.daemons.director.results.runs import Run
from strongroom.daemons.director.served_formats import Time, served


@served()
@dataclass(frozen=True, slots=True)
class Expiry:
    """What ends: a certificate, a token, the authority. remedy: what to do when it ends soon.

    kind: authority, director, storage, agent, operator or token. id: of a token. client: that an
    agent is; storage: that a storage daemon of this name serves. is_soon: it ends soon, or has.
    """

    kind: str
    name: str
    id: str
    client: str
    storage: str
    begun_ns: Time
    ends_ns: Time
    is_soon: bool
    remedy: str

    @property
    def title(self) -> str:
        """What ends, in words."""
        if self.kind == "token":
            return f"the API token {self.id} of {self.name}"
        if self.kind == "authority":
            return "the certificate of the authority"
        return f"the certificate of {self.kind} {self.name}"


@served()
@dataclass(frozen=True, slots=True)
class Status:
    """Status of the director, with the runs and clients that the caller may see.

    problems: what is wrong, errors first, then the oldest first. warnings: conditions that need an
    operator (a clock that jumped). expiries: of certificates and tokens, the first to end first.
    restart_needed: directives that were changed and are in force only after a restart.
    """

    name: str
    version: str
    started_ns: Time
    now_ns: Time
    time_zone: str
    clients: int
    clients_connected: int
    active: tuple[Run, ...]
    recent: tuple[Run, ...]
    due: tuple[DueRun, ...]
    warnings: tuple[str, ...]
    problems: tuple[OpenIncident, ...]
    expiries: tuple[Expiry, ...]
    restart_needed: tuple[str, ...]


@served()
@dataclass(frozen=True, slots=True)
class Reload:
    """The result of a reload; with errors the old configuration stays in force."""

    is_loaded: bool
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    restart_needed: tuple[str, ...] = ()
