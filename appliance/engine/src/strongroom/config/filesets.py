"""FileSet resources of a configuration as the specification that agents are told.

`File = <list` and `File = |command` are read here, where the director (or the command line) runs.
"""

from __future__ import annotations

import os
from itertools import chain
from typing import TYPE_CHECKING, Any

from strongroom.errors import ConfigurationError, UsageError
from strongroom.filesets.lists import listed_lines
from strongroom.filesets.spec import FileSetInclude, FileSetOptions, FileSetSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strongroom.config.model import Resource


def chosen_fileset(text: str) -> Resource:
    """The FileSet that `FILE:NAME` means; without `:NAME` the only one there is.

    Raises UsageError, ConfigurationError.
    """
    from strongroom.config.language.diagnostics import ERROR
    from strongroom.config.resolve import resolve
    from strongroom.config.trees.loader import LoadOptions, load_trees

    path, name = text, ""
    if not os.path.exists(path):
        path, _, name = text.rpartition(":")
        if not path:
            raise UsageError(f"{text}: there is no such file or folder; write FILE or FILE:NAME")
    loaded = load_trees(path, LoadOptions(), "director")
    # What else a file of a tree names is of no importance here.
    configuration = resolve(loaded, whole=False)
    if loaded.diagnostics.has_errors:
        shown = "\n".join(error.head() for error in loaded.diagnostics.sorted(ERROR))
        raise ConfigurationError(f"errors in {path}:\n{shown}")
    assert configuration.director is not None
    found = configuration.director.of_type("FileSet")
    if not name and len(found) == 1:
        return next(iter(found.values()))
    if name not in found:
        known = ", ".join(found) or "none"
        raise UsageError(f"{path} has no FileSet {name!r}; there are: {known}")
    return found[name]


def fileset_spec(resource: Resource, *, allow_commands: bool = False) -> FileSetSpec:
    """What a FileSet resource says; lists and commands of the director are read now.

    Raises RefusedError for a command that is not allowed, SourceError for a list or a command
    that cannot be read.
    """

    def files(texts: Sequence[str]) -> tuple[str, ...]:
        found: list[str] = []
        for text in texts:
            if text.startswith(("<", "|")):
                found += map(os.fsdecode, listed_lines(text, allow_commands=allow_commands))
            else:
                found.append(text)
        return tuple(found)

    return FileSetSpec(
        name=resource.name,
        includes=tuple(
            FileSetInclude(
                files=files(include.file),
                options=tuple(map(_options, include.options)),
                plugins=include.plugin,
                exclude_dir_containing=include.exclude_dir_containing,
            )
            for include in resource.include
        ),
        excludes=tuple(chain.from_iterable(files(exclude.file) for exclude in resource.exclude)),
    )


def fileset_notes(resource: Resource) -> tuple[str, ...]:
    """What a FileSet resource says that has no effect here, and why; each once."""
    from strongroom.config.reports.effects import NO_EFFECT, effect_of
    from strongroom.config.trees.tree import Block

    notes: dict[str, None] = {}

    def look(block: Block) -> None:
        for directive in block.directives:
            if isinstance(directive.value, Block):
                look(directive.value)
                continue
            effect = effect_of("director", block.spec.name, directive.spec)
            if effect.status == NO_EFFECT:
                notes[f"{directive.spec.shown_name} has no effect: {effect.why}"] = None

    look(resource.block)
    return tuple(notes)


def _options(block: Any) -> FileSetOptions:
    smallest, largest = _bounds(block.size)
    return FileSetOptions(
        exclude=bool(block.exclude),
        wild=block.wild,
        wild_dir=block.wild_dir,
        wild_file=block.wild_file,
        regex=block.regex,
        regex_dir=block.regex_dir,
        regex_file=block.regex_file,
        ignore_case=bool(block.ignore_case),
        enhanced_wild=bool(block.enhanced_wild),
        compression=block.compression,
        signature=block.signature,
        one_file_system=block.one_fs is not False,
        recurse=block.recurse is not False,
        acls=block.acl_support if block.is_set("acl_support") else None,
        xattrs=block.xattr_support if block.is_set("xattr_support") else None,
        honor_no_dump=bool(block.honor_no_dump_flag),
        file_system_types=block.fs_type,
        smallest_bytes=smallest,
        largest_bytes=largest,
    )


def _bounds(text: str | None) -> tuple[int | None, int | None]:
    """The least and the greatest size that `Size` takes; `N` alone is all within one per cent."""
    from strongroom.config.values.measures import size_bytes

    if text is None:
        return None, None
    first, _, second = text.strip().lstrip("<>").partition("-")
    low = size_bytes(first.strip()) or 0
    if text.lstrip().startswith("<"):
        return None, low - 1
    if text.lstrip().startswith(">"):
        return low + 1, None
    if second:
        return low, size_bytes(second.strip())
    return low - low // 100 + 1, low + low // 100 - 1
