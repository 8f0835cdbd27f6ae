"""Messages to an agent of any length, in pieces that a WebSocket takes."""

import random
from base64 import b64encode

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom.errors import QuotaError
from strongroom.net.control import messages as control
from strongroom.net.control.messages import (
    LARGEST_MESSAGE_BYTES,
    Acknowledge,
    Cancel,
    Gathering,
    Piece,
    StartRestore,
    StorageTarget,
    encode,
    encode_for_agent,
)
from strongroom.repo.keys import PACK_ENTRY_SIZE

TARGET = StorageTarget(address="vault", port=9103, server_name="vault")
TWO_MILLION_PACKS = 2_000_000


def restore(ticket, job="j"):
    return StartRestore(
        run_id="a" * 32, job=job, storage=TARGET, ticket=ticket, grant="g", target="/"
    )


def gathered(texts):
    gathering = Gathering()
    found = [gathering.take(text.decode()) for text in texts]
    assert found[:-1] == [None] * (len(found) - 1)
    return found[-1]


def test_a_ticket_for_two_million_packs_arrives():
    ticket = b64encode(random.Random(1).randbytes(TWO_MILLION_PACKS * PACK_ENTRY_SIZE)).decode()
    texts = list(encode_for_agent(restore(ticket)))
    assert len(texts) > 10
    assert max(map(len, texts)) <= LARGEST_MESSAGE_BYTES
    assert gathered(texts) == restore(ticket)


def test_what_fits_into_one_message_is_one():
    assert list(encode_for_agent(restore("x"))) == [encode(restore("x"))]


@pytest.fixture(scope="module")
def tiny():
    """Limits that any message exceeds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(control, "LARGEST_MESSAGE_BYTES", 100)
        patch.setattr(control, "_PIECE_CHARACTERS", 7)
        yield


@given(ticket=st.text(), job=st.text())
def test_any_text_survives_being_cut(tiny, ticket, job):
    assert gathered(encode_for_agent(restore(ticket, job))) == restore(ticket, job)


def test_several_long_messages_follow_one_another(tiny):
    gathering = Gathering()
    messages = [restore("first" * 20), Cancel(run_id="b"), restore("second" * 20)]
    found = [gathering.take(text) for message in messages for text in encode_for_agent(message)]
    assert [message for message in found if message is not None] == messages


@pytest.mark.parametrize(
    "said",
    [
        [Piece(text="{", is_last=False), Acknowledge(run_id="a", sequence=1)],
        [Piece(text="", is_last=False)],
        [Piece(text="{", is_last=True)],
        [Piece(text=encode(Piece(text="x", is_last=True)).decode(), is_last=True)],
        [Piece(text='{"type":"hello"}', is_last=True)],
    ],
)
def test_pieces_that_make_no_sense_are_refused(said):
    with pytest.raises(msgspec.MsgspecError):
        gathered(map(encode, said))


def test_nobody_sends_or_takes_more_than_the_limit(monkeypatch):
    monkeypatch.setattr(control, "LARGEST_WHOLE_BYTES", LARGEST_MESSAGE_BYTES + 10)
    with pytest.raises(QuotaError, match="restore fewer paths"):
        list(encode_for_agent(restore("x" * (LARGEST_MESSAGE_BYTES + 10))))
    pieces = [encode(Piece(text="x" * (1 << 20), is_last=False))] * 10
    with pytest.raises(msgspec.MsgspecError, match="too many"):
        gathered(pieces)
