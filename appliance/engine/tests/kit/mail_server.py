"""A small real SMTP server: STARTTLS or TLS by the test authority, AUTH, and ways to fail.

Each connection has a thread. `mails` holds what was accepted; `heard` every line of every client
as it came over the wire before or within TLS, `in_clear` those that came without it.
"""

from __future__ import annotations

import base64
import email
import email.policy
import socket
import socketserver
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from email.message import EmailMessage
from typing import Any, Self

from strongroom.net.channels.tls_contexts import server_context
from strongroom.net.identities.identity import Identity

_LONGEST_LINE = 65536


class MailServer:
    """See the module. login: user and password it wants. dies_in_data: hangs up before the end.

    refuses: an answer to RCPT instead of OK. greets_slowly: never comes to the end of its greeting.
    """

    def __init__(
        self,
        identity: Identity | None = None,
        *,
        security: str = "None",
        login: tuple[str, str] | None = None,
        greets_slowly: bool = False,
        port: int = 0,
    ) -> None:
        self.security = security
        self.login = login
        self.greets_slowly = greets_slowly
        self.dies_in_data = False
        self.refuses = ""
        self.mails: list[EmailMessage] = []
        self.recipients: list[str] = []
        self.heard: list[str] = []
        self.in_clear: list[str] = []
        self.logins: list[tuple[str, str]] = []
        self._context = None
        if identity is not None:
            self._context = server_context(identity, require_certificate=False)
        self._wanted_port = port
        self._server: socketserver.ThreadingTCPServer | None = None

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._server is not None
        return int(self._server.server_address[1])

    def __enter__(self) -> Self:
        owner = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                # An answer of several parts would wait 40 ms for the client's acknowledgement.
                self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with suppress(OSError, ssl.SSLError):
                    _Conversation(owner, self.request).run()

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True

        self._server = Server(("127.0.0.1", self._wanted_port), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self._wanted_port = self.port
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

    def subjects(self) -> list[str]:
        """Of all mails."""
        return [str(mail["Subject"]) for mail in self.mails]


class _Conversation:
    def __init__(self, server: MailServer, connection: socket.socket) -> None:
        self._server = server
        self._socket = connection
        self._is_encrypted = False
        if server.security == "TLS":
            self._encrypt()
        self._file: Any = self._socket.makefile("rb")
        self._is_known = server.login is None
        self._recipient = ""

    def run(self) -> None:
        while self._server.greets_slowly:
            self._say("220-wait")
            time.sleep(0.05)
        self._say("220 test")
        commands: dict[str, Callable[[str], bool]] = {
            "EHLO": self._ehlo,
            "STARTTLS": self._starttls,
            "AUTH": self._auth,
            "RCPT": self._rcpt,
            "DATA": self._data,
            "QUIT": self._quit,
        }
        while line := self._line():
            word = line.split(" ")[0].upper()
            if not commands.get(word, self._fine)(line):
                return

    def _encrypt(self) -> None:
        assert self._server._context is not None  # noqa: SLF001 - its own other half
        self._socket = self._server._context.wrap_socket(self._socket, server_side=True)  # noqa: SLF001
        self._is_encrypted = True

    def _line(self) -> str:
        line = self._file.readline(_LONGEST_LINE).decode().rstrip("\r\n")
        self._server.heard.append(line)
        if not self._is_encrypted:
            self._server.in_clear.append(line)
        return str(line)

    def _say(self, text: str) -> None:
        self._socket.sendall(text.encode() + b"\r\n")

    def _fine(self, line: str) -> bool:
        self._say("250 fine")
        return True

    def _ehlo(self, line: str) -> bool:
        more = []
        if self._server.security == "StartTLS" and not self._is_encrypted:
            more.append("STARTTLS")
        if self._server.login is not None and (self._is_encrypted or not more):
            more.append("AUTH PLAIN")
        for text in ["test", *more][:-1]:
            self._say(f"250-{text}")
        self._say(f"250 {['test', *more][-1]}")
        return True

    def _starttls(self, line: str) -> bool:
        if self._server.security != "StartTLS":
            self._say("502 no")
            return True
        self._say("220 go")
        self._encrypt()
        self._file = self._socket.makefile("rb")
        return True

    def _auth(self, line: str) -> bool:
        told = base64.b64decode(line.split(" ")[2]).decode().split("\0")
        self._server.logins.append((told[1], told[2]))
        self._is_known = (told[1], told[2]) == self._server.login
        self._say("235 welcome" if self._is_known else "535 wrong")
        return True

    def _rcpt(self, line: str) -> bool:
        self._recipient = line.partition("<")[2].partition(">")[0]
        if not self._is_known:
            self._say("530 log in")
        else:
            self._say(self._server.refuses or "250 fine")
        return True

    def _data(self, line: str) -> bool:
        self._say("354 continue")
        lines = []
        while (one := self._file.readline(_LONGEST_LINE)) not in (b".\r\n", b""):
            lines.append(one.removeprefix(b".") if one.startswith(b"..") else one)
            if self._server.dies_in_data:
                return False
        mail = email.message_from_bytes(b"".join(lines), policy=email.policy.default)
        self._server.mails.append(mail)
        self._server.recipients.append(self._recipient)
        self._say("250 taken")
        return True

    def _quit(self, line: str) -> bool:
        self._say("221 bye")
        return False
