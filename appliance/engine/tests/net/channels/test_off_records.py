"""Records of the mode "off": who is between can read them, and do nothing else unnoticed."""

import contextlib
import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strongroom.base.errors import ConnectionLostError, PeerRefusedError
from strongroom.net.channels.off_records import (
    END,
    GREATEST_PAYLOAD_BYTES,
    GREATEST_RAW_BYTES,
    HEAD,
    RAW,
    TAG_SIZE,
    OffChannel,
)
from strongroom.net.identities.peer import Peer

HERE, THERE = bytes(range(32)), bytes(range(32, 64))
PEER = Peer("web1", "agent", "1")
SMALL = st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=5)


@contextlib.contextmanager
def wire(send_key=HERE, receive_key=THERE):
    """A channel, and the bare socket at the other end of its wire."""
    one, other = socket.socketpair()
    channel = OffChannel(one, PEER, send_key, receive_key)
    other.settimeout(30)
    try:
        yield channel, other
    finally:
        channel.close()
        other.close()


def written(*messages, end=False):
    """What a channel puts on the wire for `messages`, as one list entry each."""
    records = []
    with wire() as (channel, other):
        for message in messages:
            channel.send(message)
            records.append(other.recv(1 << 20))
        channel.close()
        if end:
            records.append(other.recv(1 << 20))
    return records


def read(data, size, ends=True):
    """What a channel with the right keys makes of bytes on the wire."""
    with wire(THERE, HERE) as (channel, other):
        other.sendall(data)
        if ends:
            other.shutdown(socket.SHUT_WR)
        channel.set_timeout(30)
        return channel.receive_exactly(size)


def receive_all(channel, received):
    while True:
        received += channel.receive_exactly(1)


@given(SMALL)
def test_what_was_sent_is_read(messages):
    whole = b"".join(messages)
    assert read(b"".join(written(*messages)), len(whole)) == whole


@given(SMALL, st.data())
def test_a_change_of_any_byte_is_noticed_before_a_false_byte_is_handed_out(messages, data):
    whole = b"".join(messages)
    sent = bytearray(b"".join(written(*messages)))
    place = data.draw(st.integers(0, len(sent) - 1))
    sent[place] ^= data.draw(st.integers(1, 255))
    with wire(THERE, HERE) as (channel, other):
        other.sendall(sent)
        other.shutdown(socket.SHUT_WR)
        received = bytearray()
        with pytest.raises((PeerRefusedError, ConnectionLostError)):
            receive_all(channel, received)
        assert whole.startswith(received)
        assert len(received) < len(whole)


@given(SMALL, st.data())
def test_a_truncated_stream_is_never_a_clean_end(messages, data):
    sent = b"".join(written(*messages))
    cut = data.draw(st.integers(0, len(sent)))
    with wire(THERE, HERE) as (channel, other):
        other.sendall(sent[:cut])
        other.shutdown(socket.SHUT_WR)
        with pytest.raises(ConnectionLostError) as caught:
            receive_all(channel, bytearray())
        assert not caught.value.clean


@pytest.mark.parametrize("order", [[0, 0, 1, 2], [1, 0, 2], [0, 2], [1, 2], [0, 1, 1, 2]], ids=str)
def test_records_cannot_be_repeated_dropped_or_swapped(order):
    records = written(b"one", b"two", b"six")
    with pytest.raises(PeerRefusedError, match="forged"):
        read(b"".join(records[number] for number in order), 9)


def test_a_record_cannot_be_sent_back_to_its_sender():
    with wire() as (channel, other):
        channel.send(b"pay me")
        other.sendall(other.recv(1 << 20))
        with pytest.raises(PeerRefusedError, match="forged"):
            channel.receive_exactly(6)


def test_an_end_cannot_be_forged_and_a_true_one_is_clean():
    records = written(b"one", end=True)
    assert records[1][: HEAD.size] == HEAD.pack(0, END)
    with pytest.raises(PeerRefusedError, match="forged"):
        # The end of another moment of the same connection.
        read(records[1], 1)
    with pytest.raises(ConnectionLostError) as caught:
        read(b"".join(records), 4)
    assert not caught.value.clean
    with wire(THERE, HERE) as (channel, other):
        other.sendall(b"".join(records))
        assert channel.receive_exactly(3) == b"one"
        with pytest.raises(ConnectionLostError) as caught:
            channel.receive_exactly(1)
        assert caught.value.clean


@pytest.mark.parametrize(
    "head",
    [
        HEAD.pack(GREATEST_PAYLOAD_BYTES + 1, 0),
        HEAD.pack(0xFFFFFFFF, 0),
        HEAD.pack(GREATEST_RAW_BYTES + 1, RAW),
        HEAD.pack(0, 0),
        HEAD.pack(0, RAW),
        HEAD.pack(1, END),
        HEAD.pack(5, 4),
        HEAD.pack(5, RAW | END),
    ],
    ids=bytes.hex,
)
def test_an_impossible_record_is_refused_at_its_head(head):
    """Without waiting for the rest, and so without room for it."""
    with pytest.raises(PeerRefusedError, match="tampered"):
        read(head, 1, ends=False)


def test_the_length_of_a_file_is_protected_and_its_content_is_not(tmp_path):
    """That is what sendfile costs; what is sent this way is verified by anyone who asked for it."""
    (tmp_path / "file").write_bytes(b"content of an object")
    with wire() as (channel, other), open(tmp_path / "file", "rb") as file:
        channel.send_file(file.fileno(), 0, 20)
        channel.send(b"next")
        sent = b""
        while len(sent) < HEAD.size + TAG_SIZE + 20 + HEAD.size + 4 + TAG_SIZE:
            sent += other.recv(1 << 20)
    changed = sent.replace(b"content", b"CONTENT")
    assert read(changed, 24) == b"CONTENT of an objectnext"
    longer = HEAD.pack(24, RAW) + sent[HEAD.size :]
    with pytest.raises(PeerRefusedError, match="forged"):
        read(longer, 24)


def test_what_comes_before_content_is_protected_and_the_content_is_bounded():
    with wire() as (channel, other):
        channel.send_content(b"start", b"content")
        channel.send(b"next")
        sent = b""
        while len(sent) < 3 * (HEAD.size + TAG_SIZE) + 16:
            sent += other.recv(1 << 20)
    assert read(sent, 16) == b"startcontentnext"
    assert read(sent.replace(b"content", b"CONTENT"), 16) == b"startCONTENTnext"
    with pytest.raises(PeerRefusedError, match="forged"):
        read(sent.replace(b"start", b"START"), 16)
    with pytest.raises(PeerRefusedError, match="forged"):
        read(sent.replace(b"next", b"NEXT"), 16)


def test_an_ordinary_record_cannot_pass_for_a_part_of_a_file():
    (record,) = written(b"command")
    head, payload, tag = record[:5], record[5:-TAG_SIZE], record[-TAG_SIZE:]
    size, _ = HEAD.unpack(head)
    with pytest.raises(PeerRefusedError, match="forged"):
        read(HEAD.pack(size, RAW) + tag + payload, 7)


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_no_bytes_at_all_make_it_fail_in_another_way(noise):
    with pytest.raises((PeerRefusedError, ConnectionLostError)):
        read(noise, 64)
