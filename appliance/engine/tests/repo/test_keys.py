"""Keys come back from wraps and files as they were, and from nothing else."""

import struct
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom.errors import DamageError, KeyRightError, UnknownFormatError, UsageError
from strongroom.repo import keys
from strongroom.repo.keys.wrapping import Argon2Cost

CHEAP = Argon2Cost(64, 1, 1)
GOLDEN = {
    "public": "8f40c5adb68f25624ae5b214ea767a6ec94d829d3d7b5e1ad1ba6f3e2138285f",
    "chunk": "1ee4e2c03238577c",
    "block": "3eb8e3f95b93e203",
    "chunker": "deaac07388a15a11",
    "index": "9a074d5f6ee59e46",
    "snapshot": "5a56eeba8bdf3f5a",
    "config": "250f26b0b506245b",
}
KEY = keys.restore_key(bytes(range(16)), bytes(range(32)), bytes(range(32, 64)))


def test_derived_keys_never_change():
    """They are part of the format."""
    put_key = KEY.put_key
    assert {
        "public": put_key.restore_public.hex(),
        "chunk": put_key.chunk_key.hex()[:16],
        "block": put_key.block_key.hex()[:16],
        "chunker": put_key.chunker_seed.hex()[:16],
        "index": put_key.index_key.hex()[:16],
        "snapshot": put_key.snapshot_key.hex()[:16],
        "config": put_key.config_key.hex()[:16],
    } == GOLDEN


def test_a_wrap_opens_with_its_passphrase_only():
    wrapped = keys.wrap_key(KEY, b"correct horse", "laptop", CHEAP)
    assert keys.unwrap_key(wrapped, b"correct horse") == KEY
    assert keys.unwrap_key(wrapped, b"correct horsf") is None
    assert keys.unwrap_key(wrapped, b"") is None
    info = keys.wrap_info(wrapped)
    assert (info.label, info.cost) == ("laptop", CHEAP)


def test_two_wraps_of_one_key_look_different():
    wraps = [keys.wrap_key(KEY, b"p", "", CHEAP) for _ in range(2)]
    assert wraps[0][-112:] != wraps[1][-112:]


@given(st.data())
def test_no_flipped_bit_of_a_wrap_goes_unnoticed(data):
    wrapped = bytearray(keys.wrap_key(KEY, b"p", "label", CHEAP))
    bit = data.draw(st.integers(0, len(wrapped) * 8 - 1))
    wrapped[bit // 8] ^= 1 << bit % 8
    try:
        assert keys.unwrap_key(bytes(wrapped), b"p") is None
    except (DamageError, UnknownFormatError):
        return


@pytest.mark.parametrize("size", [0, 3, 4, 20, 41, 60])
def test_a_wrap_that_is_cut_off_opens_with_nothing(size):
    wrapped = keys.wrap_key(KEY, b"p", "label", CHEAP)[:size]
    try:
        assert keys.unwrap_key(wrapped, b"p") is None
    except DamageError:
        return


@pytest.mark.parametrize(
    "cost",
    [
        Argon2Cost(1 << 31, 1, 1),
        Argon2Cost(64, 1 << 31, 1),
        Argon2Cost(64, 0, 1),
        Argon2Cost(64, 1, 0),
        Argon2Cost(64, 1, 200),
        Argon2Cost(8, 1, 4),
    ],
)
def test_a_forged_cost_is_refused_before_it_is_paid(cost):
    wrapped = keys.wrap_key(KEY, b"p", "", CHEAP)
    forged = wrapped[:8] + struct.pack("<III", cost.memory_kib, cost.iterations, cost.lanes)
    with pytest.raises(DamageError, match="cost"):
        keys.unwrap_key(forged + wrapped[20:], b"p")


def test_an_unknown_version_asks_for_a_newer_strongroom():
    wrapped = keys.wrap_key(KEY, b"p", "", CHEAP)
    with pytest.raises(UnknownFormatError):
        keys.unwrap_key(wrapped[:4] + b"\2" + wrapped[5:], b"p")


@pytest.mark.parametrize("key", [KEY, KEY.put_key])
def test_a_key_file_gives_the_key_back(key):
    text = keys.export_key(key)
    assert keys.import_key(text) == key
    assert keys.import_key("  \n" + text.replace("\n", "\r\n") + "\n\n") == key
    assert max(map(len, text.splitlines())) <= 64


def test_a_put_key_file_does_not_hold_the_private_key():
    assert len(keys.export_key(KEY.put_key)) < len(keys.export_key(KEY))
    assert not keys.import_key(keys.export_key(KEY.put_key)).can_read


@given(st.data())
def test_a_damaged_key_file_never_gives_another_key(data):
    text = keys.export_key(KEY.put_key)
    at = data.draw(st.integers(0, len(text) - 2))
    other = data.draw(st.sampled_from("AbC9+/=-é"))
    damaged = text[:at] + other + text[at + 1 :]
    if damaged == text:
        return
    try:
        # Base64 has bits that mean nothing.
        assert keys.import_key(damaged) == KEY.put_key
    except (UsageError, UnknownFormatError):
        return


def test_a_key_file_under_the_other_title_is_refused():
    text = keys.export_key(KEY.put_key).replace("PUT", "RESTORE")
    with pytest.raises(UsageError):
        keys.import_key(text)


@pytest.mark.parametrize("text", ["", "-----BEGIN STRONGROOM PUT KEY-----", "ssh-rsa AAAA"])
def test_what_is_no_key_file_is_refused(text):
    with pytest.raises(UsageError):
        keys.import_key(text)


def test_only_the_restore_key_reads():
    assert keys.required_restore_key(KEY) is KEY
    with pytest.raises(KeyRightError):
        keys.required_restore_key(KEY.put_key)


def test_a_public_key_of_small_order_is_refused():
    with pytest.raises(DamageError):
        keys.agree(KEY.private, bytes(32))


def test_both_sides_agree_on_a_secret():
    other = keys.new_restore_key()
    assert keys.agree(KEY.private, other.put_key.restore_public) == keys.agree(
        other.private, KEY.put_key.restore_public
    )


def test_two_threads_open_wraps_at_once():
    """As a director does when two jobs end together."""
    wrapped = keys.wrap_key(KEY, b"secret", "", Argon2Cost(8 << 10, 2, 4))
    opened = []
    threads = [
        threading.Thread(
            target=lambda: opened.append(keys.unwrap_key(wrapped, b"secret")), daemon=True
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert opened == [KEY] * 4
