"""The FileSet that `FILE:NAME` means, out of a director's configuration."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from strongroom.errors import ConfigurationError, UsageError

if TYPE_CHECKING:
    from strongroom.config.model import Resource


def chosen_fileset(text: str) -> Resource:
    """The FileSet; without `:NAME` the only one there. Raises UsageError, ConfigurationError."""
    from strongroom.config.diagnostics import ERROR
    from strongroom.config.loader import LoadOptions, load_trees
    from strongroom.config.resolve import resolve

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
