"""The storage daemon: where its repositories lie, and quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongroom.config.feasibility.findings import report, report_directive
from strongroom.config.language.diagnostics import ERROR
from strongroom.config.settings.quotas import parse_quota
from strongroom.errors import UsageError

if TYPE_CHECKING:
    from strongroom.config.language.diagnostics import Diagnostics
    from strongroom.config.model import ComponentConfiguration


def judge_storage_daemon(component: ComponentConfiguration, diagnostics: Diagnostics) -> None:
    """Judge its Devices, and the quotas of its Storage resource."""
    for device in component.of_type("Device").values():
        if not device.text("archive_device").startswith("/"):
            message = f"Archive Device of {device.name} is no absolute path of a folder"
            report(diagnostics, ERROR, "device", message, device, "archive_device")
    daemon = component.daemon
    for directive in daemon.directives("quota_of") if daemon is not None else ():
        for text in directive.value:
            try:
                parse_quota(text)
            except UsageError as error:
                report_directive(diagnostics, ERROR, "quota", str(error), directive)
