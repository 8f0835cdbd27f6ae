"""A small real web server, with TLS by the test authority: it notes what it is asked."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

from strongroom.net.channels.tls_contexts import server_context
from strongroom.net.identities.identity import Identity


class Asked(NamedTuple):
    """A request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body."""
        return json.loads(self.body)


class WebServer:
    """See the module. answers: the next statuses, 200 when there is none left.

    answering: no answer comes while it is cleared.
    """

    def __init__(self, identity: Identity | None = None, port: int = 0) -> None:
        self.asked: list[Asked] = []
        self.answers: list[int] = []
        self.moved_to = ""
        self.answering = threading.Event()
        self.answering.set()
        self._identity = identity
        self._wanted_port = port
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        """Its address, by the name in its certificate."""
        scheme = "http" if self._identity is None else "https"
        return f"{scheme}://localhost:{self._wanted_port}"

    def __enter__(self) -> Self:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            disable_nagle_algorithm = True

            def answer(self) -> None:
                owner.answering.wait()
                size = int(self.headers.get("Content-Length", 0))
                body = self.rfile.read(size)
                owner.asked.append(Asked(self.command, self.path, dict(self.headers), body))
                self.send_response(owner.answers.pop(0) if owner.answers else 200)
                if owner.moved_to:
                    self.send_header("Location", owner.moved_to)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_GET = do_POST = do_PUT = answer  # noqa: N815 - names of the library

            def log_message(self, *arguments: object) -> None:
                """Nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True

        self._server = Server(("127.0.0.1", self._wanted_port), Handler)
        if self._identity is not None:
            context = server_context(self._identity, require_certificate=False)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self._wanted_port = int(self._server.server_address[1])
        return self

    def __exit__(self, *failure: object) -> None:
        self.stop()

    def stop(self) -> None:
        """No longer listen; `start` does again, at the same port."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def start(self) -> None:
        """Listen again."""
        self.__enter__()
