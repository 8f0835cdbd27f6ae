"""Rewriting behind a storage daemon: nothing gets around its rules, no one gains by it."""

import pytest

from kit.forged_snapshot import NO_BLOCK, file_row, forge
from kit.tiny_backup import back_up
from strongroom.base.errors import KeyRightError, RightError, UsageError
from strongroom.base.progress import NullProgress
from strongroom.engine.check.vouch import required_judge, vouch
from strongroom.engine.copy.rewrite import Changes, TagChanges, replace_snapshots
from strongroom.storage.settings import StorageLimits

FILES = {b"one": b"first" * 1000, b"two": b"second" * 2000}
TAGGED = Changes(TagChanges(add=("kept",)))


@pytest.fixture
def agent(daemon, open_as):
    return open_as(daemon.agent("web1"), "web1")


def replaced(repository, changes=TAGGED):
    wanted = repository.snapshots()
    return list(replace_snapshots(repository, wanted, changes, NullProgress()))


def names(store):
    return {info.name for info in store.list("snapshots")}


def verify(appliance):
    vouch(appliance, required_judge(appliance.store), NullProgress())


def test_what_nobody_has_verified_is_not_made_the_appliances(daemon, appliance, agent):
    back_up(agent, FILES)
    forge(agent, file_row(b"f", NO_BLOCK))
    before = names(appliance.store)
    for changes in (TAGGED, Changes(host="web2")):
        with pytest.raises(UsageError, match="verified"):
            replaced(appliance, changes)
    assert names(appliance.store) == before


def test_an_agent_replaces_nothing(daemon, appliance, agent):
    back_up(agent, FILES)
    verify(appliance)
    with pytest.raises(KeyRightError):
        replaced(agent)
    assert len(names(appliance.store)) == 1


def test_a_verified_one_is_replaced_and_its_agent_continues(daemon, appliance, agent):
    back_up(agent, FILES)
    verify(appliance)
    (one,) = replaced(appliance)
    assert one.refused is None
    assert names(appliance.store) == {one.new.id}
    assert [found.tags for found in agent.snapshots()] == [one.tags]
    back_up(agent, FILES)
    assert len(names(appliance.store)) == 2


class TestMinimumRetention:
    @pytest.fixture
    def daemon(self, make_daemon):
        return make_daemon(limits=StorageLimits(minimum_retention_seconds=86400))

    def test_it_keeps_the_old_one_beside_the_new(self, appliance, agent):
        old = back_up(agent, FILES)
        verify(appliance)
        (one,) = replaced(appliance)
        assert isinstance(one.refused, RightError)
        assert names(appliance.store) == {old.id, one.new.id}
        # The next time there is one of these tags already.
        assert [again.new.id for again in replaced(appliance) if again.new] == [one.new.id]
        assert names(appliance.store) == {old.id, one.new.id}


def test_of_another_client_its_agent_sees_only_that(daemon, appliance, agent, open_as):
    back_up(agent, FILES)
    verify(appliance)
    other = open_as(daemon.agent("web2"), "web2")
    assert other.snapshots() == []
    (one,) = replaced(appliance, Changes(host="web2"))
    assert names(appliance.store) == {one.new.id}
    assert [found.id for found in other.snapshots()] == [one.new.id]
    assert agent.snapshots() == []
    # The content of the first client stays its own, until a prune removes it.
    seen = {info.name for info in other.store.list("packs")}
    assert seen
    assert not seen & {info.name for info in agent.store.list("packs")}
