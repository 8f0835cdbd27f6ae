"""The agent: how it and its directors find each other, and its file of figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongroom.config.feasibility.findings import report
from strongroom.config.language.diagnostics import ERROR

if TYPE_CHECKING:
    from strongroom.config.language.diagnostics import Diagnostics
    from strongroom.config.model import ComponentConfiguration


def judge_agent(component: ComponentConfiguration, diagnostics: Diagnostics) -> None:
    """Judge the Client resource of an agent, and the Directors it works for."""
    client = component.daemon
    path = "" if client is None else client.text("metrics_file")
    if client is not None and path and not (path.startswith("/") and path.endswith(".prom")):
        message = (
            "Metrics File is an absolute path that ends with .prom, for node_exporter reads no "
            f"others; {path!r} is none"
        )
        report(diagnostics, ERROR, "metrics-file", message, client, "metrics_file")
    for director in component.of_type("Director").values():
        dials = director.is_set("connection_from_client_to_director") and director.switch(
            "connection_from_client_to_director"
        )
        if dials and not director.text("address") and not director.switch("monitor"):
            message = (
                f"Director {director.name}: say its Address, or Connection From Director To Client"
            )
            attribute = "connection_from_client_to_director"
            report(diagnostics, ERROR, "address", message, director, attribute)
