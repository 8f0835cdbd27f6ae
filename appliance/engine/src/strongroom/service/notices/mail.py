"""Mail by SMTP: encrypted before anything is sent, the server verified, one recipient a mail."""

from __future__ import annotations

import smtplib
import ssl
from contextlib import suppress
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from typing import Any, Final

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import NoticeError
from strongroom.base.printable import printable
from strongroom.config.settings.messages import MailServerSettings
from strongroom.service.notices.letter import Letter
from strongroom.service.notices.secret_files import secret
from strongroom.service.notices.web_requests import (
    STEP_SECONDS,
    WHOLE_SECONDS,
    ended_after,
    verifying_context,
)

# Servers need not take bytes that are no ASCII.
_POLICY: Final = SMTP.clone(cte_type="7bit")


def send_mail(server: MailServerSettings, address: str, letter: Letter) -> None:
    """Hand a mail to the server. Raises NoticeError. Blocks."""
    password = secret(server.password_file) if server.user else ""
    try:
        message = _message(server, address, letter)
    except (ValueError, LookupError) as error:
        raise NoticeError(f"no mail can be made for {printable(address, 100)}") from error
    try:
        with (
            _connected(server) as connection,
            ended_after(WHOLE_SECONDS, lambda: connection.sock),
        ):
            if server.security == "StartTLS":
                # Fails where the server does not offer it: nothing goes in clear text.
                connection.starttls(context=verifying_context(server.ca_file))
            if server.user:
                connection.login(server.user, password)
            # send_message would change lines that begin with From.
            connection.sendmail(server.sender, [address], message.as_bytes())
    except ssl.SSLCertVerificationError as error:
        raise NoticeError(
            f"the certificate of {server.host} is not accepted: {error.verify_message}; CA File "
            "names other authorities"
        ) from error
    except smtplib.SMTPRecipientsRefused as error:
        code, text = next(iter(error.recipients.values()))
        raise NoticeError(
            f"{server.host} refuses the address: {_reply_text(code, text)}"
        ) from error
    except smtplib.SMTPResponseException as error:
        reply = _reply_text(error.smtp_code, error.smtp_error)
        raise NoticeError(f"{server.host} refuses the mail: {reply}") from error
    except (OSError, smtplib.SMTPException, ValueError) as error:
        why = printable(str(error), 200) or type(error).__name__
        raise NoticeError(f"cannot send mail by {server.host}: {why}") from error


class _connected:  # noqa: N801 - used as a function
    """A connection to the server, closed at the end, whatever happens to its last words."""

    def __init__(self, server: MailServerSettings) -> None:
        host, port = server.host, server.port
        name = server.sender.rpartition("@")[2] or "localhost"
        if server.security == "TLS":
            self._connection: smtplib.SMTP = _EncryptedServer(
                host, port, name, timeout=STEP_SECONDS, context=verifying_context(server.ca_file)
            )
        else:
            self._connection = _ClearServer(host, port, name, timeout=STEP_SECONDS)

    def __enter__(self) -> smtplib.SMTP:
        return self._connection

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        with suppress(OSError, smtplib.SMTPException):
            if kind is None:
                self._connection.quit()
        self._connection.close()


class _BoundedGreeting:
    """The greeting of a server has to be complete in time, however slowly it comes."""

    def connect(self, *where: Any) -> tuple[int, bytes]:
        with ended_after(WHOLE_SECONDS, lambda: getattr(self, "sock", None)):
            return super().connect(*where)  # type: ignore[misc,no-any-return]


class _ClearServer(_BoundedGreeting, smtplib.SMTP):
    pass


class _EncryptedServer(_BoundedGreeting, smtplib.SMTP_SSL):
    pass


def _message(server: MailServerSettings, address: str, letter: Letter) -> EmailMessage:
    message = EmailMessage(policy=_POLICY)
    domain = server.sender.rpartition("@")[2] or "localhost"
    message["From"] = server.sender
    message["To"] = address
    message["Subject"] = letter.subject
    message["Date"] = formatdate(clock.now_ns() // SECOND_NS)
    # The same when it is sent again, so that a second copy can be recognised.
    message["Message-ID"] = f"<{letter.id}@{domain}>"
    message["Auto-Submitted"] = "auto-generated"
    message["X-Strongroom-Severity"] = letter.severity
    if letter.notices:
        message["X-Strongroom-Incidents"] = " ".join(one["incident"] for one in letter.notices)
    message.set_content(letter.text)
    return message


def _reply_text(code: int, text: bytes | str) -> str:
    return f"{code} {printable(text, 200)}"
