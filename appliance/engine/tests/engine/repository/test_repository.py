"""A repository opens with its keys only, and with none that somebody slipped in."""

import msgspec
import pytest

from kit.memory_store import MemoryStore
from kit.tiny_backup import CHEAP, PASSPHRASE, TinyBackup, back_up, new_repository, read_back
from strongroom.base.errors import (
    DamageError,
    KeyRightError,
    LeaseError,
    RepositoryExistsError,
    RepositoryNotFoundError,
    RightError,
    StrongroomError,
    UnknownFormatError,
    UsageError,
    WrongKeyError,
)
from strongroom.engine.content.ciphers import AES_256_GCM
from strongroom.engine.content.digests import object_name
from strongroom.engine.repository.keys.roles import new_restore_key
from strongroom.engine.repository.keys.wrapping import wrap_key
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import Snapshot, encode_snapshot, read_snapshot
from strongroom.engine.stores.local import LocalStore

FILES = {b"a": b"text", b"b": b"more text"}


@pytest.fixture
def store(tmp_path):
    return LocalStore(tmp_path / "r")


def without_passphrase(store):
    return Repository.create(store, None, encryption="none").for_client("host")


def config_of(repository):
    return repository.store.get("config", "config")


def change_config(repository, data):
    repository.store.replace("config", "config", data)


@pytest.mark.parametrize("encryption", ["auto", "aes-256-gcm", "chacha20-poly1305", "none"])
def test_what_was_backed_up_reads_back_after_opening_again(store, encryption):
    made = Repository.create(store, PASSPHRASE, encryption=encryption, cost=CHEAP)
    made = made.for_client("host")
    snapshot = back_up(made, FILES)
    opened = Repository.open(store.reopen(), PASSPHRASE)
    assert read_back(opened, snapshot.id) == FILES
    assert opened.encrypted == (encryption != "none")
    assert opened.cipher == made.cipher


def test_a_repository_without_passphrase_opens_without_one(store):
    snapshot = back_up(without_passphrase(store), FILES)
    assert read_back(Repository.open(store, None), snapshot.id) == FILES


def test_encryption_without_passphrase_is_refused(store):
    with pytest.raises(UsageError):
        Repository.create(store, None)


def test_a_repository_is_not_made_over_another(store):
    new_repository(store)
    before = config_of(Repository.open(store, PASSPHRASE))
    with pytest.raises(RepositoryExistsError):
        new_repository(store)
    assert store.get("config", "config") == before


def test_no_repository_says_so(store):
    with pytest.raises(RepositoryNotFoundError):
        Repository.open(store, PASSPHRASE)
    store.prepare()
    with pytest.raises(RepositoryNotFoundError):
        Repository.open(store, PASSPHRASE)


def test_only_the_right_secret_opens(store, tmp_path):
    new_repository(store)
    other = new_repository(LocalStore(tmp_path / "other"))
    for secret in (b"wrong", b"", None, other.key, other.writer):
        with pytest.raises(WrongKeyError):
            Repository.open(store, secret)


def test_a_put_key_adds_but_does_not_read(store):
    repository = new_repository(store)
    put_only = Repository.open(store, repository.writer)
    snapshot = back_up(put_only, FILES)
    assert read_back(repository, snapshot.id) == FILES
    assert [item.id for item in put_only.snapshots()] == [snapshot.id]
    for attempt in (
        lambda: put_only.snapshot(snapshot.id),
        lambda: put_only.reader_of(snapshot, put_only.load_index()),
        lambda: put_only.add_passphrase(b"new"),
    ):
        with pytest.raises(KeyRightError):
            attempt()


def test_a_put_key_deduplicates_against_what_is_there(store):
    repository = new_repository(store)
    back_up(repository, FILES)
    backup = TinyBackup(Repository.open(store, repository.writer))
    backup.store(FILES)
    backup.commit()
    assert backup.new_chunks == 0


