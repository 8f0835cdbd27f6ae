"""The report of a run, to the destinations of its job's Messages resource.

The text contains what the run was, did and ended as, with the relevant lines of its log. `append`
and `file` write it, `syslog` logs its first line, `mail`, `mail on error` and `mail on success`
pass it to the Mail Command (or to sendmail), `operator` to the Operator Command. A destination gets
it when one of its types matches how the run ended. `catalog`, `console` and `director` need
nothing: the catalog has every line, consoles read it there.
"""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from strongroom.clock import SECOND_NS
from strongroom.daemons.director.catalog.runs import log_lines
from strongroom.daemons.director.runs.scripts import filled
from strongroom.daemons.director.shown_text import shown
from strongroom.errors import ScriptError
from strongroom.printable import printable_lines

if TYPE_CHECKING:
    from strongroom.config.values.destinations import Destination
    from strongroom.daemons.director.catalog.runs import RunRecord
    from strongroom.daemons.director.context import DirectorContext

_MOST_LINES: Final = 500
# Before the further lines of a text, so that none of them passes for a line of the report.
_INDENT: Final = "    "
_COMMAND_SECONDS: Final = 60
_KTLS_WAYS: Final = (("ktls_send", "sending"), ("ktls_receive", "receiving"))
_SENDMAIL: Final = "/usr/sbin/sendmail"


def report_text(context: DirectorContext, record: RunRecord) -> str:
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
    said = log_lines(context.catalog, record.id, limit=_MOST_LINES)
    lines += ["", *(f"{_shown(line.time_ns)} {line.level}: {line.text}" for line in said)]
    if record.log_lines > len(said):
        lines.append(f"... and {record.log_lines - len(said)} more lines")
    return "\n".join(printable_lines(line, _INDENT) for line in lines) + "\n"


def connection_text(security: dict[str, Any]) -> str:
    """The security of a run's connection to the storage daemon; "" if it was not reported.

    It is reported by the agent, so it is limited in length.
    """
    if not security:
        return ""
    ways = [word for way, word in _KTLS_WAYS if security.get(way) is True]
    used = f"kTLS for {' and '.join(ways)}" if ways else "no kTLS"
    return shown(f"{security.get('mode', '?')}, {security.get('cipher', '?')}, {used}")


def send_reports(context: DirectorContext, record: RunRecord) -> None:
    """Send the report of a run. Blocks. Raises ScriptError or OSError for the first that fails."""
    job = context.configuration.jobs.get(record.job)
    messages = context.configuration.messages.get(job.messages) if job is not None else None
    if messages is None:
        return
    text = ""
    failure: Exception | None = None
    for destination in messages.destinations:
        if not _wants(destination, record):
            continue
        text = text or report_text(context, record)
        try:
            _send(context, destination, record, text)
        except (ScriptError, OSError) as error:
            failure = failure or error
    if failure is not None:
        raise failure


def _wants(destination: Destination, record: RunRecord) -> bool:
    if destination.kind == "mailonerror" and record.went_well:
        return False
    if destination.kind == "mailonsuccess" and not record.went_well:
        return False
    fitting = {"terminate"} if record.went_well else {"terminate", "error", "fatal", "abort"}
    if record.state == "incomplete":
        fitting |= {"warning", "notsaved"}
    return bool(fitting & destination.accepted_types)


def _send(context: DirectorContext, destination: Destination, record: RunRecord, text: str) -> None:
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
    elif kind in ("mail", "mailonerror", "mailonsuccess", "operator"):
        _mail(context, destination, record, text)


def _mail(context: DirectorContext, destination: Destination, record: RunRecord, text: str) -> None:
    subject = text.partition("\n")[0]
    if destination.command:
        # `%r` stands for the recipients; the rest as in scripts.
        command = destination.command.replace("%r", " ".join(destination.addresses))
        words = filled(command, record, context.name)
    else:
        words = [_SENDMAIL, "-oi", *destination.addresses]
        text = f"Subject: {subject}\nContent-Type: text/plain; charset=utf-8\n\n{text}"
    try:
        ended = subprocess.run(
            words,
            input=text.encode("utf-8", "backslashreplace"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_COMMAND_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ScriptError(f"{words[0]} took longer than {_COMMAND_SECONDS} s") from error
    if ended.returncode:
        said = ended.stderr[-500:].decode("utf-8", "backslashreplace").strip()
        raise ScriptError(f"{words[0]} ended with code {ended.returncode}: {said}")


def _shown(time_ns: int) -> str:
    if not time_ns:
        return ""
    moment = datetime.fromtimestamp(time_ns // SECOND_NS, UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%SZ")
