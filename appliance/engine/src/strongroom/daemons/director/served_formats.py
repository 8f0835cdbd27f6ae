"""How the director's results look in the API: names of fields, times and paths.

`served` marks a dataclass that the API answers with as it is. Its fields are named there without
the unit of a time (`started_ns` is `started`) and without `is_`.

Times are UTC in RFC 3339 with nanoseconds, null where something has not happened. A path is text
where it is UTF-8; where it is not it is `{"base64": "..."}`, so that no file is out of reach.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import AliasGenerator, BaseModel, ConfigDict, Field, PlainSerializer

from strongroom import clock
from strongroom.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

LARGEST_PATH_BYTES = 64 << 10
_Class = TypeVar("_Class", bound=type)


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


def _path_of_snapshot(path: bytes) -> PathText:
    return path_text(b"/" + path.lstrip(b"/"))


def _target_of_link(target: bytes) -> PathText | None:
    return path_text(target) if target else None


# A time in unix nanoseconds, null in the API for 0; and one that is always there.
Time = Annotated[int, PlainSerializer(moment, return_type=str | None)]
KnownTime = Annotated[int, PlainSerializer(clock.utc_text, return_type=str)]
SnapshotPath = Annotated[bytes, PlainSerializer(_path_of_snapshot, return_type=PathText)]
LinkTarget = Annotated[bytes, PlainSerializer(_target_of_link, return_type=PathText | None)]


def served(**names: str) -> Callable[[_Class], _Class]:
    """Mark a dataclass; `names`: those of fields that are called otherwise in the API."""

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
    """An answer has all its fields, whatever they were when nobody gave them."""
    for field in schema["properties"].values():
        field.pop("default", None)
