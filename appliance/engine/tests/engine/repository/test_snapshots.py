"""A snapshot reads back as committed, with as much of it as the key allows."""

import msgspec
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from strongroom.base import clock
from strongroom.base.errors import (
    DamageError,
    KeyRightError,
    SnapshotNotFoundError,
    UnknownFormatError,
    UsageError,
)
from strongroom.engine.content.ciphers import AES_256_GCM, seal_object
from strongroom.engine.content.digests import BLOCK_ID_SIZE, object_name
from strongroom.engine.repository.keys.roles import new_restore_key
from strongroom.engine.repository.left_out import LeftOut, decode_left_out, encode_left_out
from strongroom.engine.repository.snapshots import (
    PageReference,
    Snapshot,
    Totals,
    decode_snapshot,
    encode_snapshot,
    find_snapshot,
    list_snapshots,
    read_snapshot,
    select_snapshots,
    write_snapshot,
)

KEY = new_restore_key()
PUT = KEY.put_key("host")
HEAD_SIZE = 28
NS = 10**9

snapshots = st.builds(
    Snapshot,
    host=st.text(max_size=20),
    level=st.sampled_from(["full", "differential", "incremental"]),
    tags=st.lists(st.text(max_size=9), max_size=3).map(tuple),
    paths=st.lists(st.binary(max_size=30), max_size=3).map(tuple),
    start_ns=st.integers(-(2**63), 2**63 - 1),
    totals=st.builds(
        Totals, files=st.integers(0, 2**63 - 1), content_bytes=st.integers(0, 2**63 - 1)
    ),
    error_count=st.integers(0, 2**40),
    options=st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=3),
    pages=st.lists(
        st.builds(
            PageReference,
            first_directory=st.binary(max_size=40),
            first_name=st.binary(max_size=40),
            block_id=st.binary(min_size=BLOCK_ID_SIZE, max_size=BLOCK_ID_SIZE),
            row_count=st.integers(0, 2**31),
            content_bytes=st.integers(0, 2**40),
        ),
        max_size=5,
    ).map(tuple),
)

EXAMPLE = Snapshot(
    host="host",
    paths=(b"home",),
    pages=(PageReference(b"secret", b"name", bytes(BLOCK_ID_SIZE), 3),),
)


@given(snapshots, st.integers(0, 2))
@settings(deadline=None)
def test_what_is_encoded_decodes(snapshot, cipher):
    data = encode_snapshot(PUT, snapshot, cipher)
    name = object_name(data)
    listing = decode_snapshot(PUT, name, data).listing
    assert listing.row_count == sum(page.row_count for page in snapshot.pages)
    assert listing.content_bytes == sum(page.content_bytes for page in snapshot.pages)
    expected = msgspec.structs.replace(
        snapshot, host="host", id=name, owner=PUT.client_id, listing=listing
    )
    assert decode_snapshot(KEY, name, data, pages=True) == expected
    assert decode_snapshot(PUT, name, data) == msgspec.structs.replace(expected, pages=())


def test_a_put_key_reads_no_names():
    data = encode_snapshot(PUT, EXAMPLE, AES_256_GCM)
    with pytest.raises(KeyRightError):
        decode_snapshot(PUT, object_name(data), data, pages=True)


def test_every_changed_byte_is_found_even_under_a_fitting_name():
    data = encode_snapshot(PUT, EXAMPLE, AES_256_GCM)
    for at in range(len(data)):
        forged = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        with pytest.raises(DamageError):
            decode_snapshot(KEY, object_name(data), forged, pages=True)
        if at not in (5, 6, 7):
            with pytest.raises((DamageError, UnknownFormatError)):
                decode_snapshot(KEY, object_name(forged), forged, pages=True)


def test_every_cut_is_found():
    data = encode_snapshot(PUT, EXAMPLE, AES_256_GCM)
    for size in range(len(data)):
        with pytest.raises(DamageError):
            decode_snapshot(KEY, object_name(data[:size]), data[:size], pages=True)


