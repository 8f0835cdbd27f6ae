"""What is sealed opens under the same key, number and label, and under nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom.base.errors import DamageError, UnknownFormatError, UsageError
from strongroom.engine.content import ciphers

KEY = bytes(range(32))
ALL = sorted(ciphers.CIPHER_NAMES)


def seal(cipher, key, text, aad, *, aad_fixes_text=False):
    sealed = bytearray(len(text) + ciphers.BLOCK_OVERHEAD_SIZE)
    ciphers.BlockCipher(cipher, key).seal_into(text, aad, sealed, aad_fixes_text=aad_fixes_text)
    return bytes(sealed)


@pytest.mark.parametrize("cipher", ALL)
@given(text=st.binary(max_size=200), aad=st.binary(max_size=80), fixes=st.booleans())
def test_a_block_opens_again(cipher, text, aad, fixes):
    sealed = seal(cipher, KEY, text, aad, aad_fixes_text=fixes)
    assert ciphers.BlockCipher(cipher, KEY).open(memoryview(sealed), aad) == text


@pytest.mark.parametrize("cipher", ALL)
@given(
    blocks=st.lists(
        st.tuples(st.binary(max_size=4), st.binary(max_size=4)), min_size=2, max_size=2, unique=True
    )
)
def test_blocks_that_differ_at_all_have_nonces_of_their_own(cipher, blocks):
    nonces = {seal(cipher, KEY, text, aad)[: ciphers.NONCE_SIZE] for text, aad in blocks}
    assert len(nonces) == 2


def test_another_key_gives_other_nonces():
    sealed = {seal(ciphers.AES_256_GCM, key, b"text", b"aad")[:12] for key in (KEY, bytes(32))}
    assert len(sealed) == 2


@pytest.mark.parametrize("cipher", ALL)
@given(data=st.data())
def test_any_flipped_bit_is_found(cipher, data):
    block_cipher = ciphers.BlockCipher(cipher, KEY)
    sealed = bytearray(seal(cipher, KEY, b"some text", b"aad"))
    bit = data.draw(st.integers(0, len(sealed) * 8 - 1))
    sealed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(DamageError):
        block_cipher.open(sealed, b"aad")


@pytest.mark.parametrize("cipher", ALL)
def test_key_and_associated_data_are_bound(cipher):
    sealed = seal(cipher, KEY, b"some text", b"aad")
    for key, aad, text in (
        (bytes(32), b"aad", sealed),
        (KEY, b"aae", sealed),
        (KEY, b"aa", sealed),
        (KEY, b"aad", sealed[:-1]),
        (KEY, b"aad", b""),
    ):
        with pytest.raises(DamageError):
            ciphers.BlockCipher(cipher, key).open(text, aad)


@pytest.mark.parametrize("cipher", ALL)
@given(text=st.binary(max_size=200))
def test_an_object_opens_again_and_never_looks_the_same(cipher, text):
    sealed = ciphers.seal_object(KEY, b"label", text, cipher)
    assert len(sealed) == len(text) + ciphers.SEALED_OVERHEAD_SIZE
    assert ciphers.open_object(KEY, b"label", sealed) == text
    assert ciphers.seal_object(KEY, b"label", text, cipher) != sealed


@pytest.mark.parametrize("cipher", ALL)
def test_an_object_is_bound_to_key_label_and_every_byte(cipher):
    sealed = ciphers.seal_object(KEY, b"label", b"text", cipher)
    with pytest.raises(DamageError):
        ciphers.open_object(bytes(32), b"label", sealed)
    with pytest.raises(DamageError):
        ciphers.open_object(KEY, b"other", sealed)
    for at in range(1, len(sealed)):
        with pytest.raises(DamageError):
            ciphers.open_object(
                KEY, b"label", sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :]
            )
        with pytest.raises(DamageError):
            ciphers.open_object(KEY, b"label", sealed[:at])


@pytest.mark.parametrize("claimed", [0, 1, 2])
@pytest.mark.parametrize("cipher", ALL)
def test_the_cipher_of_an_object_cannot_be_changed(cipher, claimed):
    sealed = ciphers.seal_object(KEY, b"label", b"text", cipher)
    if claimed == cipher:
        assert ciphers.open_object(KEY, b"label", sealed) == b"text"
    else:
        with pytest.raises(DamageError):
            ciphers.open_object(KEY, b"label", bytes([claimed]) + sealed[1:])


def test_an_unknown_cipher_asks_for_a_newer_version():
    with pytest.raises(UnknownFormatError):
        ciphers.BlockCipher(3, KEY)
    with pytest.raises(UnknownFormatError):
        ciphers.open_object(KEY, b"label", b"\x09" + bytes(60))


def test_no_encryption_leaves_the_text_readable():
    assert b"in the clear" in ciphers.seal_object(KEY, b"label", b"in the clear", ciphers.NONE)
    assert b"in the clear" not in ciphers.seal_object(
        KEY, b"label", b"in the clear", ciphers.AES_256_GCM
    )


def test_encryption_by_name():
    assert ciphers.parse_encryption("none") == ciphers.NONE
    assert ciphers.parse_encryption("chacha20-poly1305") == ciphers.CHACHA20_POLY1305
    assert ciphers.parse_encryption("auto") in (ciphers.AES_256_GCM, ciphers.CHACHA20_POLY1305)
    with pytest.raises(UsageError, match="aes-256-gcm"):
        ciphers.parse_encryption("rot13")
