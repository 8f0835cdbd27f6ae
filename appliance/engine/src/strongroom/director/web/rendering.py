"""Pages from templates, and the static files that they name.

Autoescape is on, and whatever a template shows passes `printable` first: names and texts of others
make neither markup nor control characters. Pages have no scripts or styles of their own; the
policy in `application` lets a browser run none. Static files are read once, so that no request
leads to a path of the file system. Sizes, ages and states are shown in words.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import jinja2
from blake3 import blake3
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from strongroom import __version__
from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.printable import printable
from strongroom.base.quantities import counted, size_text
from strongroom.config.values.notice_events import CONDITIONS
from strongroom.director.http.request_context import ApiRequest
from strongroom.director.results.formats import path_text
from strongroom.director.results.runs import Run
from strongroom.director.schedule.due_times import zone_of, zone_text

_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_STEPS: Final = ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))
# Signs beside the words, so that a state is not shown by its colour alone.
SIGNS: Final = {
    "done": "✓",
    "ok": "✓",
    "incomplete": "!",
    "failed": "✗",
    "late": "!",
    "new": "?",
    "cancelled": "×",  # noqa: RUF001 - a sign, not the letter x
    "running": "▶",
    "queued": "…",
    "waiting": "…",
    "error": "✗",
    "warning": "!",
}


class StaticFile(NamedTuple):
    """A file; version: changes with its content."""

    content: bytes
    media_type: str
    version: str


@cache
def static_files() -> dict[str, StaticFile]:
    """All by their names."""
    found = {}
    for one in resources.files("strongroom.director.web").joinpath("static").iterdir():
        kind = _TYPES.get(one.name[one.name.rfind(".") :])
        if kind is not None:
            content = one.read_bytes()
            found[one.name] = StaticFile(content, kind, blake3(content).hexdigest(8))
    return found


def address_of_file(name: str) -> str:
    """Where a browser gets it; another address when it has changed."""
    return f"/static/{name}?v={static_files()[name].version}"


# Title, address and the command of COMMANDS that one needs.
PAGES: Final = (
    ("Overview", "/", "status"),
    ("Clients", "/clients", "clients"),
    ("Runs", "/runs", "runs"),
    ("Schedule", "/schedule", "status"),
    ("Snapshots", "/snapshots", "snapshots"),
    ("Search", "/search", "browse"),
    ("Notices", "/notices", "notify"),
    ("Configuration", "/configuration", "config"),
    ("Audit", "/audit", "audit"),
)


@cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("strongroom.director.web"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        size=size_text,
        number=number,
        counted=counted,
        duration=duration,
        age=age,
        utc=clock.utc_text,
        name=_name,
        folder=_folder,
    )
    environment.globals.update(
        link=link,
        path_word=path_word,
        run_seconds=run_seconds,
        file=address_of_file,
        signs=SIGNS,
        version=__version__,
        conditions=CONDITIONS,
    )
    return environment


def _shown(value: Any) -> Any:
    """What a template shows; its own markup as it is."""
    if isinstance(value, Markup) or not isinstance(value, (str, bytes)):
        return value
    return printable(value)


def _name(path: bytes) -> bytes:
    """The last part of a path."""
    return path.rstrip(b"/").rpartition(b"/")[2]


def _folder(path: bytes) -> bytes:
    """The folder of a path."""
    return path.rstrip(b"/").rpartition(b"/")[0] or b"/"


def page(
    asked: ApiRequest, template: str, here: str, code: int = 200, **values: Any
) -> HTMLResponse:
    """A page for a reader; here: the address of its entry in the menu."""
    zone = zone_of(asked.director.configuration)
    permitted = [one for one in PAGES if asked.rights.permits_command(one[2])]
    text = _templates().get_template(template).render(
        values,
        here=here,
        menu=permitted,
        reader=asked.caller,
        may=asked.rights.permits_command,
        director=asked.director.context.name,
        zone=zone_text(zone),
        moment=lambda time_ns: moment(time_ns, zone),
        zone_offset_seconds=offset_seconds(zone),
    )  # fmt: skip
    return _answer(text, code)


def bare_page(template: str, code: int, **values: Any) -> HTMLResponse:
    """A page for no one in particular: it says nothing of the director."""
    return _answer(_templates().get_template(template).render(values), code)


def _answer(text: str, code: int) -> HTMLResponse:
    return HTMLResponse(text, code, headers={"cache-control": "no-store"})


def number(count: int) -> str:
    """`12,345`."""
    return f"{count:,}"


def duration(seconds: float) -> str:
    """`3 hours`: the largest unit of which there are two, or the next smaller one."""
    for length, word in _STEPS:
        if seconds >= 2 * length or (length == 1):
            count = int(seconds // length)
            return f"{count} {word}{'' if count == 1 else 's'}"
    raise AssertionError


def age(time_ns: int, now_ns: int | None = None) -> str:
    """`3 hours ago`, `in 2 days`, `never` for 0."""
    if not time_ns:
        return "never"
    seconds = ((clock.now_ns() if now_ns is None else now_ns) - time_ns) / SECOND_NS
    if abs(seconds) < 1:
        return "now"
    return f"{duration(seconds)} ago" if seconds > 0 else f"in {duration(-seconds)}"


def moment(time_ns: int, zone: ZoneInfo) -> str:
    """`2026-11-22 21:04` in a time zone; in UTC where the calendar ends."""
    try:
        at = datetime.fromtimestamp(time_ns // SECOND_NS, UTC).astimezone(zone)
    except (OverflowError, ValueError, OSError):
        return clock.utc_text(time_ns)
    return f"{at:%Y-%m-%d %H:%M}"


def offset_seconds(zone: ZoneInfo) -> int:
    """By how much a time zone is ahead of UTC now."""
    offset = datetime.fromtimestamp(clock.now_ns() // SECOND_NS, UTC).astimezone(zone).utcoffset()
    return int(offset.total_seconds()) if offset is not None else 0


def run_seconds(run: Run) -> float:
    """How long a run takes or took."""
    if not run.started_ns:
        return 0.0
    return max(0, (run.ended_ns or clock.now_ns()) - run.started_ns) / SECOND_NS


def link(page: str, /, **query: str | int | bytes | None) -> str:
    """The address of one of our pages; a path of a snapshot (bytes) as the API takes it."""
    words: list[tuple[str, str]] = []
    for name, value in query.items():
        if isinstance(value, bytes):
            words.append(path_word(value, name))
        elif value not in ("", None):
            words.append((name, str(value)))
    return f"{page}?{urlencode(words, errors='surrogateescape')}" if words else page


def path_word(path: bytes, name: str = "path") -> tuple[str, str]:
    """A path of a snapshot as the name and value of a query or form.

    What does not print would not be shown as it is, so it is not sent as text either.
    """
    text = path_text(path)
    if isinstance(text, str) and text.isprintable():
        return name, text
    return f"{name}_base64", base64.b64encode(path).decode("ascii")
