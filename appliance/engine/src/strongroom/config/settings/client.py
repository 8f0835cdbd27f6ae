"""Client resources: the agents a director knows, and the knobs that they or an agent's own set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from strongroom.config.model import Resource
from strongroom.config.settings.reading import settings_of
from strongroom.config.table.schema import key_of
from strongroom.engine.knobs.settings import KnobSettings
from strongroom.engine.knobs.table import AGENT_KNOBS, JOB_KNOBS

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

        Bareos dials every client unless set otherwise; agents of ours dial the director, so it
        takes a Connection From Director To Client that was written down.
        """
        is_dialled = (
            client.is_set("connection_from_director_to_client")
            and client.switch("connection_from_director_to_client")
            and not client.switch("connection_from_client_to_director")
        )
        return settings_of(
            cls,
            client,
            is_dialled=is_dialled and client.switch("enabled"),
            ktls=_KTLS_USES.get(client.text("enable_ktls").lower(), "auto"),
            cipher_suites=client.text("tls_cipher_suites"),
            knobs=client_knobs(client),
        )


def client_knobs(client: Resource) -> KnobSettings:
    """The knobs that the Client sets; for the others its defaults do not count as set."""
    found: dict[str, Any] = {}
    for knob in JOB_KNOBS:
        if not knob.has_directive_in("Client"):
            continue
        attribute = client.spec.by_key[key_of(knob.directive)].attribute
        if client.is_set(attribute):
            found[knob.name] = knob.from_directive(client.number(attribute))
    return KnobSettings(**found)


def knob_origins(client: Resource) -> dict[str, str]:
    """Knob -> file and line, of those that the Client sets."""
    found = {}
    for knob in (*JOB_KNOBS, *AGENT_KNOBS):
        spec = client.spec.by_key.get(key_of(knob.directive)) if knob.directive else None
        if spec is not None and client.is_set(spec.attribute):
            found[knob.name] = str(client.origin(spec.attribute))
    return found
