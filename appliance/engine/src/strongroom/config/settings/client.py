"""Client resources: the agents a director knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from strongroom.config.client_knobs import client_knobs

if TYPE_CHECKING:
    from strongroom.config.model import Resource
    from strongroom.knobs.settings import KnobSettings

KtlsUse = Literal["no", "yes", "auto", "require"]
_KTLS_USES: Final[dict[str, KtlsUse]] = {
    "no": "no",
    "false": "no",
    "yes": "yes",
    "true": "yes",
    "require": "require",
}


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """An agent. is_dialled: the director connects to it at `address` and `port`.

    hard_quota_bytes: of all its snapshots, 0 for no limit. share_below: public files below these
    folders are offered to share. knobs: those that the Client sets; for
    the others the agent's own hold.
    """

    name: str
    enabled: bool
    address: str
    port: int
    is_dialled: bool
    maximum_concurrent_jobs: int
    maximum_bandwidth_per_job_bytes_per_second: int
    hard_quota_bytes: int
    tls_enable: bool
    ktls: KtlsUse
    cipher_suites: str
    share_below: tuple[str, ...]
    knobs: KnobSettings

    @classmethod
    def of(cls, client: Resource) -> ClientSettings:
        """Those of a Client resource.

        Bareos dials every client unless told otherwise; agents of ours dial the director, so it
        takes a Connection From Director To Client that was written down.
        """
        is_dialled = (
            client.is_set("connection_from_director_to_client")
            and client.switch("connection_from_director_to_client")
            and not client.switch("connection_from_client_to_director")
        )
        return cls(
            name=client.name,
            enabled=client.switch("enabled"),
            address=client.text("address"),
            port=client.number("port"),
            is_dialled=is_dialled and client.switch("enabled"),
            maximum_concurrent_jobs=client.number("maximum_concurrent_jobs"),
            maximum_bandwidth_per_job_bytes_per_second=client.number(
                "maximum_bandwidth_per_job_bytes_per_second"
            ),
            hard_quota_bytes=client.number("hard_quota_bytes"),
            tls_enable=client.switch("tls_enable"),
            ktls=_KTLS_USES.get(client.text("enable_ktls").lower(), "auto"),
            cipher_suites=client.text("tls_cipher_suites"),
            share_below=client.texts("share_below"),
            knobs=client_knobs(client),
        )
