"""Pings of watchdogs: they wait in the outbox when a run starts and when it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from blake3 import blake3

from strongroom import clock
from strongroom.clock import SECOND_NS
from strongroom.daemons.director.catalog.outbox import OutgoingMessage, post
from strongroom.daemons.director.runs.targets import PING

if TYPE_CHECKING:
    from strongroom.daemons.director.catalog.runs import RunRecord
    from strongroom.daemons.director.context import DirectorContext

# A watchdog that learns of a start hours later would measure nonsense.
_LIFE_SECONDS: Final = {"start": 600, "success": 86400, "fail": 86400}


def queue_ping(context: DirectorContext, record: RunRecord) -> None:
    """The ping for the state of a run, if its job has a Ping File. Raises CatalogError. Blocks."""
    job = context.configuration.jobs.get(record.job)
    if job is None or not job.ping_file or record.kind == "estimate":
        return
    phase = "start"
    if record.is_final:
        phase = "success" if record.went_well else "fail"
    now_ns = clock.now_ns()
    ping = OutgoingMessage(
        id=blake3(f"{record.id} {phase}".encode()).hexdigest(16),
        destination=PING + record.job,
        form="ping",
        subject=f"{record.job}: {phase}",
        created_ns=now_ns,
        expires_ns=now_ns + _LIFE_SECONDS[phase] * SECOND_NS,
        content={"phase": phase, "run": record.id},
    )
    post(context.catalog, [ping])
