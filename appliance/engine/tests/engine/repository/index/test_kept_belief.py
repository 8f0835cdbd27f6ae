"""What a client keeps of the index is believed only as far as the repository says it now."""

import os
import signal

import msgspec
import pytest

from kit.block_making import block_id_of, chunk_ids_of, make_pack
from kit.tiny_backup import new_repository
from strongroom.base.errors import DamageError
from strongroom.engine.content.ciphers import object_key, object_prefix
from strongroom.engine.repository import cache_folder
from strongroom.engine.repository.index import sorted_file
from strongroom.engine.repository.index.kept_index import KeptIndex
from strongroom.engine.repository.index.kept_runs import RunFolder
from strongroom.engine.repository.index.objects import write_index_object
from strongroom.engine.repository.keys.roles import PackKeys, TicketKey
from strongroom.engine.stores.local import LocalStore


def kept(repository, cache, key=None):
    index = KeptIndex(repository.store, key or repository.key, repository.writer.client_id, cache)
    index.load_chunks()
    return index


def written(repository, footers, superseded=()):
    key = repository.for_all_clients().key
    owner = repository.writer.client_id
    return write_index_object(repository.store, key, owner, footers, superseded, repository.cipher)


def claimed(index, repository, chunks):
    return sorted(index.claim(chunk_ids_of(repository, chunks)))


def false_footer(repository, footer, chunks):
    """A footer that says the pack holds the block of other chunks."""
    columns = msgspec.structs.replace(
        footer.columns,
        block_ids=block_id_of(repository, chunks),
        chunk_ids=chunk_ids_of(repository, chunks),
    )
    return msgspec.structs.replace(footer, columns=columns)


def test_chunks_count_only_by_the_object_that_describes_their_pack_now(repository, cache):
    footer = make_pack(repository, [[b"here", b"also"]])
    first = written(repository, [false_footer(repository, footer, [b"gone", b"lost"])])
    assert claimed(kept(repository, cache), repository, [b"gone", b"lost"]) == [0, 1]
    # A repair describes the pack as its footer does.
    written(repository, [footer], [first])
    for _ in range(2):
        index = kept(repository, cache)
        assert claimed(index, repository, [b"gone", b"lost"]) == []
        assert claimed(index, repository, [b"here", b"also"]) == [0, 1]
    repository.store.delete("index", first)
    assert claimed(kept(repository, cache), repository, [b"gone", b"lost"]) == []


def test_an_unverified_object_says_nothing_of_the_chunks_of_packs_that_another_describes(
    repository, cache, monkeypatch
):
    footer, other = make_pack(repository, [[b"here"]]), make_pack(repository, [[b"new"]])
    written(repository, [footer])
    false = written(repository, [false_footer(repository, footer, [b"gone"]), other])
    unverified = lambda kind: frozenset({false} if kind == "index" else ())  # noqa: E731
    monkeypatch.setattr(repository.store, "unverified", unverified)
    for _ in range(2):
        index = kept(repository, cache)
        assert claimed(index, repository, [b"here", b"gone", b"new"]) == [0, 2]
    repository.store.delete("index", false)
    assert claimed(kept(repository, cache), repository, [b"here", b"gone", b"new"]) == [0]


def test_a_key_of_a_ticket_opens_no_object_for_the_client_s_own_jobs(repository, cache):
    # It opens by a key that the maker of the ticket chose, not by the client's: kept, it would be
    # believed by the next backup.
    footer = make_pack(repository, [[b"here"]])
    put_key = repository.writer
    foreign = new_repository(LocalStore(os.fsdecode(cache) + "-foreign"))
    foreign_key = foreign.for_all_clients().key.owner(put_key.client_id)

    class Forger:
        def owner(self, owner):
            assert owner == put_key.client_id
            return foreign_key

    false = false_footer(repository, footer, [b"gone"])
    name = write_index_object(
        repository.store, Forger(), put_key.client_id, [false], (), repository.cipher
    )
    prefix = object_prefix(repository.store.get("index", name, 28, 33))
    one_key = object_key(foreign_key.index_key, prefix, b"strongroom index 1")
    ticket_key = TicketKey(put_key, put_key.client, PackKeys(b""), {name: one_key})
    with pytest.raises(DamageError):
        KeptIndex(repository.store, ticket_key, put_key.client_id, cache)
    with pytest.raises(DamageError):
        kept(repository, cache, put_key)


