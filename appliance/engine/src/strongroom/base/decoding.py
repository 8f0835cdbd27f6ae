"""Decodes what a store or a peer sent: within bounds, and with one kind of error.

Anyone who holds a client's key can seal any bytes, so a seal that opens says nothing about their
shape. Every decoder of such bytes runs inside `reading`, which names the object and turns what
libraries raise for malformed bytes into one StrongroomError. `decode_object` decodes msgpack that
may have fields this version does not know: how deep those are nested is bounded by our own
count, since what the interpreter bears depends on who called, and an object must be sound for all
jobs or for none.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import msgspec

from strongroom.base.errors import DamageError, MemoryLimitError, StrongroomError

DEPTH_LIMIT: Final = 16
_BAD_BYTES: Final = (
    msgspec.MsgspecError,
    ArithmeticError,
    BufferError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)
_Value = TypeVar("_Value")
_learning: Final = threading.Lock()
_learned: set[Any] = set()


def decodable(wanted: type[_Value]) -> type[_Value]:
    """The type, once msgspec knows its fields: for types without a Decoder of their module.

    msgspec learns the fields of a Struct when it first decodes one, and shows them to other threads
    before they are complete: one that decodes the same type follows a null pointer, and the process
    dies. An agent did that read the list of revoked certificates in two threads as it started.
    """
    if wanted not in _learned:
        with _learning:
            msgspec.msgpack.Decoder(wanted)
            _learned.add(wanted)
    return wanted


@contextmanager
def reading(what: str, kind: type[StrongroomError] = DamageError) -> Iterator[None]:
    """Whatever malformed bytes cause inside is an error of this kind that names `what`.

    Too little memory is MemoryLimitError: it says nothing about the bytes.
    """
    try:
        yield
    except _BAD_BYTES as error:
        raise kind(f"{what} holds something else ({_text(error)}); run check") from error
    except MemoryError as error:
        raise MemoryLimitError(
            f"reading {what} takes more memory than this job may have"
        ) from error


def decode(
    data: bytes | memoryview,
    wanted: type[_Value],
    what: str,
    kind: type[StrongroomError] = DamageError,
) -> _Value:
    """A msgpack value of a type that has no unknown fields, or of bytes that no one compares."""
    with reading(what, kind):
        return msgspec.msgpack.decode(data, type=decodable(wanted))


def decode_object(data: bytes, wanted: type[_Value], what: str, limit_bytes: int) -> _Value:
    """A msgpack value that may have unknown fields, of at most so many bytes. DamageError."""
    if len(data) > limit_bytes:
        raise DamageError(
            f"{what} has {len(data)} bytes, more than the {limit_bytes} allowed; run check"
        )
    with reading(what):
        require_bounded(data, what)
        return msgspec.msgpack.decode(data, type=decodable(wanted))


def array_size(data: bytes) -> int:
    """How many items a msgpack array says that it has, before any is decoded; -1 for no array."""
    first = data[0] if data else 0
    if first & 0xF0 == 0x90:
        return first & 0x0F
    if first in (0xDC, 0xDD):
        return int.from_bytes(data[1 : 3 if first == 0xDC else 5], "big")
    return -1


def require_bounded(data: bytes, what: str) -> None:
    """DamageError for msgpack nested deeper than DEPTH_LIMIT, or with more items than bytes."""
    left = [1]
    at = 0
    while left:
        if not left[-1]:
            left.pop()
            continue
        left[-1] -= 1
        size, is_length, count = _FORMS[data[at]]
        at += 1
        if is_length:
            number = int.from_bytes(data[at : at + size], "big")
            at += size
            if count:
                count *= number
            else:
                at += number + is_length - 1
        else:
            at += size
        if at > len(data) or count > len(data) - at:
            raise DamageError(f"{what} is cut off; run check")
        if count:
            left.append(count)
            if len(left) > DEPTH_LIMIT:
                raise DamageError(
                    f"{what} is nested more than {DEPTH_LIMIT} levels deep; run check"
                )


def _form(first: int) -> tuple[int, int, int]:
    """What follows a first byte of msgpack: (size, is_length, items).

    is_length: the bytes of `size` are a length; 2 where a type byte follows. items: of an array or
    a map, for each that the length counts.
    """
    if 0x80 <= first <= 0x9F:
        return 0, 0, (first & 0x0F) * (2 if first < 0x90 else 1)
    if 0xA0 <= first <= 0xBF:
        return first & 0x1F, 0, 0
    return _OTHER_FORMS.get(first, (0, 0, 0))


_OTHER_FORMS: Final[dict[int, tuple[int, int, int]]] = {
    **{0xC4 + n: (1 << n, 1, 0) for n in range(3)},
    **{0xC7 + n: (1 << n, 2, 0) for n in range(3)},
    0xCA: (4, 0, 0),
    0xCB: (8, 0, 0),
    **{0xCC + n: (1 << n, 0, 0) for n in range(4)},
    **{0xD0 + n: (1 << n, 0, 0) for n in range(4)},
    **{0xD4 + n: ((1 << n) + 1, 0, 0) for n in range(5)},
    **{0xD9 + n: (1 << n, 1, 0) for n in range(3)},
    **{0xDC + n: (2 << n, 1, 1) for n in range(2)},
    **{0xDE + n: (2 << n, 1, 2) for n in range(2)},
}
_FORMS: Final = tuple(_form(first) for first in range(256))


def _text(error: BaseException) -> str:
    text: Any = str(error)
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__
