"""Runs, problems and times of the director as tables and texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from strongroom.base.clock import SECOND_NS, local_text
from strongroom.base.errors import (
    EXIT_DONE,
    EXIT_INCOMPLETE,
    CancelledError,
    DirectorError,
    error_class,
)
from strongroom.base.printable import printable
from strongroom.base.quantities import counted, duration_text, size_text
from strongroom.cli.table import write_table
from strongroom.cli.terminal import Terminal

# A thing of the API as it was answered: docs/reference/director-api.md says what its fields mean.
ApiObject: TypeAlias = dict[str, Any]

SHORT_ID = 8
FINAL_STATES = frozenset(("done", "incomplete", "failed", "cancelled"))
_RUN_COLUMNS = (
    "RUN",
    "JOB",
    "CLIENT",
    "KIND",
    "LEVEL",
    "STATE",
    ">FILES",
    ">SIZE",
    ">STORED",
    ">ERRORS",
    "BEGAN",
    ">TOOK",
    "WHY",
)


def moment_ns(text: str | None) -> int:
    """Nanoseconds since 1970 of a time of the API; 0 for none."""
    if not text:
        return 0
    if text.startswith("@"):
        return int(text[1:]) * SECOND_NS
    whole, _, fraction = text.rstrip("Z").partition(".")
    seconds = int(datetime.fromisoformat(whole + "+00:00").timestamp())
    return seconds * SECOND_NS + int(fraction.ljust(9, "0")[:9] or 0)


def local_time(text: str | None) -> str:
    """A time of the API in local time; "" for none."""
    return local_text(moment_ns(text)) if text else ""


def seconds_between(begin: str | None, end: str | None) -> float | None:
    """Seconds from one time of the API to another; None unless both are known."""
    return (moment_ns(end) - moment_ns(begin)) / SECOND_NS if begin and end else None


def plain_path(path: Any) -> bytes:
    """The bytes of a path of the API."""
    if isinstance(path, str):
        return path.encode()
    from base64 import b64decode

    return b64decode(path["base64"])


def path_for_api(path: bytes) -> str | dict[str, str]:
    """A path in the form of the API."""
    try:
        return path.decode()
    except UnicodeDecodeError:
        from base64 import b64encode

        return {"base64": b64encode(path).decode("ascii")}


def short_id(identifier: str) -> str:
    """The beginning of an id, as shown."""
    return identifier[:SHORT_ID]


def show_listing(
    terminal: Terminal,
    kind: str,
    found: Sequence[ApiObject],
    columns: Sequence[str],
    row: Callable[[ApiObject], Sequence[str]],
) -> None:
    """What the director listed, as objects or as a table. kind: of one, in the singular."""
    for one in found:
        terminal.emit({"type": kind, **one})
    write_table(terminal, columns, [row(one) for one in found])
    if not found:
        terminal.line(f"no {kind}s that you may see")


def write_runs(terminal: Terminal, runs: Iterable[ApiObject], now: str | None) -> None:
    """A table of runs; those under way took the time until `now`."""
    write_table(terminal, _RUN_COLUMNS, [_run_row(run, now) for run in runs])


def _run_row(run: ApiObject, now: str | None) -> list[str]:
    counted = bool(run["started"])
    took = seconds_between(run["started"], run["ended"] or now)
    return [
        short_id(run["id"]),
        printable(run["job"]),
        printable(run["client"]),
        run["kind"],
        run["level"],
        state_text(run),
        f"{run['files']:,}" if counted else "",
        size_text(run["bytes"]) if counted else "",
        size_text(run["stored_bytes"]) if counted and run["kind"] == "backup" else "",
        f"{run['errors']:,}" if run["errors"] else "",
        local_time(run["started"] or run["scheduled"]),
        duration_text(took) if took is not None and took >= 0 else "",
        printable(run["error"] or run["reason"]),
    ]


def state_text(run: ApiObject) -> str:
    """The state of a run; one that was asked to end and has not yet is cancelling or stopping."""
    if run.get("ending"):
        return "cancelling" if run.get("ending") == "cancelled" else "stopping"
    return str(run["state"])


def run_line(run: ApiObject) -> str:
    """A run and its state in one line."""
    head = f"run {short_id(run['id'])} of {printable(run['job'])} on {printable(run['client'])}"
    if run["state"] in FINAL_STATES:
        counts = f"{counted(run['files'], 'file')}, {size_text(run['bytes'])}"
        errors = f", {run['errors']:,} errors" if run["errors"] else ""
        why = (
            f": {printable(run['error'] or run['reason'])}" if run["error"] or run["reason"] else ""
        )
        return f"{head} is {run['state']}: {counts}{errors}{why}"
    if run.get("ending"):
        return f"{head} is {state_text(run)}: its agent has not confirmed it yet"
    why = f" ({printable(run['reason'])})" if run["reason"] else ""
    return f"{head} is {run['state']}{why}"


def tell_run(run: ApiObject, terminal: Terminal) -> None:
    """A run as the result of a command: an object with --json, else a line."""
    terminal.emit({"type": "run", **run})
    terminal.line(run_line(run))


def run_exit_code(run: ApiObject) -> int:
    """The exit code of a command that waited for a run: that of the job itself."""
    if run["state"] == "done":
        return EXIT_DONE
    if run["state"] == "incomplete":
        found = error_class(run["error_id"])
        return EXIT_INCOMPLETE if found is None else found.exit_code
    if run["state"] == "cancelled":
        return CancelledError.exit_code
    return (error_class(run["error_id"]) or DirectorError).exit_code


def write_problems(terminal: Terminal, problems: Sequence[ApiObject]) -> None:
    """A line for each problem, errors first, in colour on a terminal; and what to do."""
    if terminal.as_json or terminal.quiet:
        return
    if not problems:
        terminal.styled((("mark", "everything is OK"), ("", "\n")))
    for one in problems:
        since = local_time(one["since"])
        pieces = [
            (
                one["severity"] if one["severity"] == "error" else "warning",
                f"{printable(one['severity'])}:",
            ),
            ("bold", f" {printable(one['title'])}"),
            ("", f", since {since}\n"),
        ]
        if one["detail"]:
            pieces.append(("", f"    {printable(one['detail'])}\n"))
        if one["remedy"]:
            pieces.append(("", f"    {printable(one['remedy'])}\n"))
        terminal.styled(pieces)


def unreported_endings(status: ApiObject) -> list[ApiObject]:
    """Certificates and tokens that end soon, where no problem is about one.

    What is about no job, client or storage is a problem for callers with all rights only.
    """
    if any(one["event"].startswith(("certificate-", "token-")) for one in status["problems"]):
        return []
    return [one for one in status["expiries"] if one["soon"]]
