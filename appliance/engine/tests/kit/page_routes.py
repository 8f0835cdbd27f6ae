"""Every request that the director's web page has, from its routes.

A page that is new fails here until somebody says what to ask it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from strongroom.director.web.application import ROUTERS

# Answered to anybody: the way in, and what tells nothing.
PUBLIC = frozenset((("POST", "/login"), ("POST", "/logout"), ("GET", "/static/{name}")))
_ABSENT = "0" * 32


class PageRequest(NamedTuple):
    """One request: `pattern` is the path as its route has it."""

    method: str
    pattern: str
    target: str
    body: Any = None

    @property
    def is_public(self) -> bool:
        return (self.method, self.pattern) in PUBLIC

    @property
    def needs_header(self) -> bool:
        """Whether it changes something, or is a stream."""
        return self.method != "GET" or self.pattern.endswith("/events")


def every_page(snapshot: str = _ABSENT, other: str = _ABSENT, run: str = _ABSENT) -> Iterator[Any]:
    """Each route with what it is asked for."""
    targets: dict[str, tuple[str, ...]] = {
        "/": ("/",),
        "/clients": ("/clients", "/clients?state=new&name=b"),
        "/client": ("/client?name=web1", "/client?name=db1"),
        "/runs": ("/runs", "/runs?client=db1", "/runs?kind=backup&state=queued"),
        "/runs/{run_id}": (f"/runs/{run}",),
        "/runs/{run_id}/events": (f"/runs/{run}/events",),
        "/runs/{run_id}/cancel": (f"/runs/{run}/cancel",),
        "/schedule": ("/schedule", "/schedule?day=3"),
        "/snapshots": ("/snapshots", "/snapshots?client=db1"),
        "/snapshots/{snapshot_id}": (f"/snapshots/{snapshot}", f"/snapshots/{snapshot}?path=/x"),
        "/search": ("/search", "/search?name=*"),
        "/compare": (f"/compare?before={snapshot}&after={other}",),
        "/restore": (
            f"/restore?snapshot={snapshot}&path=/",
            f"/restore?snapshot={snapshot}&path=/&way=folder&target=/srv/restore",
        ),
        "/restores": ("/restores",),
        "/notices": ("/notices",),
        "/notices/test": ("/notices/test",),
        "/notices/retry": ("/notices/retry",),
        "/configuration": ("/configuration", "/configuration?kind=Job"),
        "/resource": ("/resource?kind=Client&name=web1", "/resource?kind=Client&name=db1"),
        "/audit": ("/audit",),
        "/login": ("/login",),
        "/logout": ("/logout",),
        "/static/{name}": ("/static/style.css", "/static/pages.js"),
    }
    bodies = {
        "/runs": {"job": "nightly-db1"},
        "/restores": {"snapshot": snapshot, "target": "/srv/restore"},
        "/notices/test": {"destination": ""},
        "/login": {"token": "srt_guessed"},
    }
    for router in ROUTERS:
        for route in router.routes:
            for method in route.methods - {"HEAD"}:
                if method == "POST":
                    yield PageRequest(
                        method, route.path, targets[route.path][0], bodies.get(route.path)
                    )
                    continue
                for target in targets[route.path]:
                    yield PageRequest(method, route.path, target)
