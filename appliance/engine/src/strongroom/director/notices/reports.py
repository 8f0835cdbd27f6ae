"""The report of a run, to the destinations of its job's Messages resource.

The text contains what the run was, did and ended as, with the relevant lines of its log. `append`
and `file` write it, `syslog` logs its first line. `mail`, `mail on error`, `mail on success` and
`operator` put it into the outbox, from which it goes to the command before them, else to the SMTP
Server, else to sendmail. A destination gets it when one of its types matches how the run ended.
`catalog`, `console` and `director` need nothing: consoles read the lines in the catalog.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Final

from blake3 import blake3

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.printable import printable_lines
from strongroom.config.settings.messages import MessagesSettings
from strongroom.config.values.forms import Destination
from strongroom.director.catalog.outbox import OutgoingMessage, post
from strongroom.director.catalog.runs import log_lines
from strongroom.director.context import DirectorContext
from strongroom.director.notices.targets import MAIL_KINDS, PING, report_targets
from strongroom.director.results.runs import Run
from strongroom.director.shown_text import connection_text

# A watchdog that learns of a start hours later would measure nonsense.
_LIFE_SECONDS: Final = {"start": 600, "success": 86400, "fail": 86400}
_MOST_LINES: Final = 500
# Before the further lines of a text, so that none of them passes for a line of the report.
_INDENT: Final = "    "


def report_text(context: DirectorContext, record: Run) -> str:
    """The report of a run that has ended."""
    seconds = max(0, record.ended_ns - record.started_ns) / SECOND_NS if record.started_ns else 0.0
    fields = [
        ("Run", record.id),
        ("Job", record.job),
        ("Kind", f"{record.kind} {record.level}".strip()),
        ("Client", record.client),
        ("FileSet", record.fileset),
        ("Pool", record.pool),
        ("Storage", record.storage),
        ("Scheduled", _shown(record.scheduled_ns)),
        ("Started", _shown(record.started_ns)),
        ("Ended", _shown(record.ended_ns)),
        ("Elapsed", f"{seconds:.1f} s"),
        ("Files", f"{record.files:,}"),
        ("Bytes", f"{record.bytes:,}"),
        ("Stored bytes", f"{record.stored_bytes:,}"),
        ("Errors", f"{record.errors:,}"),
        ("Snapshot", record.snapshot),
        ("Connection", connection_text(record.security)),
        ("Attempt", str(record.attempt) if record.attempt > 1 else ""),
        ("Reason", record.reason),
        ("Error", f"[{record.error_id}] {record.error}" if record.error else ""),
    ]
    lines = [f"{context.name}: {record.job} of {record.client or context.name}: {record.state}", ""]
    lines += [f"{name + ':':<14} {value}" for name, value in fields if value]
    lines_of_log = log_lines(context.catalog, record.id, limit=_MOST_LINES)
    lines += ["", *(f"{_shown(line.time_ns)} {line.level}: {line.text}" for line in lines_of_log)]
    if record.log_lines > len(lines_of_log):
        lines.append(f"... and {record.log_lines - len(lines_of_log)} more lines")
    return "\n".join(printable_lines(line, _INDENT) for line in lines) + "\n"


def send_reports(context: DirectorContext, record: Run) -> None:
    """Write or queue the report of a run. Blocks. Raises CatalogError, OSError."""
    job = context.configuration.jobs.get(record.job)
    messages = context.configuration.messages.get(job.messages) if job is not None else None
    if messages is None:
        return
    text = ""
    failure: OSError | None = None
    for destination in messages.destinations:
        if not _wants(destination, record):
            continue
        text = text or report_text(context, record)
        try:
            _send(context, messages, destination, record, text)
        except OSError as error:
            failure = failure or error
    if failure is not None:
        raise failure


def _wants(destination: Destination, record: Run) -> bool:
    kind = destination.kind.lower()
    if kind == "mailonerror" and record.went_well:
        return False
    if kind == "mailonsuccess" and not record.went_well:
        return False
    fitting = {"terminate"} if record.went_well else {"terminate", "error", "fatal", "abort"}
    if record.state == "incomplete":
        fitting |= {"warning", "notsaved"}
    return bool(fitting & destination.accepted_types)


def _send(
    context: DirectorContext,
    messages: MessagesSettings,
    destination: Destination,
    record: Run,
    text: str,
) -> None:
    kind = destination.kind.lower().replace(" ", "")
    if kind in ("append", "file"):
        for path in destination.addresses:
            flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
            flags |= os.O_APPEND if kind == "append" else os.O_TRUNC
            with open(os.open(path, flags, 0o640), "w", encoding="utf-8") as file:
                file.write(text + "\n")
    elif kind == "syslog":
        import syslog

        priority = syslog.LOG_INFO if record.went_well else syslog.LOG_ERR
        syslog.syslog(priority | syslog.LOG_DAEMON, text.partition("\n")[0])
    elif kind in MAIL_KINDS:
        _queue(context, messages, destination, record, text)


def _queue(
    context: DirectorContext,
    messages: MessagesSettings,
    destination: Destination,
    record: Run,
    text: str,
) -> None:
    now_ns = clock.now_ns()
    queued = [
        OutgoingMessage(
            # The same when this is repeated after a restart.
            id=blake3(f"{record.id} {target.key}".encode()).hexdigest(16),
            destination=target.key,
            form="report",
            subject=text.partition("\n")[0],
            created_ns=now_ns,
            content={"run": record.id, "job": record.job, "text": text},
        )
        for target in report_targets(messages, destination)
    ]
    post(context.catalog, queued)


def _shown(time_ns: int) -> str:
    if not time_ns:
        return ""
    moment = datetime.fromtimestamp(time_ns // SECOND_NS, UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%SZ")


def queue_ping(context: DirectorContext, record: Run) -> None:
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
