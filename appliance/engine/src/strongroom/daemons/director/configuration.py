"""Reads the director's configuration, and its catalog and repositories."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, NamedTuple

from strongroom.config.feasibility.judgement import device_warnings
from strongroom.config.resolve import accepted, resolve
from strongroom.config.settings.configuration import DirectorConfiguration
from strongroom.config.trees.loader import LoadOptions, has_component, load_trees
from strongroom.daemons.director.catalog.database import catalog_url, open_catalog
from strongroom.daemons.director.context import DirectorContext
from strongroom.daemons.director.repositories.access import Repositories, RepositoryPlace
from strongroom.daemons.director.results.status import Reload
from strongroom.daemons.director.schedule.year import plan_year
from strongroom.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strongroom.config.language.diagnostics import Diagnostics
    from strongroom.config.model import ComponentConfiguration, Configuration
    from strongroom.net.identities.identity import Identity

_log = logging.getLogger(__name__)


class LoadedConfiguration(NamedTuple):
    """The director's configuration: as settings, and as parsed, for display."""

    settings: DirectorConfiguration
    resources: ComponentConfiguration


def load_configuration(path: str) -> LoadedConfiguration:
    """The configuration at `path`; warnings are logged. Blocks.

    Raises ConfigurationError, UsageError.
    """
    configuration, diagnostics = _judged(path)
    for warning in accepted(diagnostics, path):
        _log.warning("%s", warning)
    return _director_of(configuration, path)


def check_configuration(path: str) -> tuple[LoadedConfiguration, tuple[str, ...]]:
    """The same, and all warnings, each with its place.

    They include Devices that the storage daemon of the same tree does not serve.
    """
    configuration, diagnostics = _judged(path)
    warnings = accepted(diagnostics, path)
    loaded = _director_of(configuration, path)
    if not has_component(path, "storage"):
        return loaded, warnings
    trees = load_trees(path, LoadOptions(), "storage")
    storage = resolve(trees, whole=False).storage
    assert storage is not None
    return loaded, (*warnings, *device_warnings(loaded.resources, storage))


def read_configuration(
    path: str, instead: Mapping[str, str | None] | None = None
) -> tuple[LoadedConfiguration | None, Reload]:
    """The configuration at `path`, and its errors and warnings; None with errors. Blocks.

    instead: texts to read instead of files, see `load_trees`.
    """
    configuration, diagnostics = _judged(path, instead)
    errors = tuple(one.head() for one in diagnostics.sorted("error"))
    warnings = tuple(one.head() for one in diagnostics.sorted("warning"))
    if errors:
        return None, Reload(False, errors, warnings)
    return _director_of(configuration, path), Reload(True, (), warnings)


def open_context(
    path: str, identity: Identity | None, loaded: LoadedConfiguration | None = None
) -> DirectorContext:
    """The shared context of a director, its catalog open. Blocks; the caller closes it.

    loaded: the configuration at `path` if it was read already. Raises ConfigurationError,
    UsageError, CatalogError.
    """
    loaded = loaded or load_configuration(path)
    settings = loaded.settings
    folder = settings.director.working_folder
    return DirectorContext(
        configuration=settings,
        resources=loaded.resources,
        catalog=open_catalog(catalog_url(settings.catalog, folder)),
        repositories=Repositories(
            repository_places(settings), os.fsencode(os.path.join(folder, "cache"))
        ),
        working_directory=folder,
        identity=identity,
    )


def repository_places(configuration: DirectorConfiguration) -> dict[str, RepositoryPlace]:
    """Storage -> where the director itself accesses its repository."""
    storages = configuration.storages.items()
    return {name: place for name, one in storages if (place := RepositoryPlace.of(one)) is not None}


def _judged(
    path: str, instead: Mapping[str, str | None] | None = None
) -> tuple[Configuration, Diagnostics]:
    """What is at `path`, and all that is wrong with it, runs that cannot be started included."""
    loaded = load_trees(path, LoadOptions(), "director", instead)
    configuration = resolve(loaded)
    if configuration.director is not None and not loaded.diagnostics.has_errors:
        plan_year(configuration.director, loaded.diagnostics)
    return configuration, loaded.diagnostics


def _director_of(configuration: Configuration, path: str) -> LoadedConfiguration:
    if configuration.director is None:
        raise UsageError(f"{path} contains no configuration of a director")
    resources = configuration.director
    return LoadedConfiguration(DirectorConfiguration.of(resources), resources)
