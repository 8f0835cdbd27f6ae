"""What a comparison of two trees reports: a path, the kind of difference, and both sides."""

from __future__ import annotations

from dataclasses import dataclass

KINDS = frozenset(
    {
        "missing",
        "extra",
        "type",
        "mode",
        "owner",
        "group",
        "mtime",
        "size",
        "content",
        "holes",
        "target",
        "device",
        "xattr",
        "acl",
        "flags",
        "hard-links",
        "link-count",
        "unreadable",
    }
)


def shown(name: bytes, limit: int = 200) -> str:
    """`name` for people: printable ASCII as it is, all else as escapes, the middle cut out."""
    text = "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte != 0x5C else f"\\x{byte:02x}" for byte in name
    )
    if len(text) <= limit:
        return text
    return f"{text[: limit // 2]}...{text[-limit // 2 :]}"


@dataclass(frozen=True)
class Difference:
    """One difference at `path` (relative to the roots, any bytes)."""

    path: bytes
    kind: str
    expected: str
    actual: str

    def as_object(self) -> dict[str, str]:
        """The difference for a line of JSON; the path is there in escapes, whole."""
        return {
            "path": shown(self.path, 4 * len(self.path) + 1),
            "kind": self.kind,
            "expected": self.expected,
            "actual": self.actual,
        }
