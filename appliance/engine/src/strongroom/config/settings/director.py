"""The Director resource, the daemon itself, and Catalog resources, its database."""

from __future__ import annotations

from dataclasses import dataclass, field

from strongroom.config.model import Resource
from strongroom.config.settings.daemons import listening_addresses
from strongroom.config.settings.findings import Findings
from strongroom.config.settings.reading import settings_of
from strongroom.config.values.forms import Password


@dataclass(frozen=True, slots=True)
class DirectorSettings:
    """Where it listens, its folders and files ("" where there is none), and its limits.

    appliance_key_files: of the repositories whose clients it enrols.
    time_zone: of its schedules, "" for that of the system. absolute_job_timeout_seconds: the
    longest that any run may take, 0 for no limit. messages: the resource for what is of no job.
    """

    name: str
    addresses: tuple[tuple[str, int], ...]
    working_folder: str
    identity_folder: str
    authority_folder: str
    authority_passphrase_file: str
    appliance_key_files: tuple[str, ...]
    cipher_suites: str
    time_zone: str
    maximum_concurrent_jobs: int
    absolute_job_timeout_seconds: int
    messages: str
    expiry_warning_seconds: int

    @classmethod
    def of(cls, daemon: Resource) -> DirectorSettings:
        """Those of a Director resource. Raises UsageError for an unknown service as its port."""
        return settings_of(
            cls,
            daemon,
            addresses=tuple(listening_addresses(daemon)),
            working_folder=daemon.text("working_directory"),
            identity_folder=daemon.text("identity_directory"),
            authority_folder=daemon.text("authority_directory"),
            appliance_key_files=daemon.texts("appliance_key_file"),
            cipher_suites=daemon.text("tls_cipher_suites"),
            absolute_job_timeout_seconds=daemon.number("absolute_job_timeout"),
        )


@dataclass(frozen=True, slots=True)
class CatalogSettings:
    """A database; "" and None where nothing is set. With an address or a socket: PostgreSQL."""

    name: str
    db_name: str
    db_user: str
    db_address: str
    db_port: int | None
    db_socket: str
    db_password: str = field(repr=False)
    password_file: str

    @classmethod
    def of(cls, catalog: Resource) -> CatalogSettings:
        """Those of a Catalog resource."""
        password = catalog.value("db_password")
        clear = password.clear if isinstance(password, Password) else None
        return settings_of(cls, catalog, db_password=clear or "")


def check_catalog(findings: Findings, catalog: CatalogSettings) -> None:
    """Report a database that is not supported, and two passwords."""
    resource = findings.resource("Catalog", catalog.name)
    driver = resource.text("db_driver")
    if driver.lower().startswith(("mysql", "mariadb")):
        message = (
            f"Catalog {catalog.name} is one of {driver}, which is not supported: remove DB Driver, "
            "and name a database of PostgreSQL by DB Address or DB Socket, or none of them for "
            "SQLite"
        )
        findings.error("database", message, resource, "db_driver")
    if catalog.db_password and catalog.password_file:
        message = f"Catalog {catalog.name} has both a DB Password and a Password File"
        findings.error("password", message, resource, "password_file")