def test_whoever_writes_says_for_which_client(store):
    repository = new_repository(store).for_all_clients()
    assert repository.client is None
    with pytest.raises(KeyRightError, match="name the client"):
        _ = repository.writer
    web1, web2 = repository.for_client("web1"), repository.for_client("web2")
    for client, files in ((web1, FILES), (web2, {b"c": b"of web2"})):
        back_up(client, files)
    assert sorted(one.host for one in repository.snapshots()) == ["web1", "web2"]
    assert {one.owner for one in repository.snapshots()} == {
        web1.writer.client_id,
        web2.writer.client_id,
    }
    assert len(repository.load_index().packs()) == 4
    for client in (web1, web2):
        assert len(client.load_index().packs()) == 2
        assert len(client.for_all_clients().load_index().packs()) == 4
        assert client.reopen().writer == client.writer


def test_a_put_key_is_its_client_and_no_other(store):
    repository = new_repository(store)
    web1 = Repository.open(store, repository.key.put_key("web1"))
    web2 = Repository.open(store, repository.key.put_key("web2"))
    back_up(web1, FILES)
    assert web2.snapshots() == []
    assert web2.load_index().packs() == []
    assert web1.for_client("web1").writer == web1.writer
    for attempt in (lambda: web1.for_client("web2"), web1.for_all_clients):
        with pytest.raises(KeyRightError):
            attempt()
    # Chunks of others are not found, and so nothing tells that they are there.
    backup = TinyBackup(web2)
    backup.store(FILES)
    backup.commit()
    assert backup.new_chunks == len(FILES)


def test_no_snapshot_of_one_client_is_another_clients_by_its_name(store):
    repository = new_repository(store)
    thief = msgspec.structs.replace(repository.key.put_key("web1"), name="web2")
    with repository.for_client("web1").lease("h", 1, "backup"):
        forged = write_snapshot_as(store, thief)
    with pytest.raises(DamageError, match="web2"):
        read_snapshot(store, repository.key, forged)
    with pytest.raises(KeyRightError):
        read_snapshot(store, repository.key.put_key("web2"), forged)


def write_snapshot_as(store, key):
    data = encode_snapshot(key, Snapshot(host=""), AES_256_GCM)
    store.put_durable("snapshots", object_name(data), data)
    return object_name(data)


def test_a_configuration_that_another_appliance_signed_is_refused(store, tmp_path):
    """An agent knows everything in it, and so could write one, but not sign it."""
    repository = new_repository(store)
    line, _, _ = config_of(repository).split(b"\n")
    stranger = new_restore_key().sign(b"strongroom configuration 1" + line).hex().encode()
    for signature in (stranger, b"", b"0" * 128, b"not hexadecimal"):
        change_config(repository, line + b"\n" + signature + b"\n")
        for secret in (PASSPHRASE, repository.key, repository.writer):
            with pytest.raises(DamageError, match="configuration"):
                Repository.open(store, secret)


def test_passphrases_come_and_go(store):
    repository = new_repository(store)
    name = repository.add_passphrase(b"second", "laptop", CHEAP)
    assert {info.label for _, info in repository.passphrases()} == {"", "laptop"}
    assert Repository.open(store, b"second").key == repository.key
    first = next(item for item, _ in repository.passphrases() if item != name)
    repository.remove_passphrase(first[:8])
    with pytest.raises(WrongKeyError):
        Repository.open(store, PASSPHRASE)
    with pytest.raises(UsageError, match="last"):
        repository.remove_passphrase(name)
    for wrong in ("", "zz", first):
        with pytest.raises(UsageError):
            repository.remove_passphrase(wrong)
    assert Repository.open(store, b"second").key == repository.key


def test_a_key_left_by_an_init_that_was_cut_off_does_no_harm(store):
    store.prepare()
    store.put("keys", "0" * 32, wrap_key(new_restore_key(), PASSPHRASE, "", CHEAP))
    repository = new_repository(store)
    assert Repository.open(store, PASSPHRASE).key == repository.key


