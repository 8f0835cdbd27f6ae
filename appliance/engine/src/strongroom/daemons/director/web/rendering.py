"""Pages from templates.

Autoescape is on, and whatever a template shows passes `printable` first: names and texts of others
make neither markup nor control characters. Pages have no scripts or styles of their own; the
policy in `application` lets a browser run none.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

import jinja2
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from strongroom import __version__, clock
from strongroom.config.values.notice_events import CONDITIONS
from strongroom.daemons.director.schedule.due_times import time_zone, zone_text
from strongroom.daemons.director.web import wording
from strongroom.daemons.director.web.static_files import address_of_file
from strongroom.errors import UsageError
from strongroom.printable import printable

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from strongroom.daemons.director.api.request_context import ApiRequest

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
        loader=jinja2.PackageLoader("strongroom.daemons.director.web"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        size=wording.size,
        number=wording.number,
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


def zone_of(asked: ApiRequest) -> ZoneInfo:
    """The time zone of the director, the system's where it names one that is not there."""
    try:
        return time_zone(asked.director.configuration.director.time_zone)
    except UsageError:
        return time_zone("")


def page(
    asked: ApiRequest, template: str, here: str, code: int = 200, **values: Any
) -> HTMLResponse:
    """A page for a reader; here: the address of its entry in the menu."""
    zone = zone_of(asked)
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
    """A page for nobody in particular: it says nothing of the director."""
    return _answer(_templates().get_template(template).render(values), code)


def _answer(text: str, code: int) -> HTMLResponse:
    return HTMLResponse(text, code, headers={"cache-control": "no-store"})
