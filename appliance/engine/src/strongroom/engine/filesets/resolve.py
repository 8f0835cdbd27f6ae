r"""A FileSet on this machine: its paths, lists, commands and sources looked up.

`\\<list` and `\\|command` (in quotes) are read here; those without backslashes were read where
the director runs (`config.filesets`). Commands run only where allowed.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Final

import msgspec

from strongroom.base.errors import RefusedError, SourceError, UsageError
from strongroom.base.printable import printable
from strongroom.engine.filesets.posix_regex import resolved_regex
from strongroom.engine.filesets.rules import FileSetRoot, FileSetRules, outermost, refusal
from strongroom.engine.filesets.spec import FileSetOptions, FileSetSpec
from strongroom.engine.scan.globs import resolved_glob
from strongroom.engine.sources.files import missing_path, settled_path
from strongroom.engine.sources.registry import open_source
from strongroom.engine.sources.shell import listed_lines
from strongroom.sources.source import Problem, Source, SourceRequest, Stream

# The Plugin directives of a FileSet: the source of each.
#
# `bpipe` is the source `command` with the reader's command; any other name is that of a plugin in
# the group `strongroom.sources`, which gets the rest as options.

_COLON: Final = re.compile(r"(?<!\\):")
_NOT_PLUGINS: Final = ("files", "stdin")


def plugin_source(text: str, *, allow_commands: bool) -> Source:
    r"""The source for `NAME:key=value:...`; `\:` means a colon.

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


_MOST_NAMED: Final = 3
_ON_AGENT: Final = ("\\<", "\\|")


class ResolvedFileSet(msgspec.Struct, frozen=True):
    """A FileSet on this machine, ready to be backed up.

    problems: named paths that do not exist; they make the backup incomplete. notes: what the
    FileSet itself leaves out, and other notes for the user.
    """

    rules: FileSetRules
    source: Source
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]


def resolve_fileset(spec: FileSetSpec, *, allow_commands: bool = False) -> ResolvedFileSet:
    r"""Look a FileSet up on this machine; just before the backup, as sources may freeze things.

    `allow_commands`: of `\|command` and of plugins that run one. Raises RefusedError,
    SourceError when a list, command or source fails or nothing is there at all, UsageError.
    """
    roots: list[FileSetRoot] = []
    sources: list[Source] = []
    problems: list[Problem] = []
    notes: list[str] = []
    for number, include in enumerate(spec.includes):
        for name in _names(include.files, allow_commands=allow_commands):
            shown = printable(name)
            try:
                root = _root(name, number)
                left_out = refusal(root, include)
            except (SourceError, OSError) as error:
                named = f"named by FileSet {spec.name}"
                problems.append(missing_path(name.strip(b"/"), error, named, name))
                continue
            if left_out:
                notes.append(f"{shown} is left out: {left_out}")
            elif root not in roots:
                roots.append(root)
        for text in include.plugins:
            source = plugin_source(text, allow_commands=allow_commands)
            roots += [FileSetRoot(path, b"/" + path, number) for path in source.paths()]
            sources.append(source)
    if not roots and not sources:
        why = [f"/{printable(one.path)}: {one.text}" for one in problems] + notes
        more = f"; and {len(why) - _MOST_NAMED} more" if len(why) > _MOST_NAMED else ""
        shown = "; ".join(why[:_MOST_NAMED]) or "it names nothing"
        raise SourceError(f"FileSet {spec.name}: nothing is left to back up: {shown}{more}")
    excludes = [*map(os.fsdecode, _names(spec.excludes, allow_commands=allow_commands))]
    includes = [
        msgspec.structs.replace(
            include, options=tuple(_also_resolved(options) for options in include.options)
        )
        for include in spec.includes
    ]
    as_given = msgspec.structs.replace(
        spec, includes=tuple(includes), excludes=_with_resolved(excludes, resolved_glob)
    )
    rules = FileSetRules(as_given, tuple(roots))
    return ResolvedFileSet(rules, _FileSetSource(roots, sources), tuple(problems), tuple(notes))


class _FileSetSource:
    """Paths of the Includes, and the streams of their plugins."""

    def __init__(self, roots: Sequence[FileSetRoot], sources: Sequence[Source]) -> None:
        self._roots = roots
        self._sources = sources

    def paths(self) -> tuple[bytes, ...]:
        """The outermost paths."""
        return outermost(self._roots)

    def streams(self) -> Iterator[Stream]:
        """The streams of all sources, one source after the other."""
        return chain.from_iterable(source.streams() for source in self._sources)


def _also_resolved(options: FileSetOptions) -> FileSetOptions:
    return msgspec.structs.replace(
        options,
        wild=_with_resolved(options.wild, resolved_glob),
        wild_dir=_with_resolved(options.wild_dir, resolved_glob),
        wild_file=_with_resolved(options.wild_file, resolved_glob),
        regex=_with_resolved(options.regex, resolved_regex),
        regex_dir=_with_resolved(options.regex_dir, resolved_regex),
        regex_file=_with_resolved(options.regex_file, resolved_regex),
    )


def _with_resolved(texts: Sequence[str], resolve: Callable[[bytes], bytes]) -> tuple[str, ...]:
    """The patterns, and those that name a place behind links also by its path without them."""
    both = ((text, os.fsdecode(resolve(os.fsencode(text)))) for text in texts)
    return tuple(dict.fromkeys(chain.from_iterable(both)))


def _names(texts: Sequence[str], *, allow_commands: bool) -> Iterator[bytes]:
    for text in texts:
        if text.startswith(_ON_AGENT):
            yield from listed_lines(text[1:], allow_commands=allow_commands)
        else:
            yield os.fsencode(text)


def _root(name: bytes, include: int) -> FileSetRoot:
    if not name.startswith(b"/"):
        raise SourceError("it is not an absolute path")
    return FileSetRoot(settled_path(name), name.rstrip(b"/") or b"/", include)
