"""Reading the director's configuration, and what it says of catalog and repositories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongroom.config.loader import LoadOptions, load_trees
from strongroom.config.resolve import resolve
from strongroom.daemons.director.repositories import RepositoryPlace
from strongroom.daemons.director.results import ReloadReport

if TYPE_CHECKING:
    from strongroom.config.model import ComponentConfiguration


def read_configuration(path: str) -> tuple[ComponentConfiguration | None, ReloadReport]:
    """The configuration at `path`, and what was found wrong; None with errors. Blocks."""
    loaded = load_trees(path, LoadOptions(), "director")
    configuration = resolve(loaded, whole=True).director
    errors = tuple(one.head() for one in loaded.diagnostics.sorted("error"))
    warnings = tuple(one.head() for one in loaded.diagnostics.sorted("warning"))
    if errors or configuration is None or configuration.daemon is None:
        return None, ReloadReport(False, errors or ("there is no Director resource",), warnings)
    return configuration, ReloadReport(True, (), warnings)


def repository_places(configuration: ComponentConfiguration) -> dict[str, RepositoryPlace]:
    """Storage -> where the director itself reaches its repository."""
    storages = configuration.of_type("Storage").items()
    return {name: place for name, one in storages if (place := RepositoryPlace.of(one)) is not None}
