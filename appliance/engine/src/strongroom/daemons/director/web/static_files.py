"""Static files: read once, so that no request leads to a path of the file system."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Final, NamedTuple

from blake3 import blake3

_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class StaticFile(NamedTuple):
    """A file; version: changes with its content."""

    content: bytes
    media_type: str
    version: str


@cache
def static_files() -> dict[str, StaticFile]:
    """All by their names."""
    found = {}
    for one in resources.files("strongroom.daemons.director.web").joinpath("static").iterdir():
        kind = _TYPES.get(one.name[one.name.rfind(".") :])
        if kind is not None:
            content = one.read_bytes()
            found[one.name] = StaticFile(content, kind, blake3(content).hexdigest(8))
    return found


def address_of_file(name: str) -> str:
    """Where a browser gets it; another address when it has changed."""
    return f"/static/{name}?v={static_files()[name].version}"
