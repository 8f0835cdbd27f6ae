"""A director that answers everything properly, and with hostile text wherever it may put a text.

What its answers look like is what the real director's OpenAPI description says. With `refuses`
every answer is an error, with hostile text too.
"""

from __future__ import annotations

import dataclasses
import json
import re
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from strongroom.director.results import access, runs, snapshots, status
from strongroom.net.channels.tls_contexts import server_context
from strongroom.net.identities.identity import Identity

API = "/api/v1"
_TIME = "2026-11-21T13:46:38.651997528Z"
# A word of each enumeration where the first one would not do: watching ends, errors are shown.
_WORDS = {"failed", "error"}
_TIMES = {
    field.name.removesuffix("_ns")
    for module in (access, runs, snapshots, status)
    for kind in vars(module).values()
    if dataclasses.is_dataclass(kind)
    for field in dataclasses.fields(kind)
    if field.name.endswith("_ns")
}


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A command has gone: nothing to say about that."""


class HostileDirector:
    """Serves on loopback in threads; a context manager."""

    def __init__(self, identity: Identity, description: dict[str, Any], evil: str) -> None:
        self.evil = evil
        self.refuses = False
        self._schemas = description["components"]["schemas"]
        self._routes = [
            (re.compile(re.sub(r"\{[^}]*\}", "[^/]+", path)), methods)
            for path, methods in description["paths"].items()
        ]
        self._server = _Server(("127.0.0.1", 0), self._handler())
        context = server_context(identity)
        context.verify_mode = ssl.CERT_OPTIONAL
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )

    @property
    def url(self) -> str:
        """Where it is."""
        return f"https://localhost:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(30)

    def answer(self, method: str, path: str) -> tuple[int, Any]:
        """Status and content of an answer."""
        if self.refuses:
            return 409, {"error_id": self.evil, "message": f"refused {self.evil}"}
        for pattern, methods in self._routes:
            described = methods.get(method.lower())
            if described is None or not pattern.fullmatch(path):
                continue
            for code, response in described["responses"].items():
                if code.startswith("2"):
                    content = response.get("content", {}).get("application/json")
                    return int(code), None if content is None else self._made(content["schema"])
        return 404, {"error_id": "unknown-name", "message": self.evil}

    def events(self) -> str:
        """The events of a run, which ends with the last one."""
        run = self._made(self._schemas["Run"])
        line = self._made(self._schemas["LogLine"])
        shown = [{"type": "line", "line": line}, {"type": "state", "run": run}]
        return "".join(f"data: {json.dumps(event)}\n\n" for event in shown)

    def _made(self, schema: dict[str, Any], name: str = "") -> Any:
        if "$ref" in schema:
            return self._made(self._schemas[schema["$ref"].rpartition("/")[2]], name)
        if name == "next":
            return None
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return next((word for word in schema["enum"] if word in _WORDS), schema["enum"][0])
        for choice in schema.get("anyOf", schema.get("oneOf", ())):
            if choice.get("type") != "null":
                return self._made(choice, name)
        kind = schema.get("type")
        if kind == "object" or "properties" in schema:
            made = {
                each: self._made(one, each) for each, one in schema.get("properties", {}).items()
            }
            return made or {self.evil: self.evil}
        if kind == "array":
            return [self._made(schema.get("items", {}), name)]
        if kind in ("integer", "number"):
            return 3
        if kind == "boolean":
            return True
        return _TIME if name in _TIMES else self.evil

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        director = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                if path.endswith("/events") and not director.refuses:
                    return self._send(200, "text/event-stream", director.events())
                status, content = director.answer(self.command, path)
                text = "" if content is None else json.dumps(content)
                return self._send(status, "application/json", text)

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                self.do_GET()

            def do_DELETE(self) -> None:
                self.do_GET()

            def log_message(self, *words: object) -> None:
                pass

            def _send(self, status: int, kind: str, text: str) -> None:
                data = text.encode("utf-8", "surrogatepass")
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        return Handler
