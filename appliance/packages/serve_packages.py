#!/usr/bin/env python3
"""Answer the HTTP requests of one connection with files of a folder, and with nothing else.

    serve_packages.py FOLDER

The connection is standard input: systemd accepts it and starts this program for it, in a sandbox
that shows it nothing but FOLDER (strongroom-packages.socket, strongroom-packages@.service). It only
reads. A path is answered when it names a regular file whose real place is inside FOLDER; folders
are not listed. Anyone who asks for nothing for a minute is left.

Runs with Debian's python3 and nothing of the engine, which an upgrade can so replace meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import stat
import sys
from email.utils import formatdate, parsedate_to_datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import BinaryIO, NoReturn

IDLE_SECONDS = 60
# A path of an apt repository; anything else need not reach the file system.
PATH = re.compile(r"(/[A-Za-z0-9_+~:-][A-Za-z0-9_.+~:-]*)+")
ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")


class NoFileError(Exception):
    """There is no such file to read."""


class Files(BaseHTTPRequestHandler):
    """The requests of one connection. `folder` is set before: its real place."""

    folder: Path
    protocol_version = "HTTP/1.1"
    server_version = "strongroom-packages"
    sys_version = ""
    timeout = IDLE_SECONDS

    def do_GET(self) -> None:
        """A file."""
        self._answer(with_content=True)

    def do_HEAD(self) -> None:
        """What a file is like."""
        self._answer(with_content=False)

    def _answer(self, *, with_content: bool) -> None:
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            self.send_error(HTTPStatus.BAD_REQUEST)
            return
        try:
            file = opened(self.folder, self.path)
        except NoFileError:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        with file:
            status = os.fstat(file.fileno())
            if self._is_known(int(status.st_mtime)):
                self.send_response(HTTPStatus.NOT_MODIFIED)
                self.end_headers()
                return
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Content-Length", str(status.st_size))
            self.send_header("Last-Modified", formatdate(int(status.st_mtime), usegmt=True))
            self.end_headers()
            if with_content:
                self.connection.sendfile(file)

    def _is_known(self, modified: int) -> bool:
        """Whether the client has the file of that time. An earlier one is another, too."""
        try:
            return parsedate_to_datetime(self.headers["If-Modified-Since"]).timestamp() == modified
        except (TypeError, ValueError, OverflowError):
            return False

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Without a page, which would repeat what was asked for."""
        if code != HTTPStatus.NOT_FOUND:
            # What follows may be the content of a request, which is none.
            self.close_connection = True
        self.send_response(code)
        self.send_header("Content-Length", "0")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()

    def log_message(self, format: str, *words: object) -> None:  # noqa: A002
        """Nothing is logged of a request: a stranger could fill the journal."""


def opened(folder: Path, path: str) -> BinaryIO:
    """The regular file of that path of a URL. Raises NoFileError."""
    named = ESCAPE.sub(lambda found: chr(int(found[1], 16)), path)
    if not PATH.fullmatch(named):
        raise NoFileError
    try:
        real = (folder / named[1:]).resolve(strict=True)
        if not real.is_relative_to(folder):
            raise NoFileError
        # Its last part is no longer a link, and a FIFO would wait forever.
        descriptor = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, RuntimeError, ValueError) as error:
        raise NoFileError from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NoFileError
    return os.fdopen(descriptor, "rb")


def refuse(reason: str) -> NoReturn:
    """End with a message."""
    sys.stderr.write(f"serve_packages: {reason}\n")  # noqa: TID251
    sys.exit(2)


def main() -> int:
    """Answer until the connection ends; the exit status."""
    if len(sys.argv) != 2:
        refuse("give the folder, and nothing else: serve_packages.py FOLDER")
    try:
        Files.folder = Path(sys.argv[1]).resolve(strict=True)
        connection = socket.socket(fileno=os.dup(0))
    except OSError as error:
        refuse(
            f"{error}; systemd starts this program for a connection (strongroom-packages.socket)"
        )
    with connection, contextlib.suppress(OSError):
        Files(connection, "", None)  # type: ignore[arg-type]
    return 0


if __name__ == "__main__":
    sys.exit(main())
