"""The Director resource: the daemon itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from strongroom.config.settings.listening import listening_addresses

if TYPE_CHECKING:
    from strongroom.config.model import Resource


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
        return cls(
            name=daemon.name,
            addresses=tuple(listening_addresses(daemon)),
            working_folder=daemon.text("working_directory"),
            identity_folder=daemon.text("identity_directory"),
            authority_folder=daemon.text("authority_directory"),
            authority_passphrase_file=daemon.text("authority_passphrase_file"),
            appliance_key_files=daemon.texts("appliance_key_file"),
            cipher_suites=daemon.text("tls_cipher_suites"),
            time_zone=daemon.text("time_zone"),
            maximum_concurrent_jobs=daemon.number("maximum_concurrent_jobs"),
            absolute_job_timeout_seconds=daemon.number("absolute_job_timeout"),
            messages=daemon.name_of("messages"),
            expiry_warning_seconds=daemon.number("expiry_warning_seconds"),
        )
