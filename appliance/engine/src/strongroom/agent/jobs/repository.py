"""Opens the repository of a StorageTarget: at a storage daemon, or in a local folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from strongroom.agent.jobs.description import JobDescription
from strongroom.agent.put_keys import read_put_keys
from strongroom.base.errors import WrongKeyError
from strongroom.engine.repository.keys.roles import PutKey
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.restore_ticket import TicketRepository, open_with_ticket
from strongroom.engine.repository.ticket_objects import TicketObject, fetch_ticket
from strongroom.engine.stores.limited import LimitedStore, Limiter
from strongroom.engine.stores.local import LocalStore
from strongroom.engine.stores.place import RemoteLocation
from strongroom.engine.stores.store import Store
from strongroom.net.channels.listening import host_in_url
from strongroom.net.control.messages import (
    StartBackup,
    StartRestore,
    StartVerify,
    StorageTarget,
)
from strongroom.net.storage.store import RemoteStore


class JobStore:
    """The store of one job with the job's bandwidth limit, and the security of its connection."""

    def __init__(
        self,
        target: StorageTarget,
        store: Store,
        remote: RemoteStore | None,
        cache_folder: bytes | None = None,
    ) -> None:
        self.store = store
        self._cache_folder = cache_folder
        self._target = target
        self._remote = remote

    def security(self) -> dict[str, Any]:
        """Fields of net.channel.Security; empty for a local folder."""
        return {} if self._remote is None else self._remote.security.report()

    def open(self, put_keys: dict[str, PutKey]) -> Repository:
        """Open with the matching put key. Raises WrongKeyError and what `Repository.open` does."""
        wanted = self._target.repository_id
        if wanted in put_keys:
            return self._opened(put_keys[wanted])
        for put_key in put_keys.values():
            try:
                return self._opened(put_key)
            except WrongKeyError:
                continue
        known = ", ".join(sorted(identity[:8] for identity in put_keys))
        raise WrongKeyError(
            f"no put key of this agent belongs to the repository at {self.store.location} (it has "
            "those "
            f"of {known}): enrol it again"
        )

    def _opened(self, put_key: PutKey) -> Repository:
        return Repository.open(self.store, put_key, cache_folder=self._cache_folder)


def open_store(
    description: JobDescription,
    request: StartBackup | StartRestore | StartVerify,
    limiter: Limiter,
    grant: str = "",
) -> JobStore:
    """The store that a request names; connected at first use. Raises UsageError."""
    target = request.storage
    cache_folder = os.fsencode(description.cache_folder) or None
    if target.address.startswith("/"):
        store: Store = LocalStore(target.address)
        return JobStore(target, LimitedStore(store, limiter), None, cache_folder)
    from strongroom.net.identities.identity import Identity
    from strongroom.net.storage.place import open_network

    place = RemoteLocation(
        text=f"strongroom://{host_in_url(target.address)}:{target.port}/{target.repository_id}",
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
        cache_folder=cache_folder,
        job=request.run_id,
        grant=grant,
    )
    return JobStore(target, LimitedStore(remote, limiter), remote, cache_folder)


def open_ticket(store: JobStore, identity_folder: str, ticket: TicketObject) -> TicketRepository:
    """Open the ticket of a start message. Raises DamageError, WrongKeyError, StoreError."""
    put_keys = read_put_keys(identity_folder)
    repository = store.open(put_keys)
    found = fetch_ticket(store.store, ticket)
    return open_with_ticket(store.store, repository.writer, found, repository.cache_folder)
