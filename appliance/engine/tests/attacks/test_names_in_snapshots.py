"""A compromised agent stores a snapshot in the name of another client, for `restore --host`."""

import pytest
from msgspec.structs import replace

from kit.forged_snapshot import file_row, forge
from kit.tiny_backup import PASSPHRASE, TinyBackup, back_up, new_repository
from kit.user import User
from strongroom.base.errors import RightError, SetAsideError
from strongroom.base.progress import NullProgress
from strongroom.engine.check.vouch import required_judge, vouch
from strongroom.engine.content.digests import object_name
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import encode_snapshot
from strongroom.engine.stores.local import LocalStore

TRUE = {b"authorized_keys": b"the key of the owner of web2"}
FORGED = {b"authorized_keys": b"the key of the attacker"}
FUTURE_NS = 2 * 10**18


def under_its_own_id(key, victim):
    """Sealed under the attacker's keys and id; only the name inside is the victim's."""
    return replace(key, name=victim.name)


def under_the_victims_id(key, victim):
    """With the victim's id in the open; the attacker does not have the keys that go with it."""
    return replace(key, name=victim.name, client_id=victim.client_id)


def plant(repository, pretended):
    """Content and listing as the attacker, the snapshot in the other's name."""
    backup = TinyBackup(repository)
    backup.store(FORGED)
    made = backup.commit()
    with repository.lease("web1", 1, "backup") as lease:
        snapshot = replace_fields(made, start_ns=FUTURE_NS, server_ns=lease.store_time_ns)
        data = encode_snapshot(pretended, snapshot, repository.cipher)
        repository.store.put_durable("snapshots", object_name(data), data)
    return made.id, object_name(data)


def replace_fields(snapshot, **fields):
    return type(snapshot)(
        **{
            **{name: getattr(snapshot, name) for name in snapshot.__struct_fields__},
            **fields,
        }
    )


def restored(user):
    """The snapshot that `restore latest --host web2` takes; or the error."""
    outcome = user.run("restore", "latest", "--host", "web2", "-t", user.folder / "restored")
    return outcome.error or outcome.summary["snapshot"], outcome.messages


@pytest.mark.parametrize("is_vouched", [False, True])
@pytest.mark.parametrize("pretend", [under_its_own_id, under_the_victims_id])
def test_restore_of_a_host_takes_nothing_that_another_agent_stored_at_the_daemon(
    daemon, appliance, open_as, tmp_path, pretend, is_vouched
):
    attacker, victim = open_as(daemon.agent("web1"), "web1"), open_as(daemon.agent("web2"), "web2")
    true = back_up(victim, TRUE)
    if pretend is under_the_victims_id:
        with pytest.raises(RightError, match="another client"):
            plant(attacker, pretend(attacker.key, victim.key))
        own = forged = ""
    else:
        own, forged = plant(attacker, pretend(attacker.key, victim.key))
    if is_vouched:
        report = vouch(appliance, required_judge(appliance.store), NullProgress())
        assert {name for _, name, _ in report.false_objects} == {forged} - {""}
    user = daemon.operator(tmp_path)
    assert restored(user)[0] == true.id
    outcome = user.run("snapshots")
    # What is not verified and cannot be read is named.
    assert (outcome.code == SetAsideError.exit_code) == bool(forged and not is_vouched)
    listed = outcome.of_type("snapshot")
    assert all(one["host"] == "web1" for one in listed if one["id"] == own)
    assert forged not in {one["id"] for one in listed if not one["false"]}


@pytest.mark.parametrize("pretend", [under_its_own_id, under_the_victims_id])
def test_restore_of_a_host_takes_nothing_that_another_key_made_in_a_plain_folder(tmp_path, pretend):
    user = User(tmp_path, environment={"STRONGROOM_PASSWORD": PASSPHRASE.decode()})
    house = new_repository(LocalStore(str(user.repository)))
    victim = Repository.open(house.store, house.key.put_key("web2"))
    attacker = Repository.open(house.store, house.key.put_key("web1"))
    true = back_up(victim, TRUE)
    _, forged = plant(attacker, pretend(attacker.key, victim.key))
    error, messages = restored(user)
    if pretend is under_its_own_id:
        # It concerns the clients whose keys it names.
        assert error == true.id
        return
    # There no one knows who stored what: the folder is one trust domain, and the forgery is damage.
    assert error == "damage"
    assert forged in messages
    (user.repository / "snapshots" / forged).unlink()
    assert restored(user)[0] == true.id


def test_the_name_that_a_writer_gives_itself_is_not_what_is_stored(daemon, appliance, open_as):
    attacker = open_as(daemon.agent("web1"), "web1")
    back_up(attacker, FORGED)
    index = attacker.load_index()
    made = forge(attacker, file_row(b"f", index.block_ids(0, 1)), host="web2")
    (found,) = (one for one in appliance.snapshots() if one.id == made.id)
    assert found.host == "web1"
