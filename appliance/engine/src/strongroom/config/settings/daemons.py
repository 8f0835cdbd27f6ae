"""What every daemon is set to (where it listens), and what storage daemons and agents are."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Final

from strongroom.base.errors import UsageError
from strongroom.config.language.diagnostics import ERROR
from strongroom.config.model import Resource
from strongroom.config.settings.findings import Findings
from strongroom.config.values.forms import Address
from strongroom.config.values.measures import size_bytes
from strongroom.engine.stores.local_place import overlap, place_fault
from strongroom.engine.stores.place import BucketLocation, place_of

# In place of the name of an operator: anyone who has a certificate of the role.
EVERYBODY: Final = "*all*"
# Of an entry of Addresses that says a family alone.
_ALL_OF_FAMILY: Final = {"ipv4": "0.0.0.0", "ipv6": "::"}  # noqa: S104 - requested by name
OPERATOR_VERBS: Final = frozenset(("list", "read", "metrics"))


def listening_addresses(daemon: Resource) -> list[tuple[str, int]]:
    """Address and port of each place; "" is every address, of IPv4 and IPv6.

    `Addresses` has precedence over `Address`. Raises UsageError for a service that is not known.
    """
    usual = port_number(daemon.value("port"))
    entries = daemon.value("addresses")
    if isinstance(entries, tuple) and entries:
        return [
            (one.host or _ALL_OF_FAMILY.get(one.family, ""), port_number(one.port or usual))
            for one in entries
            if isinstance(one, Address)
        ]
    return [(daemon.text("address"), usual)]


def port_number(port: object) -> int:
    """A port as a number; a name is that of a TCP service. Raises UsageError."""
    if isinstance(port, int):
        return port
    text = str(port)
    if text.isascii() and text.isdecimal():
        return int(text[:9])
    try:
        return socket.getservbyname(text, "tcp")
    except OSError as error:
        raise UsageError(f"there is no TCP service {text!r}; write its port") from error


def parse_quota(text: str) -> tuple[str, int]:
    """The agent and its bytes, from a `Quota Of` such as `web1 500 GB`. Raises UsageError."""
    name, _, size = text.partition(" ")
    quota_bytes = size_bytes(size.strip())
    if quota_bytes is None:
        raise UsageError(f'Quota Of = "{text}" has no size such as 500 GB')
    return name, quota_bytes


def parse_operator(text: str) -> tuple[str, frozenset[str]]:
    """The operator and its verbs, from `Operators` such as `ann list read`. Raises UsageError."""
    name, *verbs = text.split()
    unknown = [verb for verb in verbs if verb not in OPERATOR_VERBS]
    if not verbs or unknown:
        what = f"has the unknown word {unknown[0]!r}" if unknown else "names no verb"
        raise UsageError(
            f'Operators = "{text}" {what}; write the name and any of '
            f"{', '.join(sorted(OPERATOR_VERBS))}"
        )
    return name, frozenset(verbs)


def check_storage_daemon(findings: Findings) -> None:
    """Report what is wrong with Devices, and with quotas and operators."""
    _check_devices(findings)
    daemon = findings.component.daemon
    if daemon is None:
        return
    checks: tuple[tuple[str, str, Callable[[str], object]], ...] = (
        ("quota_of", "quota", parse_quota),
        ("operators", "operator", parse_operator),
    )
    for name, rule, parse in checks:
        for directive in daemon.directives(name):
            for text in directive.value:
                try:
                    parse(text)
                except UsageError as error:
                    findings.at_directive(ERROR, rule, str(error), directive)


def _check_devices(findings: Findings) -> None:
    """Each Device is a repository in its own folder; tapes and the like are nowhere read."""
    known: dict[str, str] = {}
    buckets: dict[str, tuple[str, str, str]] = {}
    for device in findings.component.of_type("Device").values():
        place, kind = device.text("archive_device"), device.text("device_type")
        directive, fault = "archive_device", ""
        if kind.lower() not in ("", "file"):
            directive = "device_type"
            fault = f"its Device Type is {kind}, and only File is supported"
        elif is_in_bucket(place):
            place, fault = _bucket_fault(device.name, place, buckets)
        elif not place.startswith("/"):
            fault = "other machines and protocols are not supported"
        else:
            fault = place_fault(place)
            for name, other in known.items():
                if overlap(place, other):
                    fault = f"Device {name} has the same folder, or one lies in the other: {other}"
            known[device.name] = place
        if fault:
            message = (
                f"Archive Device of {device.name} is {place}: {fault}; write the absolute path of "
                "its own folder or s3://BUCKET/PREFIX, or remove the Device"
            )
            findings.error("device", message, device, directive)


def is_in_bucket(place: str) -> bool:
    """Whether an Archive Device is in an object store."""
    return place.startswith("s3:")


def _bucket_fault(
    device: str, place: str, known: dict[str, tuple[str, str, str]]
) -> tuple[str, str]:
    """The place as it is shown, and why it is none for a Device; adds it to `known`."""
    try:
        named = place_of(place)
    except UsageError as error:
        # It may have a key in it.
        return "s3:...", str(error)
    assert isinstance(named, BucketLocation)
    for name, (endpoint, bucket, prefix) in known.items():
        one, other = f"{prefix}/", f"{named.prefix}/"
        is_in = not prefix or not named.prefix or one.startswith(other) or other.startswith(one)
        if (endpoint, bucket) == (named.endpoint, named.bucket) and is_in:
            return place, f"Device {name} has the same place, or one lies in the other"
    known[device] = (named.endpoint, named.bucket, named.prefix)
    return place, ""


def check_agent(findings: Findings) -> None:
    """Report a file of figures that no one reads, and a director that cannot be found."""
    client = findings.component.daemon
    path = "" if client is None else client.text("metrics_file")
    if client is not None and path and not (path.startswith("/") and path.endswith(".prom")):
        message = (
            "Metrics File is an absolute path that ends with .prom, for node_exporter reads no "
            f"others; {path!r} is none"
        )
        findings.error("metrics-file", message, client, "metrics_file")
    attribute = "connection_from_client_to_director"
    for director in findings.component.of_type("Director").values():
        dials = director.is_set(attribute) and director.switch(attribute)
        if dials and not director.text("address") and not director.switch("monitor"):
            message = (
                f"Director {director.name}: set its Address, or Connection From Director To Client"
            )
            findings.error("address", message, director, attribute)
