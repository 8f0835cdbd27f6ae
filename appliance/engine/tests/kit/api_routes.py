"""Every request that the director's API has, from its own OpenAPI description.

A route that is new, or has a new parameter, fails here until somebody says what to ask it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import httpx

API = "/api/v1"
# What has no caller: answered to anybody.
PUBLIC = frozenset((("GET", f"{API}/authority"), ("POST", f"{API}/enrol")))
_QUERIES = {
    f"{API}/files/search": {"name": "*"},
    f"{API}/snapshots/{{snapshot_id}}/changes": {"since": "0" * 64},
}
_ABSENT = "0" * 32


class Route(NamedTuple):
    """One request: `pattern` is the path as the description has it."""

    method: str
    pattern: str
    path: str
    body: Any = None

    @property
    def is_public(self) -> bool:
        return (self.method, self.pattern) in PUBLIC

    def ask(self, api: httpx.Client, **options: Any) -> httpx.Response:
        """Send it; `api` has the base of the director."""
        query = _QUERIES.get(self.pattern)
        body = {} if self.body is None else {"json": self.body}
        url = api.base_url.copy_with(path=self.path)
        return api.request(self.method, url, params=query, **{**body, **options})


def every_route(
    described: Mapping[str, Any],
    values: Mapping[str, Sequence[str]] | None = None,
    bodies: Mapping[str, Sequence[Any]] | None = None,
) -> Iterator[Route]:
    """Each route with every combination of values of its parameters and bodies.

    values: of parameters of paths, by name. bodies: of "METHOD PATH", without the path's beginning;
    instead of what is usual.
    """
    known = {**USUAL_VALUES, **(values or {})}
    asked = {**USUAL_BODIES, **(bodies or {})}
    yield Route("GET", "/metrics", "/metrics")
    for pattern, operations in described["paths"].items():
        for method, operation in operations.items():
            if pattern == "/metrics":
                continue
            names = [one["name"] for one in operation.get("parameters", ()) if one["in"] == "path"]
            needs_body = "requestBody" in operation
            what = f"{method.upper()} {pattern.removeprefix(API)}"
            for chosen in product(*(known[name] for name in names)):
                path = pattern
                for name, value in zip(names, chosen, strict=True):
                    path = path.replace(f"{{{name}}}", value)
                for body in asked[what] if needs_body else (None,):
                    yield Route(method.upper(), pattern, path, body)


USUAL_VALUES: dict[str, Sequence[str]] = {
    "run_id": (_ABSENT,),
    "snapshot_id": (_ABSENT,),
    "token_id": (_ABSENT,),
    "name": ("web1",),
    "kind": ("client",),
}
USUAL_BODIES: dict[str, Sequence[Any]] = {
    "POST /runs": ({"job": "nightly-web1"},),
    "POST /estimates": ({"job": "nightly-web1"},),
    "POST /runs/{run_id}/bandwidth": ({"maximum_bytes_per_second": 1},),
    "POST /restores": ({"snapshot": _ABSENT, "target": "/srv/restore"},),
    "POST /tokens": ({"name": "admin"},),
    "POST /notices/test": ({"destination": ""},),
    "POST /enrol": ({"token": "srt1_guessed", "csr": "x" * 64, "name": "web9"},),
    "POST /renew": ({"csr": "x" * 64},),
}
