"""Metrics in the text format of Prometheus, version 0.0.4: served by daemons, or written to a file.

What a metric means, its type and its labels are in the table of metrics (metric_table).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf, isnan
from typing import Final, NamedTuple

from strongroom.service.metric_table.specification import Specification
from strongroom.service.metric_table.table import METRICS

# Without name and time, by any system. A last block of deflate with nothing in it.
_GZIP_HEAD: Final = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
_NO_MORE_BLOCKS: Final = b"\x03\0"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric of the table, with its samples: labels and value."""

    name: str
    samples: tuple[tuple[dict[str, str], float], ...]

    @property
    def specification(self) -> Specification:
        """What the table says of it."""
        return METRICS[self.name]


def metric(stem: str, samples: Iterable[tuple[dict[str, str], float]] | float) -> Metric:
    """`strongroom_STEM` with its samples, or with the one value of a metric without labels."""
    found = [({}, samples)] if isinstance(samples, int | float) else samples
    return Metric(f"strongroom_{stem}", tuple((labels, float(value)) for labels, value in found))


def exposition(metrics: Iterable[Metric]) -> bytes:
    """The metrics as UTF-8 text for Prometheus."""
    return b"".join(head(one.name) + b"".join(sample_lines(one)) for one in metrics)


def head(name: str) -> bytes:
    """The lines that say what a metric means and of which type it is."""
    one = METRICS[name]
    meaning = one.meaning.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {name} {meaning}\n# TYPE {name} {one.kind}\n".encode()


def sample_lines(metric: Metric) -> Iterable[bytes]:
    """A line for each sample, in their order."""
    names = sorted(metric.specification.labels)
    for labels, value in metric.samples:
        pairs = ",".join([f'{name}="{_text(labels[name])}"' for name in names])
        shown = f"{{{pairs}}}" if pairs else ""
        yield f"{metric.name}{shown} {_number(value)}\n".encode()


class Piece(NamedTuple):
    """Part of a text, and the same as a part of a deflate stream, which needs none before it."""

    text: bytes
    deflated: bytes

    @classmethod
    def of(cls, text: bytes) -> Piece:
        """Compress it, at 140 MB/s and more; names and labels repeat, so it becomes a tenth."""
        packer = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
        return cls(text, packer.compress(text) + packer.flush(zlib.Z_FULL_FLUSH))


def gzip_of(pieces: Iterable[Piece]) -> bytes:
    """A gzip file (RFC 1952) of one member from pieces that were compressed before."""
    found = [_GZIP_HEAD]
    digest = size = 0
    for text, deflated in pieces:
        digest = zlib.crc32(text, digest)
        size += len(text)
        found.append(deflated)
    end = struct.pack("<LL", digest, size & 0xFFFFFFFF)
    return b"".join((*found, _NO_MORE_BLOCKS, end))


def _text(label: str) -> str:
    if not label.isascii():
        # The name of a client may contain bytes that are not valid UTF-8.
        label = label.encode("utf-8", "backslashreplace").decode("utf-8")
    return label.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    if value in (inf, -inf):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if isnan(value) else repr(value)