def test_pages_of_another_snapshot_are_found():
    one, two = (encode_snapshot(PUT, EXAMPLE, AES_256_GCM) for _ in range(2))
    end = HEAD_SIZE + int.from_bytes(one[24:HEAD_SIZE], "little")
    mixed = one[:end] + two[end:]
    for key in (KEY, PUT):
        with pytest.raises(DamageError, match="another listing"):
            decode_snapshot(key, object_name(mixed), mixed)


def test_pages_sealed_anew_by_somebody_without_a_key_are_found():
    """A store knows the restore key's public half, and so does every agent."""
    data = encode_snapshot(PUT, EXAMPLE, AES_256_GCM)
    end = HEAD_SIZE + int.from_bytes(data[24:HEAD_SIZE], "little")
    thief = msgspec.structs.replace(PUT, client_secret=bytes(32))
    empty = encode_snapshot(thief, msgspec.structs.replace(EXAMPLE, pages=()), AES_256_GCM)
    start = HEAD_SIZE + int.from_bytes(empty[24:HEAD_SIZE], "little")
    forged = data[:end] + empty[start:]
    with pytest.raises(DamageError, match="another listing"):
        decode_snapshot(KEY, object_name(forged), forged, pages=True)


def test_an_envelope_of_too_many_paths_is_refused_when_written():
    paths = tuple(b"%0100d" % number for number in range(11_000))
    with pytest.raises(UsageError, match="name folders"):
        encode_snapshot(PUT, Snapshot(host="h", paths=paths), AES_256_GCM)


def envelope(text):
    """A snapshot object whose sealed envelope is `text`."""
    sealed = seal_object(PUT.client.snapshot_key, b"strongroom snapshot 1", text, AES_256_GCM)
    head = b"SRSN\1\0\0\0" + PUT.client_id + len(sealed).to_bytes(4, "little")
    return head + sealed + bytes(32)


@given(st.binary(max_size=60))
def test_rubbish_that_is_properly_sealed_is_damage(text):
    data = envelope(text)
    with pytest.raises(DamageError):
        decode_snapshot(KEY, object_name(data), data)


def test_a_host_that_is_no_text_is_damage():
    text = b"\x81\xa4host\xa1\xa7"
    data = envelope(len(text).to_bytes(4, "little") + zstandard.compress(text))
    with pytest.raises(DamageError, match="something else"):
        decode_snapshot(KEY, object_name(data), data)


def test_a_bomb_that_is_properly_sealed_is_damage():
    frame = zstandard.compress(bytes(1 << 28))
    for claimed in (1 << 28, 1 << 31, 100):
        data = envelope(claimed.to_bytes(4, "little") + frame)
        with pytest.raises(DamageError):
            decode_snapshot(KEY, object_name(data), data)


def test_a_newer_version_is_not_taken_for_damage():
    data = encode_snapshot(PUT, EXAMPLE, AES_256_GCM)
    newer = data[:4] + b"\2" + data[5:]
    with pytest.raises(UnknownFormatError):
        decode_snapshot(KEY, object_name(newer), newer)


def test_a_field_of_a_later_version_does_no_harm():
    class Later(Snapshot, frozen=True, kw_only=True):
        colour: str = "blue"

    data = encode_snapshot(PUT, Later(host=""), AES_256_GCM)
    assert decode_snapshot(KEY, object_name(data), data).host == "host"


def test_snapshots_are_listed_by_time(repository):
    for start in (3, 1, 2):
        write_snapshot(
            repository.store, repository.writer, Snapshot(host="h", start_ns=start), AES_256_GCM
        )
    listed = list_snapshots(repository.store, repository.writer)
    assert [snapshot.start_ns for snapshot in listed] == [1, 2, 3]
    assert read_snapshot(repository.store, repository.key, listed[0].id) == listed[0]


def test_no_snapshot_began_after_it_was_stored(repository):
    """So none stays the newest for years, and none can be put in front of what comes later."""
    place = (repository.store, repository.writer)
    ahead = clock.now_ns() + 10**18
    first = write_snapshot(*place, Snapshot(host="h", start_ns=ahead), AES_256_GCM)
    second = write_snapshot(*place, Snapshot(host="h", start_ns=clock.now_ns()), AES_256_GCM)
    listed = repository.snapshots()
    assert [one.id for one in listed] == [first.id, second.id]
    assert listed[0].start_ns <= listed[1].start_ns
    assert find_snapshot(listed, "latest").id == second.id
    (raw, _) = list_snapshots(repository.store, repository.key, as_written=True)[::-1]
    assert (raw.id, raw.start_ns) == (first.id, ahead)


