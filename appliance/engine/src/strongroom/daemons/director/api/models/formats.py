"""How times and paths look in the API, both ways.

Times are UTC in RFC 3339 with nanoseconds, null where something has not happened. A path is text
where it is UTF-8; where it is not it is `{"base64": "..."}`, so that no file is out of reach.
"""

from __future__ import annotations

import base64
import binascii

from pydantic import BaseModel, ConfigDict, Field

from strongroom import clock
from strongroom.errors import UsageError

LARGEST_PATH_BYTES = 64 << 10


class Base64Path(BaseModel):
    """The bytes of a path that is not UTF-8."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base64: str = Field(max_length=2 * LARGEST_PATH_BYTES)


PathText = str | Base64Path


def moment(time_ns: int) -> str | None:
    """A time as the API has it; None for 0."""
    return clock.utc_text(time_ns) if time_ns else None


def path_text(path: bytes) -> PathText:
    """A path as the API has it."""
    try:
        return path.decode("utf-8")
    except UnicodeDecodeError:
        return Base64Path(base64=base64.b64encode(path).decode("ascii"))


def path_bytes(text: PathText) -> bytes:
    """The path that the API was given. Raises UsageError."""
    if isinstance(text, Base64Path):
        try:
            path = base64.b64decode(text.base64, validate=True)
        except (binascii.Error, ValueError) as error:
            raise UsageError(f"{text.base64[:80]!r} is not base64") from error
    else:
        try:
            path = text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise UsageError(f"{text[:80]!r} is not UTF-8; say it as base64") from error
    if b"\0" in path or len(path) > LARGEST_PATH_BYTES:
        raise UsageError("a path has no zero bytes, and at most 64 KiB")
    return path


def chosen_path(text: str, in_base64: str) -> bytes:
    """The path of a query that has `path` and `path_base64`, the latter for what is not UTF-8."""
    return path_bytes(Base64Path(base64=in_base64) if in_base64 else text)
