"""What an agent gets listed, and what that costs."""

from __future__ import annotations

from typing import ClassVar

import pytest

from kit.tiny_backup import new_repository
from strongroom.engine.content.digests import object_name
from strongroom.engine.stores.local import LocalStore


class WatchedStore(LocalStore):
    """Tells what is listed, and lets something happen before an object is checked."""

    listed: ClassVar[list[str]] = []
    happens = None

    def list(self, kind):
        self.listed.append(kind)
        self._happen(kind)
        yield from super().list(kind)

    def info(self, kind, name):
        self._happen(kind)
        return super().info(kind, name)

    @classmethod
    def _happen(cls, kind):
        if kind == "index" and cls.happens is not None:
            happens, cls.happens = cls.happens, None
            happens()


@pytest.fixture
def daemon(make_daemon):
    WatchedStore.listed, WatchedStore.happens = [], None
    made = make_daemon(open_store=WatchedStore)
    new_repository(made.local()).close()
    return made


def put(store, kind, data):
    store.put(kind, object_name(data), data)
    return object_name(data)


def names(store, kind):
    return {info.name for info in store.list(kind)}


@pytest.mark.parametrize("kind", ["packs", "index", "snapshots", "leases"])
def test_objects_of_others_are_not_looked_at_for_an_agent(daemon, kind):
    local = daemon.local()
    own = put(local, kind, daemon.object_of("web1", b"own"))
    for number in range(5):
        put(local, kind, daemon.object_of("web2", b"%d" % number))
    WatchedStore.listed.clear()
    agent = daemon.agent("web1")
    assert names(agent, kind) == {own}
    assert WatchedStore.listed == []
    assert len(names(local, kind)) == 6
    assert WatchedStore.listed == [kind]


def test_where_one_object_replaces_another_an_agent_sees_one_of_them(daemon):
    local = daemon.local()
    old = put(local, "index", daemon.object_of("web1", b"old"))
    replaced = []

    def replace():
        replaced.append(put(daemon.local(), "index", daemon.object_of("web1", b"new")))
        daemon.local().delete("index", old)

    WatchedStore.happens = replace
    assert names(daemon.agent("web1"), "index") == set(replaced)
