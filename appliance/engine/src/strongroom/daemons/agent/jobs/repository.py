"""Opens the repository of a StorageTarget: at a storage daemon, or in a local folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from strongroom.daemons.agent.put_keys import read_put_keys
from strongroom.errors import WrongKeyError
from strongroom.repo.repository import Repository
from strongroom.repo.ticket_objects import fetch_ticket
from strongroom.stores.limited import LimitedStore
from strongroom.stores.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from strongroom.daemons.agent.jobs.description import JobDescription
    from strongroom.net.control.messages import (
        StartBackup,
        StartRestore,
        StartVerify,
        StorageTarget,
    )
    from strongroom.net.storage.store import RemoteStore
    from strongroom.repo.keys.roles import PutKey
    from strongroom.repo.restore_ticket import TicketRepository
    from strongroom.repo.ticket_objects import TicketObject
    from strongroom.stores.limited import Limiter
    from strongroom.stores.store import Store


class JobStore:
    """The store of one job with the job's bandwidth limit, and the security of its connection."""

    def __init__(self, target: StorageTarget, store: Store, remote: RemoteStore | None) -> None:
        self.store = store
        self._target = target
        self._remote = remote

    def security(self) -> dict[str, Any]:
        """Fields of net.channel.Security; empty for a local folder."""
        return {} if self._remote is None else self._remote.security.report()

    def open(self, put_keys: dict[str, PutKey]) -> Repository:
        """Open with the matching put key. Raises WrongKeyError and what `Repository.open` does."""
        wanted = self._target.repository_id
        if wanted in put_keys:
            return Repository.open(self.store, put_keys[wanted])
        for put_key in put_keys.values():
            try:
                return Repository.open(self.store, put_key)
            except WrongKeyError:
                continue
        known = ", ".join(sorted(identity[:8] for identity in put_keys))
        raise WrongKeyError(
            f"no put key of this agent fits the repository at {self.store.location} (it has those "
            f"of {known}): enrol it again"
        )


def open_store(
    description: JobDescription,
    request: StartBackup | StartRestore | StartVerify,
    limiter: Limiter,
    grant: str = "",
) -> JobStore:
    """The store that a request names; connected at first use. Raises UsageError."""
    target = request.storage
    if target.address.startswith("/"):
        store: Store = LocalStore(target.address)
        return JobStore(target, LimitedStore(store, limiter), None)
    from strongroom.net.identities.identity import Identity
    from strongroom.net.storage.place import RemotePlace, open_network

    shown = f"[{target.address}]" if ":" in target.address else target.address
    place = RemotePlace(
        text=f"strongroom://{shown}:{target.port}/{target.repository_id}",
        socket_path="",
        address=target.address,
        port=target.port,
        repository=target.repository_id,
    )
    load: Callable[[], Identity] = lambda: Identity.load(description.identity_folder)  # noqa: E731
    remote = open_network(
        place,
        load,
        server_name=target.server_name,
        tls_mode=target.tls_mode,
        cipher_suites=target.cipher_suites,
        cache_folder=os.fsencode(description.cache_folder) or None,
        job=request.run_id,
        grant=grant,
    )
    return JobStore(target, LimitedStore(remote, limiter), remote)


def open_ticket(store: JobStore, identity_folder: str, ticket: TicketObject) -> TicketRepository:
    """Open the ticket of a start message. Raises DamageError, WrongKeyError, StoreError."""
    from strongroom.repo.restore_ticket import open_with_ticket

    put_keys = read_put_keys(identity_folder)
    repository = store.open(put_keys)
    return open_with_ticket(store.store, repository.writer, fetch_ticket(store.store, ticket))