@pytest.mark.parametrize("field", ["encryption", "restore_public", "created_ns"])
def test_no_field_of_the_configuration_can_be_changed(store, field):
    repository = new_repository(store)
    line, authenticator, _ = config_of(repository).split(b"\n")
    forged = msgspec.json.decode(line)
    forged[field] = {
        "encryption": "none",
        "restore_public": new_restore_key().restore_public.hex(),
        "created_ns": 0,
    }[field]
    change_config(repository, msgspec.json.encode(forged) + b"\n" + authenticator + b"\n")
    for secret in (PASSPHRASE, repository.key, repository.writer):
        with pytest.raises(DamageError, match="configuration"):
            Repository.open(store, secret)


def test_a_passphrase_is_never_used_where_keys_lie_open(store, tmp_path):
    """A hostile store could offer such a configuration to read what is then written."""
    new_repository(store)
    hostile = without_passphrase(LocalStore(tmp_path / "hostile"))
    store.replace("config", "config", config_of(hostile))
    with pytest.raises(WrongKeyError, match="no passphrase"):
        Repository.open(store, PASSPHRASE)


def test_a_newer_repository_asks_for_a_newer_strongroom(store):
    repository = new_repository(store)
    change_config(repository, config_of(repository).replace(b'"strongroom":1', b'"strongroom":2'))
    with pytest.raises(UnknownFormatError, match="update"):
        Repository.open(store, PASSPHRASE)


def test_any_damage_to_the_configuration_is_an_error_of_ours(store):
    for make in (new_repository, without_passphrase):
        made = make(LocalStore(store.location + make.__name__))
        data = config_of(made)
        secret = None if make is without_passphrase else PASSPHRASE
        for at in range(0, len(data) - 1, 3):
            change_config(made, data[:at] + bytes([data[at] ^ 2]) + data[at + 1 :])
            with pytest.raises(StrongroomError):
                Repository.open(made.store, secret)
        for size in range(0, len(data) - 1, 7):
            change_config(made, data[:size])
            with pytest.raises(StrongroomError):
                Repository.open(made.store, secret)


def test_a_forked_process_reads_through_a_store_of_its_own(store):
    repository = new_repository(store)
    snapshot = back_up(repository, FILES)
    again = repository.reopen()
    assert again.store is not repository.store
    repository.close()
    assert read_back(again, snapshot.id) == FILES


class FarStore(MemoryStore):
    """Keeps what it listed ahead until it is asked, as an object store does."""

    def __init__(self, objects=None):
        super().__init__(objects)
        self.ahead = {}

    def list_ahead(self, kinds, meanwhile):
        self.ahead.update({kind: list(super(FarStore, self).list(kind)) for kind in kinds})
        return meanwhile()

    def list(self, kind):
        return iter(self.ahead.pop(kind)) if kind in self.ahead else super().list(kind)


@pytest.mark.parametrize("has_secret", [True, False])
def test_no_snapshot_goes_with_an_older_list_of_the_index(has_secret):
    made = new_repository(FarStore())
    first = back_up(made, {b"a": b"first" * 100})
    secret = made.restore_key if has_secret else PASSPHRASE
    store = made.store.reopen()
    if not has_secret:
        with pytest.raises(WrongKeyError):
            Repository.open(store, None, views=True)
        back_up(made, {b"b": b"second" * 100})
        view = Repository.open(store, secret)
    else:
        view = Repository.open(store, secret, views=True)
        back_up(made, {b"b": b"second" * 100})
    found = view.snapshots()
    assert first.id in {one.id for one in found}
    for one in found:
        read_back(view, one.id)


class AddingStore(MemoryStore):
    """Lets nobody delete."""

    def delete(self, kind, name):
        raise RightError("delete")


def test_a_snapshot_that_cannot_be_taken_back_is_named(monkeypatch):
    made = new_repository(AddingStore())
    lease = made.lease("host", 1, "backup")

    def end():
        raise LeaseError("the lease has ended")

    monkeypatch.setattr(lease, "confirm", end)
    with pytest.raises(LeaseError) as raised:
        made.commit(Snapshot(host="", paths=(b"/",)), lease)
    (stored,) = made.store.list("snapshots")
    assert stored.name[:8] in str(raised.value)
