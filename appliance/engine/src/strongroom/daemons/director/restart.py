"""What a running director cannot change: the directives that are in force only after a restart.

A reload takes everything else. Of these the values of the start stay in force, all together, so
that a changed name does not go with the certificate of another.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from strongroom.config.settings.configuration import DirectorConfiguration
    from strongroom.daemons.director.results.status import Reload

_log = logging.getLogger(__name__)

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
