"""Reading the director's configuration, and what it says of catalog and repositories."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from strongroom.config.resolve import load, resolve
from strongroom.config.trees.loader import LoadOptions, load_trees
from strongroom.daemons.director.catalog.database import catalog_url, open_catalog
from strongroom.daemons.director.context import DirectorContext
from strongroom.daemons.director.repositories.access import Repositories, RepositoryPlace
from strongroom.daemons.director.results import Reload
from strongroom.errors import UsageError

if TYPE_CHECKING:
    from strongroom.config.model import ComponentConfiguration
    from strongroom.net.identities.identity import Identity


def read_configuration(path: str) -> tuple[ComponentConfiguration | None, Reload]:
    """The configuration at `path`, and what was found wrong; None with errors. Blocks."""
    loaded = load_trees(path, LoadOptions(), "director")
    configuration = resolve(loaded, whole=True).director
    errors = tuple(one.head() for one in loaded.diagnostics.sorted("error"))
    warnings = tuple(one.head() for one in loaded.diagnostics.sorted("warning"))
    if errors or configuration is None or configuration.daemon is None:
        return None, Reload(False, errors or ("there is no Director resource",), warnings)
    return configuration, Reload(True, (), warnings)


def open_context(path: str, identity: Identity | None) -> DirectorContext:
    """What the parts of a director share, its catalog open. Blocks; the caller closes it.

    Raises ConfigurationError, UsageError, CatalogError.
    """
    configuration = load(path, component="director").director
    if configuration is None or configuration.daemon is None:
        raise UsageError(f"{path} holds no configuration of a director")
    folder = str(configuration.daemon.working_directory)
    return DirectorContext(
        configuration=configuration,
        catalog=open_catalog(catalog_url(configuration.first("Catalog"), folder)),
        repositories=Repositories(
            repository_places(configuration), os.fsencode(os.path.join(folder, "cache"))
        ),
        working_directory=folder,
        identity=identity,
    )


def repository_places(configuration: ComponentConfiguration) -> dict[str, RepositoryPlace]:
    """Storage -> where the director itself reaches its repository."""
    storages = configuration.of_type("Storage").items()
    return {name: place for name, one in storages if (place := RepositoryPlace.of(one)) is not None}
