"""Whether the director could start, and do all that its configuration says; see preflight."""

from __future__ import annotations

import os
import sqlite3

from strongroom.base.errors import CatalogError, RepositoryNotFoundError
from strongroom.config.settings.configuration import DirectorConfiguration
from strongroom.config.settings.director import CatalogSettings, DirectorSettings
from strongroom.director.catalog.database import catalog_url, look_at_catalog
from strongroom.director.configuration import check_configuration, repository_places
from strongroom.director.daemon import own_identity
from strongroom.director.http.server import tls_context
from strongroom.director.own_certificate import appliance_keys, authority_passphrase
from strongroom.director.repositories.access import RepositoryAccess, read_passphrase
from strongroom.net.identities.authority import Authority
from strongroom.net.renewal import require_living
from strongroom.service.notices.secret_files import secret
from strongroom.service.notices.senders import ping_addresses, program_of
from strongroom.service.notices.web_requests import verifying_context
from strongroom.service.preflight import Preflight


def check_director(path: str) -> tuple[DirectorSettings, Preflight]:
    """What the configuration at `path` says, and what is wrong with what it names.

    Raises ConfigurationError and UsageError when the configuration itself cannot be taken.
    """
    loaded, warnings = check_configuration(path)
    settings = loaded.settings.director
    look = Preflight()
    look.warnings += warnings
    _identity(look, settings)
    _authority(look, settings)
    with look.part("Appliance Key File"):
        appliance_keys(settings)
    look.writable("Working Directory", settings.working_folder)
    _catalog(look, loaded.settings.catalog, settings.working_folder)
    for name, place in repository_places(loaded.settings).items():
        _repository(look, name, place)
    _notices(look, loaded.settings)
    look.addresses("Address, Port and Addresses of the Director", settings.addresses)
    return settings, look


def _identity(look: Preflight, settings: DirectorSettings) -> None:
    with look.part("Identity Directory"):
        identity = own_identity(settings)
        if not settings.authority_folder:
            # With the authority it gets another one when it starts.
            require_living(identity)
        with look.part("TLS Cipher Suites"):
            tls_context(identity, settings.cipher_suites)


def _authority(look: Preflight, settings: DirectorSettings) -> None:
    if not settings.authority_folder:
        return
    with look.part("Authority Directory"):
        authority = Authority(os.fsencode(settings.authority_folder))
        with look.part("Authority Passphrase File"):
            passphrase = authority_passphrase(settings)
            with look.part("Authority Directory"):
                authority.try_key(passphrase)


def _catalog(look: Preflight, catalog: CatalogSettings | None, folder: str) -> None:
    where = "Catalog" if catalog is None else f"Catalog {catalog.name}"
    with look.part(where):
        url = catalog_url(catalog, folder)
        try:
            look_at_catalog(url)
        except sqlite3.DatabaseError as error:
            raise CatalogError(f"{url.database} is not a catalog: {error}") from error
        if url.get_backend_name() == "sqlite":
            look.changeable(where, url.database or "")


def _notices(look: Preflight, settings: DirectorConfiguration) -> None:
    """The files with secrets and certificates that Messages and jobs name; nothing is sent."""
    for messages in settings.messages.values():
        title = f"of Messages {messages.name}"
        server = messages.mail_server
        if server is not None and server.user:
            with look.part(f"SMTP Password File {title}"):
                secret(server.password_file)
        with look.part(f"CA File {title}"):
            verifying_context(messages.ca_file)
        for notify in messages.notify:
            for directive, path in (
                ("URL File", notify.url_file),
                ("Token File", notify.token_file),
            ):
                with look.part(f"{directive} of Notify {notify.name}"):
                    if path:
                        secret(path)
            with look.part(f"Command of Notify {notify.name}"):
                if notify.command:
                    program_of(notify.command)
            with look.part(f"CA File of Notify {notify.name}"):
                verifying_context(notify.ca_file)
    for path in sorted({job.ping_file for job in settings.jobs.values() if job.ping_file}):
        with look.part("Ping File"):
            ping_addresses(path)


def _repository(look: Preflight, storage: str, place: RepositoryAccess) -> None:
    with look.part(f"Passphrase File of Storage {storage}"):
        read_passphrase(place)
    with look.part(f"Repository of Storage {storage}"):
        if place.place.startswith("/") and not os.path.isdir(place.place):
            raise RepositoryNotFoundError(f"there is no repository at {place.place}")
