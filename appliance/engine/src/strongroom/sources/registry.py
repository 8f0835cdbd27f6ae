"""Sources by name: built-in ones, and those of other distributions.

Other distributions add sources through the entry point group `strongroom.sources`: an entry
point is a callable that takes a SourceRequest and returns a Source (docs/reference/sources.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strongroom.errors import SourceError, UsageError
from strongroom.sources.command import CommandSource
from strongroom.sources.files import FilesSource
from strongroom.sources.stream import StandardInputSource

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from strongroom.sources.source import Source, SourceRequest

ENTRY_POINT_GROUP: Final = "strongroom.sources"

_BUILT_IN: Final[Mapping[str, Callable[[SourceRequest], Source]]] = {
    "files": FilesSource,
    "stdin": StandardInputSource,
    "command": CommandSource,
}


def open_source(name: str, request: SourceRequest) -> Source:
    """The source `name`: a built-in one, else the plugin of that name.

    Raises UsageError when there is none, SourceError when a plugin cannot be loaded.
    """
    if name in _BUILT_IN:
        return _BUILT_IN[name](request)
    # Installed distributions are searched only for plugins.
    from importlib.metadata import entry_points

    found = entry_points(group=ENTRY_POINT_GROUP, name=name)
    if not found:
        known = ", ".join(source_names())
        raise UsageError(f"there is no source {name!r}; there are: {known}")
    entry = next(iter(found))
    try:
        factory: Callable[[SourceRequest], Source] = entry.load()
    except (ImportError, AttributeError) as error:
        raise SourceError(
            f"the source {name!r} ({entry.value}) cannot be loaded: {error}"
        ) from error
    return factory(request)


def source_names() -> list[str]:
    """Names of all sources there are, sorted."""
    from importlib.metadata import entry_points

    return sorted({*_BUILT_IN, *entry_points(group=ENTRY_POINT_GROUP).names})
