"""Coverage-guided fuzzing of frames: what a stranger can send to a storage daemon and a client.

    python fuzz/fuzz_frame.py --seeds DIRECTORY            write a seed corpus
    python fuzz/fuzz_frame.py DIRECTORY [libFuzzer options]

The input is one frame, then read again as a stream. Decoding gives a frame or a ProtocolError; a
frame encodes to what it was, and its header is read as every structure that any type has.
"""

from __future__ import annotations

import atheris
from sealed_objects import run

with atheris.instrument_imports(include=["strongroom"]):
    from strongroom.base.errors import ProtocolError
    from strongroom.net.storage.frames import FrameReader, encode_start
    from strongroom.net.storage.protocol import (
        CommitUpload,
        FrameType,
        ObjectName,
        ObjectPart,
        PutObject,
        RequestFailure,
        StorageHello,
        StorageWelcome,
        UploadData,
        Verdicts,
        decode,
        decode_infos,
        encode,
    )

HEADERS = (
    StorageHello(1, "disk", "job", "grant", "web1"),
    StorageWelcome(1, "agent", 8),
    ObjectName("packs", "ab" * 32),
    ObjectPart("packs", "ab" * 32, 17, 4096),
    ObjectPart("index", "ab" * 32, 0, None),
    PutObject("leases", "12" * 16, "new"),
    UploadData(3, "packs"),
    CommitUpload(3, "ab" * 32, "publish"),
    Verdicts("packs", ("ab" * 32,), True),
    RequestFailure("store", "no space"),
)


class Stream:
    """A channel that ends where the data does."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def receive_exactly(self, size: int) -> bytes:
        """The next `size` bytes. Raises ProtocolError."""
        part = self._data[self._at : self._at + size]
        self._at += size
        if len(part) != size:
            raise ProtocolError("the stream ended")
        return part

    def receive_into(self, view: memoryview) -> None:
        """Fill `view`."""
        view[:] = self.receive_exactly(len(view))


def check_frame(data: bytes) -> None:
    check_stream(data)
    try:
        reader = FrameReader(Stream(data))
        frame = reader.rest(reader.start())
    except ProtocolError:
        return
    payload = bytes(frame.payload)
    start = encode_start(frame.type, frame.flags, frame.request_id, frame.header, len(payload))
    assert data.startswith(start + payload)
    for header in HEADERS:
        try:
            decoded = decode(frame.header, type(header))
        except ProtocolError:
            continue
        assert decode(encode(decoded), type(header)) == decoded
    try:
        decode_infos(frame.payload)
    except ProtocolError:
        return


def check_stream(data: bytes) -> None:
    reader = FrameReader(Stream(data))
    try:
        while True:
            reader.rest(reader.start())
    except ProtocolError:
        return


def seed_frames() -> list[bytes]:
    """A frame of each kind of header, and odd ones."""
    seeds = [b"", bytes(12)]
    for number, header in enumerate(HEADERS):
        encoded = encode(header)
        for payload in (b"", encode([("ab" * 32, 12, 10**18)])):
            start = encode_start(FrameType.HELLO, number & 1, number, encoded, len(payload))
            seeds.append(start + payload)
    return seeds


if __name__ == "__main__":
    run(check_frame, seed_frames)
