"""The storage daemon: where its repositories lie, quotas and operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongroom.config.feasibility.findings import report, report_directive
from strongroom.config.language.diagnostics import ERROR
from strongroom.config.settings.quotas import parse_quota
from strongroom.config.settings.storage_peers import parse_operator
from strongroom.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from strongroom.config.language.diagnostics import Diagnostics
    from strongroom.config.model import ComponentConfiguration


def judge_storage_daemon(component: ComponentConfiguration, diagnostics: Diagnostics) -> None:
    """Judge its Devices, and the quotas and operators of its Storage resource."""
    for device in component.of_type("Device").values():
        place = device.text("archive_device")
        if not place.startswith("/"):
            message = (
                f"Archive Device of {device.name} is {place}: write the absolute path of a folder; "
                "other machines and protocols are not supported"
            )
            report(diagnostics, ERROR, "device", message, device, "archive_device")
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
