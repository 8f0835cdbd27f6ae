"""Reads what an object store answers: headers, and documents in XML.

Whatever is not as Amazon's documents say raises ValueError or LookupError.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, NamedTuple
from urllib.parse import unquote_plus
from xml.etree import ElementTree as ET

from strongroom.base import clock

_COUNTING_VERSION: Final = re.compile("[0-9a-f]{32}")
# Nothing was stored before 2020.
_LEAST_STORED_NS: Final = 1_577_836_800 * clock.SECOND_NS


class Head(NamedTuple):
    """What the store knows of an object without its content.

    locked_until_ns: the end of its retention, 0 where it has none.
    """

    size_bytes: int
    modified_ns: int
    tag: str
    lock_mode: str = ""
    locked_until_ns: int = 0


class KeyVersion(NamedTuple):
    """One version of a key, or a mark that it was deleted."""

    key: str
    version: str
    size_bytes: int
    stored_ns: int
    is_marker: bool
    is_current: bool


class Part:
    """An element of a document."""

    def __init__(self, element: ET.Element, *, is_quoted: bool = False) -> None:
        self._element = element
        self._is_quoted = is_quoted

    def text(self, name: str) -> str:
        """The text of a child, "" without one."""
        return self._element.findtext(f"{{*}}{name}") or ""

    def key(self, name: str) -> str:
        """The same where it is a key: in a list it is quoted if the store says so."""
        text = self.text(name)
        return unquote_plus(text) if self._is_quoted else text

    def parts(self, name: str) -> Iterator[Part]:
        """Children of a name."""
        for child in self._element.findall(f"{{*}}{name}"):
            yield Part(child, is_quoted=self._is_quoted)

    def is_true(self, name: str) -> bool:
        """Whether the text of a child is `true`."""
        return self.text(name).lower() == "true"


def document(content: bytes) -> Part:
    """A document; it may define nothing, so it is no larger in memory than it was sent."""
    root = _root_of(content)
    if _is_error(root):
        raise ValueError("an error that is answered as a success")
    return Part(root, is_quoted=(root.findtext("{*}EncodingType") or "") == "url")


def error_of(content: bytes) -> Part | None:
    """What an answer says of an error, None where it is none."""
    try:
        root = _root_of(content)
    except ValueError:
        return None
    return Part(root) if _is_error(root) else None


def head_of(headers: Mapping[str, str]) -> Head:
    """An object, by the headers of an answer."""
    until = headers.get("x-amz-object-lock-retain-until-date", "")
    return Head(
        int(headers["content-length"]),
        _whole_seconds(parsedate_to_datetime(headers["last-modified"])),
        headers["etag"],
        headers.get("x-amz-object-lock-mode", ""),
        _ns(until) if until else 0,
    )


def listed(part: Part) -> tuple[str, Head]:
    """A key of a list."""
    head = Head(int(part.text("Size")), _ns(part.text("LastModified")), part.text("ETag"))
    return part.key("Key"), head


def versions_of(root: Part) -> list[KeyVersion]:
    """The versions and marks of a list of them."""
    return [
        KeyVersion(
            one.key("Key"),
            one.text("VersionId"),
            int(one.text("Size") or 0),
            time_of_version(one.text("VersionId"), _ns(one.text("LastModified"))),
            is_marker,
            one.is_true("IsLatest"),
        )
        for what, is_marker in (("Version", False), ("DeleteMarker", True))
        for one in root.parts(what)
    ]


def uploads_of(root: Part) -> list[tuple[str, str, int]]:
    """Uploads in parts: key, id, and when they began."""
    return [
        (one.key("Key"), one.text("UploadId"), _ns(one.text("Initiated")))
        for one in root.parts("Upload")
    ]


def element(name: str, *content: str) -> str:
    """A piece of a document: `content` is text of which nothing needs quoting, or other pieces."""
    return f"<{name}>{''.join(content)}</{name}>"


def date_text(time_ns: int) -> str:
    """A time as headers and documents have it."""
    return datetime.fromtimestamp(time_ns // clock.SECOND_NS, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def time_of_version(version: str, modified_ns: int) -> int:
    """When a version was stored, in whole seconds.

    SeaweedFS changes the time of a version whose retention is extended. But it is also in the id,
    which the store alone gives: 16 hex digits, of the latest number less the nanoseconds.
    """
    if _COUNTING_VERSION.fullmatch(version):
        stored_ns = (1 << 63) - 1 - int(version[:16], 16)
        if _LEAST_STORED_NS < stored_ns <= modified_ns + clock.SECOND_NS:
            return stored_ns // clock.SECOND_NS * clock.SECOND_NS
    return modified_ns


def _root_of(content: bytes) -> ET.Element:
    text = content.decode()
    if "<!DOCTYPE" in text:
        raise ValueError("a document with definitions")
    try:
        return ET.fromstring(text)  # noqa: S314 - without definitions there is nothing to expand
    except ET.ParseError as error:
        raise ValueError(str(error)) from None


def _is_error(root: ET.Element) -> bool:
    return root.tag.rpartition("}")[2] == "Error"


def _ns(text: str) -> int:
    return _whole_seconds(datetime.fromisoformat(text))


def _whole_seconds(time_of_store: datetime) -> int:
    """Some stores have fractions in lists alone. A time without a zone is one of UTC."""
    if time_of_store.tzinfo is None:
        time_of_store = time_of_store.replace(tzinfo=UTC)
    return int(time_of_store.timestamp()) * clock.SECOND_NS
