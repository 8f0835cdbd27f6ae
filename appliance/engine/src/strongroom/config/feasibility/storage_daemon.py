"""The storage daemon: where its repositories lie, quotas and operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongroom.config.feasibility.findings import report, report_directive
from strongroom.config.language.diagnostics import ERROR
from strongroom.config.settings.quotas import parse_quota
from strongroom.config.settings.storage_peers import parse_operator
from strongroom.errors import UsageError
from strongroom.stores.local_place import overlap, place_fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from strongroom.config.language.diagnostics import Diagnostics
    from strongroom.config.model import ComponentConfiguration


def judge_storage_daemon(component: ComponentConfiguration, diagnostics: Diagnostics) -> None:
    """Judge its Devices, and the quotas and operators of its Storage resource."""
    _devices(component, diagnostics)
    daemon = component.daemon
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
                    report_directive(diagnostics, ERROR, rule, str(error), directive)


def _devices(component: ComponentConfiguration, diagnostics: Diagnostics) -> None:
    """Each Device is a repository in a folder of its own; tapes and the like are nowhere read."""
    known: dict[str, str] = {}
    for device in component.of_type("Device").values():
        place, kind = device.text("archive_device"), device.text("device_type")
        directive, fault = "archive_device", place_fault(place)
        if kind.lower() not in ("", "file"):
            directive = "device_type"
            fault = f"its Device Type is {kind}, and only File is supported"
        elif not place.startswith("/"):
            fault = "other machines and protocols are not supported"
        else:
            for name, other in known.items():
                if overlap(place, other):
                    fault = f"Device {name} has the same folder, or one lies in the other: {other}"
            known[device.name] = place
        if fault:
            message = (
                f"Archive Device of {device.name} is {place}: {fault}; write the absolute path of "
                "a folder of its own, or remove the Device"
            )
            report(diagnostics, ERROR, "device", message, device, directive)
