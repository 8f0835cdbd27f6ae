"""Frames arrive whole, in any pieces; what is not a frame is refused before it costs anything."""

import subprocess
import sys
from importlib.util import find_spec

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.project import FUZZ
from strongroom.base.errors import ProtocolError
from strongroom.net.storage.frames import (
    LARGEST_FRAME_BYTES,
    START_SIZE,
    FrameReader,
    decode_start,
    encode_start,
)

TARGET = FUZZ / "fuzz_frame.py"


class Stream:
    def __init__(self, data):
        self.data = data
        self.asked = []

    def receive_exactly(self, size):
        self.asked.append(size)
        part, self.data = self.data[:size], self.data[size:]
        return part

    def receive_into(self, view):
        view[:] = self.receive_exactly(len(view))


frames = st.tuples(
    st.integers(0, 255),
    st.integers(0, 1),
    st.integers(0, 2**32 - 1),
    st.binary(max_size=300),
    st.binary(max_size=3000),
)


@given(st.lists(frames, max_size=5))
def test_frames_come_out_as_they_went_in(sent):
    data = b"".join(
        encode_start(kind, flags, number, header, len(payload)) + payload
        for kind, flags, number, header, payload in sent
    )
    reader = FrameReader(Stream(data))
    for expected in sent:
        frame = reader.rest(reader.start())
        assert (*frame[:4], bytes(frame.payload)) == expected


@given(st.binary(min_size=START_SIZE, max_size=START_SIZE))
def test_no_announcement_makes_us_hold_more_than_one_frame(raw):
    try:
        start = decode_start(raw)
    except ProtocolError:
        return
    assert 0 <= start.header_size + start.payload_size <= LARGEST_FRAME_BYTES


def test_an_oversized_frame_is_refused_before_its_bytes_are_read():
    stream = Stream((2**32 - 1).to_bytes(4, "little") + bytes(8))
    with pytest.raises(ProtocolError):
        FrameReader(stream).start()
    assert stream.asked == [START_SIZE]
    with pytest.raises(ValueError):
        encode_start(1, 0, 1, b"", LARGEST_FRAME_BYTES)
    with pytest.raises(ValueError):
        encode_start(1, 0, 1, bytes(1 << 16), 0)


def test_flags_that_nobody_knows_are_refused():
    raw = bytearray(encode_start(1, 0, 1, b"", 0))
    raw[5] = 2
    with pytest.raises(ProtocolError):
        decode_start(raw)


@pytest.mark.skipif(find_spec("atheris") is None, reason="atheris is not installed")
def test_a_short_search_finds_nothing(tmp_path):
    seeds = tmp_path / "seeds"
    subprocess.run([sys.executable, str(TARGET), "--seeds", str(seeds)], check=True, cwd=tmp_path)
    done = subprocess.run(
        [sys.executable, str(TARGET), str(seeds), "-max_total_time=3", "-timeout=10", "-seed=1"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
