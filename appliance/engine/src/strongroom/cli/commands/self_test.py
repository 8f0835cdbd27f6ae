"""`strongroom self-test`: test the libraries of this installation against known answers.

Every digest, cipher and codec is tested against published vectors (RFC 5869, 7748, 8439, 9106,
NIST's GCM vectors) or, where there is no standard, against the results of earlier releases. A
library that fails here would write repositories that no other machine can read. Touches no
repository.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import NamedTuple

from strongroom.base.clock import elapsed_seconds
from strongroom.base.errors import EXIT_DONE, SelfTestError
from strongroom.cli.terminal import Terminal

EPILOG = """\
examples:
  strongroom self-test            after installing or upgrading
  strongroom self-test --json     one object a test
"""


class LibraryAnswer(NamedTuple):
    """A test: name, expected result, actual result."""

    question: str
    expected: object
    given: object


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take no options of its own."""


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Run every test; raises SelfTestError naming those that failed."""
    failed: list[str] = []
    for name, questions in TESTS.items():
        started = elapsed_seconds()
        problem = _first_problem(questions)
        took = elapsed_seconds() - started
        terminal.emit(
            {
                "type": "self_test",
                "name": name,
                "passed": problem is None,
                "problem": problem,
                "elapsed_seconds": round(took, 4),
            }
        )
        terminal.line(f"{name:<20}{'ok' if problem is None else 'FAILED: ' + problem}")
        if problem is not None:
            failed.append(name)
    if failed:
        names = ", ".join(failed)
        raise SelfTestError(
            f"self test failed: {names}; do not use this installation, reinstall it"
        )
    terminal.line(f"all {len(TESTS)} passed")
    return EXIT_DONE


def _first_problem(questions: Callable[[], Iterator[LibraryAnswer]]) -> str | None:
    try:
        for question, expected, given in questions():
            if expected != given:
                return f"{question}: expected {_brief(expected)}, got {_brief(given)}"
    except Exception as error:  # noqa: BLE001 - a broken library may raise anything at all
        return f"{type(error).__name__}: {error}"
    return None


def _brief(value: object) -> str:
    return value.hex()[:64] if isinstance(value, bytes) else str(value)[:64]


def _counting_bytes(size: int) -> bytes:
    """Give the input of BLAKE3's own test vectors: 0, 1, ... 250, 0, 1, ..."""
    return (bytes(range(251)) * (size // 251 + 1))[:size]


def _noise(size: int) -> bytes:
    """Give pseudo-random bytes that are the same everywhere."""
    from blake3 import blake3

    return blake3(b"strongroom self-test").digest(length=size)


def _blake3() -> Iterator[LibraryAnswer]:
    from blake3 import blake3

    yield LibraryAnswer(
        "empty",
        bytes.fromhex("af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"),
        blake3(b"").digest(),
    )
    whole = blake3(_counting_bytes(1 << 20)).digest()
    yield LibraryAnswer(
        "1 MiB",
        bytes.fromhex("74cb441fd087764ca9c3694da742ebe30cbeb3060a17009ca81825c7a8d10343"),
        whole,
    )
    in_parts = blake3()
    for start in range(0, 1 << 20, 65537):
        in_parts.update(_counting_bytes(1 << 20)[start : start + 65537])
    yield LibraryAnswer("1 MiB in parts", whole, in_parts.digest())
    yield LibraryAnswer(
        "keyed",
        bytes.fromhex("75c46f6f3d9eb4f55ecaaee480db732e6c2105546f1e675003687c31719c7ba4"),
        blake3(_counting_bytes(1024), key=b"whats the Elvish word for friend").digest(),
    )


def _signatures() -> Iterator[LibraryAnswer]:
    import hashlib

    import xxhash

    yield LibraryAnswer(
        "sha256",
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        hashlib.sha256(b"abc").hexdigest(),
    )
    yield LibraryAnswer("md5", "900150983cd24fb0d6963f7d28e17f72", hashlib.md5(b"abc").hexdigest())  # noqa: S324 - a signature Bareos offers, not a safeguard
    yield LibraryAnswer(
        "xxh128", "99aa06d3014798d86001c324468d497f", xxhash.xxh128(b"").hexdigest()
    )


def _aes_256_gcm() -> Iterator[LibraryAnswer]:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    yield LibraryAnswer(
        "NIST case 14",
        bytes.fromhex("cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919"),
        AESGCM(bytes(32)).encrypt(bytes(12), bytes(16), None),
    )
    cipher = AESGCM(
        bytes.fromhex("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308")
    )
    plaintext = bytes.fromhex(
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
        "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39"
    )
    nonce = bytes.fromhex("cafebabefacedbaddecaf888")
    associated = bytes.fromhex("feedfacedeadbeeffeedfacedeadbeefabaddad2")
    sealed = cipher.encrypt(nonce, plaintext, associated)
    yield LibraryAnswer(
        "NIST case 16, tag", bytes.fromhex("76fc6ece0f4e1768cddf8853bb2d551b"), sealed[-16:]
    )
    yield LibraryAnswer(
        "NIST case 16, opened", plaintext, cipher.decrypt(nonce, sealed, associated)
    )
    yield _refusal("forged", lambda: cipher.decrypt(nonce, sealed[:-1] + b"\0", associated))


def _chacha20_poly1305() -> Iterator[LibraryAnswer]:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    cipher = ChaCha20Poly1305(bytes(range(0x80, 0xA0)))
    nonce = bytes.fromhex("070000004041424344454647")
    associated = bytes.fromhex("50515253c0c1c2c3c4c5c6c7")
    plaintext = (
        b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the "
        b"future, sunscreen would be it."
    )
    sealed = cipher.encrypt(nonce, plaintext, associated)
    yield LibraryAnswer(
        "RFC 8439, tag", bytes.fromhex("1ae10b594f09e26a7e902ecbd0600691"), sealed[-16:]
    )
    yield LibraryAnswer("RFC 8439, opened", plaintext, cipher.decrypt(nonce, sealed, associated))
    yield _refusal("forged", lambda: cipher.decrypt(nonce, sealed[:-1] + b"\0", associated))


def _refusal(question: str, forged: Callable[[], bytes]) -> LibraryAnswer:
    from cryptography.exceptions import InvalidTag

    try:
        forged()
    except InvalidTag:
        return LibraryAnswer(question, "refused", "refused")
    return LibraryAnswer(question, "refused", "accepted")


def _x25519() -> Iterator[LibraryAnswer]:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

    ours = X25519PrivateKey.from_private_bytes(
        bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
    )
    yield LibraryAnswer(
        "RFC 7748, public key",
        bytes.fromhex("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"),
        ours.public_key().public_bytes_raw(),
    )
    theirs = X25519PublicKey.from_public_bytes(
        bytes.fromhex("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f")
    )
    yield LibraryAnswer(
        "RFC 7748, shared secret",
        bytes.fromhex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"),
        ours.exchange(theirs),
    )


def _hkdf() -> Iterator[LibraryAnswer]:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    derivation = HKDF(
        algorithm=SHA256(),
        length=42,
        salt=bytes(range(13)),
        info=bytes(range(0xF0, 0xFA)),
    )
    yield LibraryAnswer(
        "RFC 5869, case 1",
        bytes.fromhex(
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"
        ),
        derivation.derive(b"\x0b" * 22),
    )


def _argon2id() -> Iterator[LibraryAnswer]:
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

    derivation = Argon2id(
        salt=b"\x02" * 16,
        length=32,
        iterations=3,
        lanes=4,
        memory_cost=32,
        ad=b"\x04" * 12,
        secret=b"\x03" * 8,
    )
    yield LibraryAnswer(
        "RFC 9106",
        bytes.fromhex("0d640df58d78766c08c037a34a8b53c9d01ef0452d75b65eb52520e96b01e659"),
        derivation.derive(b"\x01" * 32),
    )


def _zstd() -> Iterator[LibraryAnswer]:
    import zstandard

    text = b"strongroom " * 1000
    frame = bytes.fromhex("28b52ffd60f8299d0000587374726f6e67726f6f6d200100eaca7cf102")
    yield LibraryAnswer("a known frame", text, zstandard.ZstdDecompressor().decompress(frame))
    for level in (1, 3, 19):
        there = zstandard.ZstdCompressor(level=level).compress(_noise(5000) + text)
        back = zstandard.ZstdDecompressor().decompress(there)
        yield LibraryAnswer(f"there and back, level {level}", _noise(5000) + text, back)


def _lz4() -> Iterator[LibraryAnswer]:
    import lz4.block

    text = b"strongroom " * 1000
    block = bytes.fromhex(
        "bf7374726f6e67726f6f6d200b00ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff0050726f6f6d20"
    )
    yield LibraryAnswer(
        "a known block", text, lz4.block.decompress(block, uncompressed_size=len(text))
    )
    for mode in ("default", "high_compression"):
        there = lz4.block.compress(_noise(5000) + text, mode=mode, store_size=False)
        back = lz4.block.decompress(there, uncompressed_size=5000 + len(text))
        yield LibraryAnswer(f"there and back, {mode}", _noise(5000) + text, back)


def _gzip() -> Iterator[LibraryAnswer]:
    import zlib

    text = b"strongroom " * 1000
    yield LibraryAnswer("crc32", 0xCBF43926, zlib.crc32(b"123456789"))
    for level in (1, 6, 9):
        back = zlib.decompress(zlib.compress(text, level))
        yield LibraryAnswer(f"there and back, level {level}", text, back)


def _chunker() -> Iterator[LibraryAnswer]:
    from strongroom.engine.content.chunker import Chunker

    data = _noise(8 << 20)
    whole = Chunker(bytes(range(32))).cut(memoryview(data), final=True)
    yield LibraryAnswer("cut points", CUT_POINTS, whole)
    yield LibraryAnswer("covers the data", len(data), sum(whole))
    other = Chunker(bytes(range(1, 33))).cut(memoryview(data), final=True)
    yield LibraryAnswer("another key cuts elsewhere", True, other != whole)


# Chunk lengths of eight known MiB; others would break deduplication with old backups.
CUT_POINTS = [1155159, 1451312, 592752, 1196626, 2746693, 534195, 401144, 310727]

TESTS: dict[str, Callable[[], Iterator[LibraryAnswer]]] = {
    "blake3": _blake3,
    "signatures": _signatures,
    "aes-256-gcm": _aes_256_gcm,
    "chacha20-poly1305": _chacha20_poly1305,
    "x25519": _x25519,
    "hkdf-sha256": _hkdf,
    "argon2id": _argon2id,
    "zstd": _zstd,
    "lz4": _lz4,
    "gzip": _gzip,
    "fastcdc": _chunker,
}
