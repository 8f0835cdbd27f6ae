"""How the director's results look in the API: names of fields, times and paths.

`served` marks a dataclass that the API returns directly. Its fields have no unit of time in their
API names (`started_ns` is `started`) and no `is_`.

Times are UTC in RFC 3339 with nanoseconds, null where something has not happened. A path is a text
if it is UTF-8; otherwise it is `{"base64": "..."}`, so that every file can be named.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from pydantic import AliasGenerator, BaseModel, ConfigDict, Field, PlainSerializer

from strongroom.base import clock
from strongroom.base.errors import UsageError

LARGEST_PATH_BYTES = 64 << 10
_Class = TypeVar("_Class", bound=type)


class Base64Path(BaseModel):
    """The bytes of a path that is not UTF-8."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base64: str = Field(max_length=2 * LARGEST_PATH_BYTES)


PathText = str | Base64Path


def moment(time_ns: int) -> str | None:
    """A time in the API's format; None for 0."""
    return clock.utc_text(time_ns) if time_ns else None


def path_text(path: bytes) -> PathText:
    """A path in the API's format."""
    try:
        return path.decode("utf-8")
    except UnicodeDecodeError:
        return Base64Path(base64=base64.b64encode(path).decode("ascii"))


def path_bytes(text: PathText) -> bytes:
    """The path from an API request. Raises UsageError."""
    if isinstance(text, Base64Path):
        try:
            path = base64.b64decode(text.base64, validate=True)
        except (binascii.Error, ValueError) as error:
            raise UsageError(f"{text.base64[:80]!r} is not base64") from error
    else:
        try:
            path = text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise UsageError(f"{text[:80]!r} is not UTF-8; send it as base64") from error
    if b"\0" in path or len(path) > LARGEST_PATH_BYTES:
        raise UsageError("a path has no zero bytes, and at most 64 KiB")
    return path


def chosen_path(text: str, in_base64: str) -> bytes:
    """The path of a query with `path` and `path_base64`, the latter for non-UTF-8 paths."""
    return path_bytes(Base64Path(base64=in_base64) if in_base64 else text)


def _path_of_snapshot(path: bytes) -> PathText:
    return path_text(b"/" + path.lstrip(b"/"))


def _target_of_link(target: bytes) -> PathText | None:
    return path_text(target) if target else None


_Type = TypeVar("_Type")
# A field that the API does not show.
Internal = Annotated[_Type, Field(exclude=True)]
# A time in unix nanoseconds, null in the API for 0; and one that is never null.
Time = Annotated[int, PlainSerializer(moment, return_type=str | None)]
KnownTime = Annotated[int, PlainSerializer(clock.utc_text, return_type=str)]
SnapshotPath = Annotated[bytes, PlainSerializer(_path_of_snapshot, return_type=PathText)]
AttributeName = Annotated[bytes, PlainSerializer(path_text, return_type=PathText)]
LinkTarget = Annotated[bytes, PlainSerializer(_target_of_link, return_type=PathText | None)]


def served(**names: str) -> Callable[[_Class], _Class]:
    """Mark a dataclass; `names`: of fields with another name in the API."""

    def name_in_api(field: str) -> str:
        return names.get(field, field.removesuffix("_ns").removeprefix("is_"))

    def mark(kind: _Class) -> _Class:
        config = ConfigDict(
            alias_generator=AliasGenerator(serialization_alias=name_in_api),
            json_schema_serialization_defaults_required=True,
            json_schema_extra=_without_defaults,
        )
        setattr(kind, "__pydantic_config__", config)  # noqa: B010 - pydantic's name for it
        return kind

    return mark


def _without_defaults(schema: dict[str, Any]) -> None:
    """Mark all fields of a response as required, including those with a default."""
    for field in schema["properties"].values():
        field.pop("default", None)