def test_the_latest_of_several_clients_is_refused_and_they_are_named():
    known = [Snapshot(host=name, id=name * 8, start_ns=1) for name in ("a", "b", "b")]
    with pytest.raises(UsageError, match=r"a, b\b.*--host"):
        find_snapshot(known, "latest")
    assert find_snapshot(known[1:], "latest").host == "b"
    assert find_snapshot(known, "aaa").host == "a"


def test_a_snapshot_under_another_name_is_found(repository):
    snapshot = write_snapshot(repository.store, repository.writer, EXAMPLE, AES_256_GCM)
    data = repository.store.get("snapshots", snapshot.id)
    repository.store.put("snapshots", "ab" * 32, data)
    with pytest.raises(DamageError):
        list_snapshots(repository.store, repository.key)


def made(number, **fields):
    return Snapshot(**{"host": "h", "id": f"{number:x}" * 64, "start_ns": number * NS, **fields})


def test_snapshots_are_selected_by_what_they_hold():
    some = [
        made(1, paths=(b"a", b"b"), tags=("x", "y")),
        made(2, host="other", paths=(b"a",), job="nightly"),
        made(3, tags=("x",)),
    ]
    assert select_snapshots(some) == some
    assert select_snapshots(some, host="other") == [some[1]]
    assert select_snapshots(some, paths=((b"a", b"x"),)) == some[:2]
    assert select_snapshots(some, tags=("y", "x")) == [some[0]]
    assert select_snapshots(some, job="nightly") == [some[1]]
    assert select_snapshots(some, before_ns=2 * NS) == some[:2]
    assert select_snapshots(some, host="h", tags=("z",)) == []


def test_one_snapshot_is_found_by_latest_or_the_beginning_of_its_id():
    some = [made(1), made(12), made(3)]
    assert find_snapshot(some, "latest") is some[1]
    assert find_snapshot(some, "33") is some[2]
    assert find_snapshot(some, "CCC") is some[1]


@pytest.mark.parametrize("wanted", ["", "f", "1", "latest"])
def test_none_or_several_are_an_error(wanted):
    some = [] if wanted == "latest" else [made(1), made(1, id="1" + "0" * 63)]
    with pytest.raises(SnapshotNotFoundError):
        find_snapshot(some, wanted)


places = st.dictionaries(
    st.binary(max_size=20), st.dictionaries(st.binary(max_size=20), st.integers(1, 7)), max_size=4
)


@given(st.binary(max_size=100), places)
@settings(deadline=None)
def test_what_was_left_out_is_read_by_those_who_may_read_names(rules, places):
    left_out = LeftOut(rules, places)
    snapshot = msgspec.structs.replace(EXAMPLE, left_out=left_out)
    data = encode_snapshot(PUT, snapshot, AES_256_GCM)
    read = decode_snapshot(KEY, object_name(data), data, pages=True)
    assert (read.left_out, read.pages) == (left_out, EXAMPLE.pages)
    by_put_key = decode_snapshot(PUT, object_name(data), data)
    assert by_put_key.left_out is None
    unread = sum(reason == 4 for names in places.values() for reason in names.values())
    assert len(by_put_key.unread_marks) == unread


def test_a_snapshot_without_the_record_or_with_another_version_of_it_does_not_know():
    data = encode_snapshot(PUT, EXAMPLE, AES_256_GCM)
    assert decode_snapshot(KEY, object_name(data), data, pages=True).left_out is None
    record = encode_left_out(LeftOut(b"rules"))
    assert decode_left_out(record, "it") == LeftOut(b"rules")
    assert decode_left_out(b"\2" + record[1:], "it") is None
    with pytest.raises(DamageError):
        decode_left_out(record[:-1], "it")
