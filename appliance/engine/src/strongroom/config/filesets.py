"""FileSet resources of a configuration as the specification that agents get.

`File = <list` and `File = |command` are read here, where the director (or the command line) runs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from strongroom.base.errors import ConfigurationError, UsageError
from strongroom.engine.filesets.spec import FileSetInclude, FileSetSpec
from strongroom.engine.sources.shell import listed_lines

if TYPE_CHECKING:
    from strongroom.config.model import Resource
    from strongroom.config.settings.fileset import FileSetSettings


# A file of this name is the configuration of one machine; every other one is a director's.
MACHINE_FILE: Final = "machine.conf"


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
    component = "machine" if os.path.basename(path) == MACHINE_FILE else "director"
    loaded = load_trees(path, LoadOptions(), component)
    # What else a file of a tree names is of no importance here.
    configuration = resolve(loaded, whole=False)
    if loaded.diagnostics.has_errors:
        shown = "\n".join(error.head() for error in loaded.diagnostics.sorted(ERROR))
        raise ConfigurationError(f"errors in {path}:\n{shown}")
    found = configuration.components[component].of_type("FileSet")
    if not name and len(found) == 1:
        return next(iter(found.values()))
    if name not in found:
        known = ", ".join(found) or "none"
        raise UsageError(f"{path} has no FileSet {name!r}; there are: {known}")
    return found[name]


def fileset_spec(settings: FileSetSettings, *, allow_commands: bool = False) -> FileSetSpec:
    """What a FileSet says; lists and commands of the director are read now.

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
        name=settings.name,
        includes=tuple(
            FileSetInclude(
                files=files(include.files),
                options=include.options,
                plugins=include.plugins,
                exclude_dir_containing=include.exclude_dir_containing,
            )
            for include in settings.includes
        ),
        excludes=files(settings.excludes),
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
