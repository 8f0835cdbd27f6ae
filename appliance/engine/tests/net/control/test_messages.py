"""Messages between director and agent: small, whatever they are about."""

import pytest

from strongroom.base.errors import QuotaError
from strongroom.engine.repository.ticket_objects import LARGEST_OBJECT_BYTES, TicketObject
from strongroom.net.control.messages import (
    LARGEST_MESSAGE_BYTES,
    RestoreChoices,
    StartRestore,
    StorageTarget,
    decode_for_agent,
    encode_for_agent,
)


def restore(**fields):
    return StartRestore(
        run_id="a" * 32,
        job="restore",
        storage=StorageTarget(address="vault", port=9103, server_name="vault"),
        ticket=TicketObject(name="ab" * 32, size_bytes=LARGEST_OBJECT_BYTES, key=bytes(range(32))),
        grant="g",
        target="/",
        **fields,
    )


def test_an_order_is_small_however_large_its_ticket_is():
    text = encode_for_agent(restore())
    assert len(text) < 1000
    assert decode_for_agent(text) == restore()


def test_an_order_that_no_agent_would_take_is_not_sent():
    paths = ["x" * 1000] * (LARGEST_MESSAGE_BYTES // 1000)
    with pytest.raises(QuotaError, match="fewer paths"):
        encode_for_agent(restore(options=RestoreChoices(includes=tuple(paths))))


def test_the_key_of_a_ticket_is_not_shown():
    assert repr(bytes(range(32))) not in repr(restore())
