"""Identities and signatures are part of the format: known answers."""

from array import array

import pytest

from strongroom.base.errors import UsageError
from strongroom.engine.content import digests

KEY = bytes(range(32))


def test_known_answers():
    assert digests.chunk_id(KEY, b"abc").hex() == "6da54495d8152f2bcba87bd7282df70901cdb66b4448ed5f"
    assert digests.block_id(KEY, b"abc").hex() == "6da54495d8152f2bcba87bd7282df70901cdb66b4448ed5f"
    assert digests.object_name(b"abc") == (
        "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("xxh128", "06b05ab6733a618578af5f94892f3950"),
        ("md5", "900150983cd24fb0d6963f7d28e17f72"),
        ("sha1", "a9993e364706816aba3e25717850c26c9cd0d89d"),
        ("sha256", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (
            "sha512",
            (
                "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
                "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"
            ),
        ),
        ("blake3", "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"),
    ],
)
def test_signatures(name, expected):
    signature = digests.new_signature(name)
    signature.update(b"a")
    signature.update(memoryview(b"bc"))
    assert signature.digest().hex() == expected
    assert digests.signature_size(name) == len(expected) // 2


def test_every_name_but_none_has_a_digest():
    for name in digests.signature_names():
        if name != "none":
            assert len(digests.new_signature(name).digest()) == digests.signature_size(name)


def test_unknown_signatures_are_refused_with_the_known_ones():
    with pytest.raises(UsageError, match="sha256"):
        digests.new_signature("crc32")
    with pytest.raises(UsageError):
        digests.signature_size("crc32")
    with pytest.raises(UsageError):
        digests.new_signature("none")


def test_a_block_id_depends_on_key_ids_lengths_and_their_order():
    ids = bytes(range(48))
    lengths = array("I", [5, 7])
    text = digests.ids_and_lengths(ids, lengths)
    assert text == ids[:24] + b"\5\0\0\0" + ids[24:] + b"\7\0\0\0"
    others = [
        digests.ids_and_lengths(ids, array("I", [7, 5])),
        digests.ids_and_lengths(ids[24:] + ids[:24], lengths),
    ]
    assert len({digests.block_id(KEY, item) for item in [text, *others]}) == 3
    assert digests.block_id(KEY, text) != digests.block_id(bytes(32), text)


def test_ids_and_lengths_must_fit():
    with pytest.raises(ValueError):
        digests.ids_and_lengths(bytes(48), array("I", [1]))
    with pytest.raises(ValueError):
        digests.ids_and_lengths(bytes(25), array("I", [1]))
