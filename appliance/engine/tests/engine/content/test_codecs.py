"""Every codec gives back what it was given, and nothing hostile gets more memory than it claims."""

import contextlib
import resource
import zlib

import lz4.block
import pytest
import zstandard
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st

from strongroom.base.errors import DamageError, UsageError
from strongroom.engine.content import codecs
from strongroom.engine.content.codecs import Compressor, decompress, parse_compression

NAMES = ["none", "auto", "gzip1", "gzip6", "gzip9", "lzfast", "lz4", "lz4hc", "zstd1", "zstd3",
         "zstd19"]  # fmt: skip
NOISE = blake3(b"noise").digest(1 << 16)
LONG_NOISE = blake3(b"noise").digest(1 << 20)
TEXT = b"".join(b"line %d of a text\n" % number for number in range(20_000))

blobs = st.one_of(
    st.binary(max_size=300),
    st.builds(lambda part, times: part * times, st.binary(max_size=20), st.integers(0, 500)),
)


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


@given(raws=st.lists(blobs, max_size=5))
@settings(max_examples=30, deadline=None)
@pytest.mark.parametrize("name", NAMES)
def test_what_is_compressed_decompresses(name, raws):
    compressor = Compressor(parse_compression(name))
    for raw in raws:
        codec, data = compressor.compress(raw)
        assert decompress(codec, data, len(raw)) == raw
        assert len(data) <= len(raw)


def test_large_text_and_noise_survive(name):
    compressor = Compressor(parse_compression(name))
    for raw in (TEXT, NOISE, TEXT + NOISE, NOISE * 4, TEXT, NOISE + TEXT):
        codec, data = compressor.compress(memoryview(raw))
        assert decompress(codec, memoryview(data), len(raw)) == raw


def test_text_shrinks(name):
    codec, data = Compressor(parse_compression(name)).compress(TEXT)
    if name == "none":
        assert codec == codecs.NONE
    else:
        assert codec != codecs.NONE
        assert len(data) < len(TEXT) / 2


def test_what_does_not_shrink_is_stored_as_it_is(name):
    compressor = Compressor(parse_compression(name))
    for _ in range(3):
        assert compressor.compress(NOISE) == (codecs.NONE, NOISE)


def test_auto_finds_text_again_after_noise():
    compressor = Compressor(codecs.AUTO)
    for _ in range(3):
        assert compressor.compress(LONG_NOISE)[0] == codecs.NONE
    assert compressor.compress(TEXT)[0] == codecs.ZSTD
    assert compressor.compress(TEXT)[0] == codecs.ZSTD


@pytest.mark.parametrize(
    ("text", "shown"),
    [("zstd", "zstd3"), ("ZSTD19", "zstd19"), ("gzip", "gzip6"), (" auto ", "auto"),
     ("lz4hc", "lz4hc"), ("none", "none")],
)  # fmt: skip
def test_compression_by_name(text, shown):
    assert str(parse_compression(text)) == shown
    assert parse_compression(shown) == parse_compression(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "zip",
        "zstd0",
        "zstd20",
        "gzip0",
        "gzip10",
        "lz4hc3",
        "auto1",
        "none1",
        "zstd-1",
        "zstd1.5",
    ],
)
def test_unknown_compression_is_refused(text):
    with pytest.raises(UsageError):
        parse_compression(text)


def test_lzo_works_where_it_is_installed_and_says_how_where_not():
    try:
        compression = parse_compression("lzo")
    except UsageError as error:
        assert "liblzo2" in str(error)  # noqa: PT017 - both ends are right
        return
    codec, data = Compressor(compression).compress(TEXT)
    assert codec == codecs.LZO
    assert decompress(codec, data, len(TEXT)) == TEXT
    with pytest.raises(DamageError):
        decompress(codec, data, len(TEXT) - 1)


ENCODERS = {
    codecs.NONE: bytes,
    codecs.ZSTD: zstandard.compress,
    codecs.LZ4: lambda raw: lz4.block.compress(raw, store_size=False),
    codecs.GZIP: lambda raw: zlib.compress(raw, wbits=-15),
}


@pytest.fixture(params=sorted(ENCODERS))
def codec(request):
    return request.param


@pytest.mark.parametrize("claimed", [0, 1, len(TEXT) - 1, len(TEXT) + 1, 2 * len(TEXT)])
def test_another_length_than_claimed_is_damage(codec, claimed):
    with pytest.raises(DamageError):
        decompress(codec, ENCODERS[codec](TEXT), claimed)


def test_trailing_bytes_are_damage(codec):
    with pytest.raises(DamageError):
        decompress(codec, ENCODERS[codec](TEXT) + b"x", len(TEXT))


@given(st.binary(max_size=300), st.integers(0, 5000))
def test_rubbish_is_damage_or_exactly_as_long_as_claimed(data, claimed):
    for codec in (*ENCODERS, 99):
        try:
            raw = decompress(codec, data, claimed)
        except DamageError:
            continue
        assert len(raw) == claimed


@given(st.data())
def test_flipped_bits_are_damage_or_exactly_as_long_as_claimed(data):
    codec = data.draw(st.sampled_from(sorted(ENCODERS)))
    encoded = bytearray(ENCODERS[codec](TEXT[:2000]))
    for bit in data.draw(st.lists(st.integers(0, len(encoded) * 8 - 1), min_size=1, max_size=4)):
        encoded[bit // 8] ^= 1 << bit % 8
    with contextlib.suppress(DamageError):
        assert len(decompress(codec, bytes(encoded), 2000)) == 2000


def test_a_bomb_gets_no_memory():
    bombs = {
        codecs.ZSTD: zstandard.compress(bytes(1 << 28), 1),
        codecs.GZIP: zlib.compress(bytes(1 << 28), 9, wbits=-15),
        codecs.LZ4: lz4.block.compress(bytes(1 << 28), store_size=False),
    }
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for codec, bomb in bombs.items():
        with pytest.raises(DamageError):
            decompress(codec, bomb, 1000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 << 10


def test_a_frame_that_lies_about_its_size_is_damage():
    honest = zstandard.compress(TEXT)
    parameters = zstandard.get_frame_parameters(honest)
    assert parameters.content_size == len(TEXT)
    # The size field of this frame is the four bytes after magic and descriptor.
    for claimed in (1 << 31, len(TEXT) - 1, 1):
        forged = honest[:5] + claimed.to_bytes(4, "little") + honest[9:]
        assert zstandard.get_frame_parameters(forged).content_size == claimed
        for expected in (len(TEXT), min(claimed, 1 << 20)):
            with pytest.raises(DamageError):
                decompress(codecs.ZSTD, forged, expected)
