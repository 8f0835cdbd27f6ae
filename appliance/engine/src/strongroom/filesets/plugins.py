"""The Plugin directives of a FileSet: the source of each.

`bpipe` is the source `command` with the reader's command; any other name is that of a plugin in
the group `strongroom.sources`, which gets the rest as options.
"""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING, Final

from strongroom.errors import RefusedError, UsageError
from strongroom.sources.registry import open_source
from strongroom.sources.source import SourceRequest

if TYPE_CHECKING:
    from strongroom.sources.source import Source

_COLON: Final = re.compile(r"(?<!\\):")
_NOT_PLUGINS: Final = ("files", "stdin")


def plugin_source(text: str, *, allow_commands: bool) -> Source:
    r"""The source for `NAME:key=value:...`; `\:` stands for a colon.

    Raises RefusedError when it runs a command and that is not allowed, UsageError when it is
    malformed or there is no such source, SourceError.
    """
    name, *parts = [part.replace("\\:", ":") for part in _COLON.split(text)]
    if name in ("bpipe", "command"):
        return _command(text, parts, allow_commands=allow_commands)
    if name in _NOT_PLUGINS:
        raise UsageError(f"Plugin {text!r}: the source {name} is not for FileSets; use File")
    options = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals:
            raise UsageError(f"Plugin {text!r}: write NAME:key=value:key=value")
        options[key.strip()] = value
    return open_source(name, SourceRequest(options=options))


def _command(text: str, parts: list[str], *, allow_commands: bool) -> Source:
    if not allow_commands:
        raise RefusedError(f"Plugin {text!r} runs a command, and commands are not allowed here")
    if any(part.startswith(("file=", "reader=", "writer=")) for part in parts):
        named = dict(part.split("=", 1) for part in parts if "=" in part)
        place, reader = named.get("file", ""), named.get("reader", "")
    else:
        place, reader = [*parts, "", ""][:2]
    try:
        words = shlex.split(reader)
    except ValueError as error:
        raise UsageError(f"Plugin {text!r}: the reader's quotes are not closed") from error
    stream_name = os.fsencode(os.path.basename(place.rstrip("/")))
    if not words or not stream_name:
        raise UsageError(f"Plugin {text!r}: it needs file=PATH and reader=COMMAND")
    return open_source(
        "command", SourceRequest(tuple(map(os.fsencode, words)), stream_name=stream_name)
    )
