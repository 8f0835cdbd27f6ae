"""What a backup left out, as its snapshot records it: with the list of pages, since it has names.

    version u8 | msgpack of a list: rules, places

Another version means something else, and is as good as none.
"""

from __future__ import annotations

from typing import Final

import msgspec

from strongroom.base.decoding import decode
from strongroom.base.errors import DamageError
from strongroom.engine.rows.left_out import MOST_BYTES

_VERSION: Final = b"\1"
# Rules are bytes like others here: what they may be is decided where they are applied.
_RULES_BYTES: Final = 4 << 20


class LeftOut(msgspec.Struct, frozen=True, array_like=True):
    """Its rules (`filesets.recorded`), and the places that these do not explain.

    rules: b"" where they do not say enough, so that nothing is known of names that are in neither
    the listing nor the places. places: reason by directory and name, as of `rows.left_out`.
    """

    rules: bytes
    places: dict[bytes, dict[bytes, int]] = {}


def encode_left_out(left_out: LeftOut | None) -> bytes:
    """The record; b"" where it is not known what was left out, or is too much."""
    if left_out is None or len(left_out.rules) > _RULES_BYTES:
        return b""
    return _VERSION + msgspec.msgpack.encode(left_out)


def decode_left_out(data: bytes, what: str) -> LeftOut | None:
    """What `encode_left_out` was given; `what` names the object. Raises DamageError."""
    if not data.startswith(_VERSION):
        return None
    if len(data) > MOST_BYTES + _RULES_BYTES + len(_VERSION) * 64:
        raise DamageError(f"{what} says too much of what was left out; run check")
    return decode(memoryview(data)[len(_VERSION) :], LeftOut, what)