def test_a_file_that_another_cuts_off_while_it_is_open_ends_no_process(repository, cache):
    blocks = [[b"%d" % number] for number in range(400)]
    written(repository, [make_pack(repository, blocks)])
    kept(repository, cache)
    child = os.fork()
    if not child:
        signal.signal(signal.SIGBUS, signal.SIG_DFL)
        index = kept(repository, cache)
        index.claim(chunk_ids_of(repository, [b"none"]))
        for at, _, names in os.walk(cache):
            for name in names:
                if name != b"key":
                    os.truncate(os.path.join(at, name), 0)
        ids = chunk_ids_of(repository, [chunk for chunks in blocks for chunk in chunks])
        os._exit(0 if len(index.claim(ids)) == 400 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_run_that_cannot_be_read_once_written_is_not_left_out(repository, cache, monkeypatch):
    written(repository, [make_pack(repository, [[b"here"]])])
    plain, count = RunFolder._take, 0  # noqa: SLF001

    def fails_once(self, descriptor, path):
        nonlocal count
        count += 1
        if count == 1:
            os.ftruncate(descriptor, 10)
        return plain(self, descriptor, path)

    monkeypatch.setattr(RunFolder, "_take", fails_once)
    assert claimed(kept(repository, cache), repository, [b"here"]) == [0]
    assert count > 1


def test_chunks_are_found_after_damage_during_repeated_reading(repository, cache, monkeypatch):
    written(repository, [make_pack(repository, [[b"here"]])])
    index = kept(repository, cache)
    plain, count = sorted_file.SortedFile.find, 0

    def damaged_twice(self, words, keys):
        nonlocal count
        count += 1
        if count < 3:
            raise sorted_file.FileDamageError(self, "it cannot be read")
        return plain(self, words, keys)

    monkeypatch.setattr(sorted_file.SortedFile, "find", damaged_twice)
    assert claimed(index, repository, [b"here"]) == [0]


def test_a_prune_while_chunks_are_read_has_nothing_read_twice(repository, cache):
    footers = [make_pack(repository, [[b"%d" % number]]) for number in range(4)]
    names = [written(repository, [footer]) for footer in footers]
    kept(repository, cache)
    late = make_pack(repository, [[b"late"]])
    names.append(written(repository, [late]))
    index = KeptIndex(repository.store, repository.key, repository.writer.client_id, cache)
    joined = written(repository, [*footers[3:], late], [names[3], names[4]])
    for name in names[3:]:
        repository.store.delete("index", name)
    read = []
    plain = repository.store.get

    def get(kind, name, *rest):
        read.append((kind, name))
        return plain(kind, name, *rest)

    repository.store.get = get
    index.load_chunks()
    assert {name for kind, name in read if kind == "index"} <= {joined, names[4]}
    assert claimed(index, repository, [b"0", b"3", b"late"]) == [0, 1, 2]


def test_the_limit_holds_wherever_an_index_is_written(repository, cache, monkeypatch):
    old = cache + b"/parents/" + b"0" * 32 + b"-full-x"
    os.makedirs(os.path.dirname(old))
    with open(old, "xb") as file:
        file.write(bytes(1 << 20))
    os.utime(old, (1, 1))
    monkeypatch.setattr(cache_folder, "CACHE_BYTES_LIMIT", 1 << 19)
    written(repository, [make_pack(repository, [[b"here"]])])
    kept(repository, cache)
    assert not os.path.exists(old)
    assert claimed(kept(repository, cache), repository, [b"here"]) == [0]
