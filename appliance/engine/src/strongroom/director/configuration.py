"""Reads the director's configuration, and its catalog and repositories.

A reload takes everything but what a running director cannot change: of some directives the values
of the start stay in force, all together, so that a changed name does not go with the certificate of
another.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from strongroom.base.errors import UsageError
from strongroom.config.language.diagnostics import Diagnostics
from strongroom.config.model import ComponentConfiguration
from strongroom.config.resolve import Configuration, accepted, resolve
from strongroom.config.settings.build import device_warnings
from strongroom.config.settings.configuration import DirectorConfiguration
from strongroom.config.trees.loader import LoadOptions, has_component, load_trees
from strongroom.director.catalog.database import catalog_url, open_catalog
from strongroom.director.context import DirectorContext
from strongroom.director.repositories.access import Repositories, RepositoryAccess
from strongroom.director.results.status import Reload
from strongroom.director.schedule.year import plan_year
from strongroom.net.identities.identity import Identity

# Fields of the director's settings -> the directives that they come from.
_DIRECTIVES: Final = {
    "name": "Name",
    "addresses": "Address, Addresses or Port",
    "working_folder": "Working Directory",
    "identity_folder": "Identity Directory",
    "authority_folder": "Authority Directory",
    "authority_passphrase_file": "Authority Passphrase File",
    "appliance_key_files": "Appliance Key File",
    "cipher_suites": "TLS Cipher Suites",
}
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
    return loaded, (*warnings, *device_warnings(loaded.resources, loaded.settings, storage))


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


def repository_places(configuration: DirectorConfiguration) -> dict[str, RepositoryAccess]:
    """Storage -> where the director itself accesses its repository."""
    storages = configuration.storages.items()
    return {
        name: place for name, one in storages if (place := RepositoryAccess.of(one)) is not None
    }


def _judged(
    path: str, instead: Mapping[str, str | None] | None = None
) -> tuple[Configuration, Diagnostics]:
    """What is at `path`, and all that is wrong with it, runs that cannot be started included."""
    loaded = load_trees(path, LoadOptions(), "director", instead)
    configuration = resolve(loaded)
    director, settings = configuration.director, configuration.settings
    if director is not None and settings is not None and not loaded.diagnostics.has_errors:
        plan_year(director, settings, loaded.diagnostics)
    return configuration, loaded.diagnostics


def _director_of(configuration: Configuration, path: str) -> LoadedConfiguration:
    if configuration.director is None or configuration.settings is None:
        raise UsageError(f"{path} contains no configuration of a director")
    return LoadedConfiguration(configuration.settings, configuration.director)


def with_what_stays(
    in_force: DirectorConfiguration, wanted: DirectorConfiguration
) -> tuple[DirectorConfiguration, tuple[str, ...]]:
    """The configuration that a reload puts in force, and the directives that wait for a restart."""
    old, new = in_force.director, wanted.director
    waiting = [
        f"{directive} of the Director"
        for field, directive in _DIRECTIVES.items()
        if getattr(old, field) != getattr(new, field)
    ]
    if in_force.catalog != wanted.catalog:
        waiting.append("the Catalog")
    kept = {field: getattr(old, field) for field in _DIRECTIVES}
    director = replace(new, **kept)
    return replace(wanted, director=director, catalog=in_force.catalog), tuple(waiting)


def log_reload(report: Reload) -> None:
    """Log what a reload found, and what is in force now."""
    for warning in report.warnings:
        _log.warning("reload: %s", warning)
    for error in report.errors:
        _log.error("reload: %s", error)
    if not report.is_loaded:
        _log.error("reload: the configuration in force stays")
        return
    _log.info("reload: the new configuration is in force")
    if report.restart_needed:
        names = "; ".join(report.restart_needed)
        _log.warning("reload: %s: changed, but in force only after a restart", names)
