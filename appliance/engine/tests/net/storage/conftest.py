"""A storage daemon of the test's own, in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kit.storage_daemon import Daemon
from kit.storage_fixtures import appliance, daemon, make_daemon, open_as, site
from strongroom.net.identities.peer import Peer
from strongroom.net.storage.protocol import PROTOCOL_VERSION, StorageHello
from strongroom.net.storage.store import RemoteStore

__all__ = ["appliance", "daemon", "make_daemon", "open_as", "site"]


@pytest.fixture
def far(daemon: Daemon) -> Iterator[RemoteStore]:
    """The store of an agent that thinks the daemon is far away."""
    store = RemoteStore(
        "strongroom://somewhere",
        lambda: daemon.connect(Peer("web1", "agent", "ab")),
        StorageHello(PROTOCOL_VERSION),
        is_far=True,
    )
    yield store
    store.close()
