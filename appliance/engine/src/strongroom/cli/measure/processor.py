"""How fast digests, ciphers and codecs are on one core, and on all of them at once.

Codecs are measured with text, the sources of Python's own library, because noise says nothing
about them; everything else has the same speed on any data.
"""

from __future__ import annotations

import mmap
import os
import platform
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Literal, NamedTuple

from strongroom.base import clock
from strongroom.cli.measure.profile import Machine, Speed
from strongroom.cli.measure.together import rate_together
from strongroom.engine.content.chunker import Chunker
from strongroom.engine.content.ciphers import AES_256_GCM, CHACHA20_POLY1305, CIPHER_NAMES, KEY_SIZE
from strongroom.engine.content.codecs import Compressor, parse_compression
from strongroom.engine.content.digests import chunk_id, new_signature

# A block of the engine has about this size.
BLOCK_BYTES: Final = 1 << 20
COPY_BYTES: Final = 64 << 20
SIGNATURES: Final = ("md5", "sha1", "sha256", "sha512", "xxh128", "blake3")
CODECS: Final = ("lz4", "zstd1", "zstd3", "zstd9", "gzip6")
ACCELERATIONS: Final = ("aes", "pclmulqdq", "sha_ni", "vaes", "avx2", "avx512f", "asimd", "sha2")


class Work(NamedTuple):
    """One thing to measure: `step` processes `step_bytes`."""

    name: str
    kind: Literal["digest", "cipher", "codec", "chunker", "copy"]
    step: Callable[[], object]
    step_bytes: int
    ratio: float = 0.0


def machine() -> Machine:
    """The machine this runs on."""
    information = _fields("/proc/cpuinfo")
    flags = (information.get("flags") or information.get("Features", "")).split()
    memory = _fields("/proc/meminfo")
    return Machine(
        platform.node(),
        information.get("model name", platform.machine()),
        len(os.sched_getaffinity(0)),
        tuple(flag for flag in ACCELERATIONS if flag in flags),
        _kib(memory.get("MemTotal", "0 kB")),
        _kib(memory.get("MemAvailable", "0 kB")),
        platform.release(),
        platform.python_version(),
    )


def works() -> Iterator[Work]:
    """Everything that is measured, in the order of the report."""
    yield _copy_work()
    text = sample_text(BLOCK_BYTES)
    # Two digests of the same name: the chunk id is keyed.
    yield Work("chunk id", "digest", lambda: chunk_id(bytes(32), text), len(text))
    for name in SIGNATURES:
        yield Work(name, "digest", _digest_step(name, text), len(text))
    yield from _cipher_works(text)
    for name in CODECS:
        compressor = Compressor(parse_compression(name))
        ratio = len(text) / len(memoryview(compressor.compress(text)[1]).cast("B"))
        yield Work(name, "codec", _codec_step(compressor, text), len(text), ratio)
    noise = memoryview(clock.random_bytes(8 * BLOCK_BYTES))
    chunker = Chunker(bytes(32))
    yield Work("chunker", "chunker", lambda: chunker.cut(noise, final=True), len(noise))


def measure_speed(work: Work, seconds: float, cores: int) -> Speed:
    """Let one process work for `seconds`, then one for each of the cores at once."""

    def step() -> int:
        work.step()
        return work.step_bytes

    one_core = rate_together(lambda: step, seconds, 1)
    all_cores = rate_together(lambda: step, seconds, cores) if cores > 1 else one_core
    return Speed(work.name, work.kind, one_core, all_cores, work.ratio)


def sample_text(size_bytes: int) -> bytes:
    """Real text of a size: the beginning of the sources of Python's library, by name."""
    found = bytearray()
    for path in sorted(Path(os.__file__).parent.glob("*.py")):
        found += path.read_bytes()
        if len(found) >= size_bytes:
            break
    while len(found) < size_bytes:
        found += found or b"no sources are installed here\n"
    return bytes(found[:size_bytes])


def _copy_work() -> Work:
    source = mmap.mmap(-1, COPY_BYTES)
    target = mmap.mmap(-1, COPY_BYTES)
    # Written to, so that it is memory of its own and not the kernel's one page of zeros.
    source[:] = b"\x5a" * COPY_BYTES

    def copy() -> None:
        memoryview(target)[:] = memoryview(source)

    return Work("memory copy", "copy", copy, COPY_BYTES)


def _digest_step(name: str, text: bytes) -> Callable[[], object]:
    def step() -> bytes:
        signature = new_signature(name)
        signature.update(text)
        return signature.digest()

    return step


def _codec_step(compressor: Compressor, text: bytes) -> Callable[[], object]:
    return lambda: compressor.compress(text)


def _cipher_works(text: bytes) -> Iterator[Work]:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

    key, nonce = bytes(KEY_SIZE), bytes(12)
    aes, chacha = AESGCM(key), ChaCha20Poly1305(key)
    # Each result is thrown away, so one nonce does.
    yield Work(
        CIPHER_NAMES[AES_256_GCM], "cipher", lambda: aes.encrypt(nonce, text, b""), len(text)
    )
    yield Work(
        CIPHER_NAMES[CHACHA20_POLY1305],
        "cipher",
        lambda: chacha.encrypt(nonce, text, b""),
        len(text),
    )


def _fields(path: str) -> dict[str, str]:
    """The first value of each name in a file of `name: value` lines."""
    found: dict[str, str] = {}
    for line in Path(path).read_text().splitlines():
        name, separator, value = line.partition(":")
        if separator:
            found.setdefault(name.strip(), value.strip())
    return found


def _kib(text: str) -> int:
    return int(text.removesuffix("kB")) * 1024
