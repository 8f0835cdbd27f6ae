"""Pages from templates, and the static files that they name.

Autoescape is on, and whatever a template shows passes `printable` first: names and texts of others
make neither markup nor control characters. Pages have no scripts or styles of their own; the
policy in `application` lets a browser run none. Static files are read once, so that no request
leads to a path of the file system.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any, Final, NamedTuple

import jinja2
from blake3 import blake3
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from strongroom import __version__
from strongroom.base import clock
from strongroom.base.printable import printable
from strongroom.base.quantities import counted, size_text
from strongroom.config.values.notice_events import CONDITIONS
from strongroom.director.http.request_context import ApiRequest
from strongroom.director.schedule.due_times import zone_of, zone_text
from strongroom.director.web import wording

_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
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
        number=wording.number,
        counted=counted,
        duration=wording.duration,
        age=wording.age,
        utc=clock.utc_text,
        name=_name,
        folder=_folder,
    )
    environment.globals.update(
        link=wording.link,
        path_word=wording.path_word,
        run_seconds=wording.run_seconds,
        file=address_of_file,
        signs=wording.SIGNS,
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
        moment=lambda time_ns: wording.moment(time_ns, zone),
        zone_offset_seconds=wording.offset_seconds(zone),
    )  # fmt: skip
    return _answer(text, code)


def bare_page(template: str, code: int, **values: Any) -> HTMLResponse:
    """A page for no one in particular: it says nothing of the director."""
    return _answer(_templates().get_template(template).render(values), code)


def _answer(text: str, code: int) -> HTMLResponse:
    return HTMLResponse(text, code, headers={"cache-control": "no-store"})
