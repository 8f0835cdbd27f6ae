"""Messages resources: where the reports of runs go, and notices of what is wrong.

Reported is mail that would not go out, and a destination of notices that is not complete.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from strongroom.config.language.diagnostics import ERROR, WARNING
from strongroom.config.model import Resource
from strongroom.config.settings.findings import Findings
from strongroom.config.settings.reading import settings_of
from strongroom.config.values.forms import Destination
from strongroom.config.values.notice_events import NOTICE_MAY, NOTICE_NEEDS, chosen_events

SMTP_PORTS: Final = {"StartTLS": 587, "TLS": 465, "None": 25}
_HOURS, _MINUTES = 24, 60
_QUOTING: Final = frozenset("\"'\\")
_SMTP: Final = ("smtp_port", "smtp_security", "smtp_user", "smtp_password_file", "mail_from")
# Programs that hand mail over with rights that the sandbox of the unit takes away.
_LOCAL_MAILERS: Final = frozenset(("sendmail", "mail", "mailx", "mutt", "s-nail", "exim4"))
_OTHERS_RIGHTS: Final = frozenset(("sudo", "su", "doas", "pkexec", "runuser"))
# Folders that the sandbox hides, or of which it shows others.
_HIDDEN: Final = ("/home/", "/root/", "/run/user/", "/tmp/", "/var/tmp/")  # noqa: S108 - compared
_ADDRESS: Final = re.compile(
    r"(?!=\?)[A-Za-z0-9!#$%&'*+/=?^_`{|}~.\-]+(?:@[A-Za-z0-9](?:[A-Za-z0-9.\-]*[A-Za-z0-9])?)?\Z"
)
_OWN_HOSTS: Final = frozenset(("localhost", "127.0.0.1", "::1"))
_UNIT: Final = "the sandbox of the director's unit"
_SANDBOX: Final = (
    "cannot deliver from within the sandbox of the director's unit (NoNewPrivileges); set SMTP "
    "Server"
)
_PARTICULAR: Final = ("to", "url", "url_file", "token_file", "room", "command", "ca_file")


@dataclass(frozen=True, slots=True)
class MailServerSettings:
    """A mail server. security: StartTLS, TLS or None. user: "" for none."""

    host: str
    port: int
    security: str
    user: str
    password_file: str
    sender: str
    ca_file: str


@dataclass(frozen=True, slots=True)
class NotifySettings:
    """A destination of notices; "" where nothing is set.

    kind: mail, webhook, slack, matrix, ntfy, gotify or command. digest_minute: the minute of the
    local day at which a digest is sent, None for no digest.
    """

    name: str
    kind: str
    to: tuple[str, ...]
    url: str
    url_file: str
    token_file: str
    room: str
    command: str
    ca_file: str
    events: frozenset[str]
    tells_resolved: bool
    digest_minute: int | None
    maximum_per_hour: int


@dataclass(frozen=True, slots=True)
class MessagesSettings:
    """The destinations in their order, each with the command that was before it.

    mail_server: None where mail goes by commands only.
    """

    name: str
    destinations: tuple[Destination, ...]
    mail_server: MailServerSettings | None = None
    notify: tuple[NotifySettings, ...] = ()
    ca_file: str = ""

    @classmethod
    def of(cls, messages: Resource) -> MessagesSettings:
        """Those of a Messages resource of a director."""
        ca_file = messages.text("ca_file")
        return cls(
            messages.name,
            messages.destinations,
            _mail_server(messages, ca_file),
            tuple(_notify(one, ca_file) for one in messages.blocks("notify")),
            ca_file,
        )


def day_minute(text: str) -> int | None:
    """The minute of the day that `7:30` names; None where it is not a time of day."""
    hour, colon, minute = text.partition(":")
    if not colon or not all(one.isascii() and one.isdecimal() for one in (hour, minute)):
        return None
    if len(minute) != 2 or len(hour) > 2 or int(hour) >= _HOURS or int(minute) >= _MINUTES:
        return None
    return int(hour) * _MINUTES + int(minute)


def _mail_server(messages: Resource, ca_file: str) -> MailServerSettings | None:
    host = messages.text("smtp_server")
    if not host:
        return None
    security = messages.text("smtp_security")
    return MailServerSettings(
        host=host,
        port=messages.number("smtp_port") or SMTP_PORTS[security],
        security=security,
        user=messages.text("smtp_user"),
        password_file=messages.text("smtp_password_file"),
        sender=messages.text("mail_from"),
        ca_file=ca_file,
    )


def _notify(block: Resource, ca_file: str) -> NotifySettings:
    return settings_of(
        NotifySettings,
        block,
        kind=block.text("type").lower(),
        ca_file=block.text("ca_file") or ca_file,
        events=chosen_events(block.texts("events")),
        tells_resolved=block.switch("resolved"),
        digest_minute=day_minute(block.text("digest_at")),
    )


def word_fault(command: str) -> str:
    """Why a command cannot be split into words; "" if it can."""
    if command.strip() and not _QUOTING & set(command):
        return ""
    try:
        words = shlex.split(command)
    except ValueError as error:
        return f"the command {command!r} cannot be split into words: {error}"
    return "" if words else "a script has an empty command"


def check_messages(findings: Findings, messages: Resource) -> None:
    """Report what is wrong with one Messages resource of a director."""
    _check_commands(findings, messages)
    check_notices(findings, messages)


def check_notices(findings: Findings, messages: Resource, *, is_sandboxed: bool = True) -> None:
    """Report what is wrong with its Notify blocks. is_sandboxed: in the unit of the director."""
    _check_mail_server(findings, messages)
    _check_files(findings, messages, ("smtp_password_file", "ca_file"))
    names: set[str] = set()
    for block in messages.blocks("notify"):
        _check_notify(findings, messages, block, names, is_sandboxed=is_sandboxed)


def _check_commands(findings: Findings, messages: Resource) -> None:
    for attribute in ("mail_command", "operator_command"):
        for directive in messages.directives(attribute):
            command = str(directive.value)
            if fault := word_fault(command):
                message = f"reports of Messages {messages.name} are not sent: {fault}"
                findings.at_directive(WARNING, "messages", message, directive)
            elif reason := _sandbox_fault(command):
                findings.at_directive(WARNING, "messages", reason, directive)
    if messages.text("smtp_server"):
        return
    commands: set[str] = set()
    for directive in messages.block.directives:
        if directive.spec.type == "STDSTR":
            commands.add(directive.spec.key)
        if not isinstance(directive.value, Destination):
            continue
        kind = directive.spec.code
        wanted = {"operator": "operatorcommand"}.get(kind, "mailcommand")
        if (kind.startswith("mail") or kind == "operator") and wanted not in commands:
            message = f"without a command before it the mail goes to sendmail, which {_SANDBOX}"
            findings.at_directive(WARNING, "messages", message, directive)


def _sandbox_fault(command: str) -> str:
    """Why a command cannot do its work in the unit of the director; "" if nothing is known."""
    path = shlex.split(command)[0]
    program = os.path.basename(path)
    if program in _LOCAL_MAILERS:
        return f"{program} {_SANDBOX}"
    if program in _OTHERS_RIGHTS:
        return f"{program} gets no other rights within {_UNIT} (NoNewPrivileges)"
    return _hidden_fault(path)


def _hidden_fault(path: str) -> str:
    if not path.startswith(_HIDDEN):
        return ""
    folder = next(one for one in _HIDDEN if path.startswith(one))
    return f"{path} is not seen within {_UNIT}, which has no {folder} of this machine"


def _check_mail_server(findings: Findings, messages: Resource) -> None:
    def error(message: str, *attributes: str) -> None:
        text = f"Messages {messages.name}: {message}"
        findings.error("messages", text, messages, *attributes)

    host = messages.text("smtp_server")
    if not host:
        if first := next((one for one in _SMTP if messages.is_set(one)), ""):
            shown = messages.spec.by_attribute[first].shown_name
            error(f"{shown} has no effect without an SMTP Server", first)
        return
    if not re.fullmatch(r"[A-Za-z0-9.:\-]+", host):
        error(f"{host!r} is not a host name or address", "smtp_server")
    sender = messages.text("mail_from")
    if not sender or not _ADDRESS.match(sender):
        error("an SMTP Server needs a Mail From, such as backup@example.org", "mail_from")
    if messages.number("smtp_port") > 65535:
        error("ports go from 1 to 65535", "smtp_port")
    if messages.is_set("smtp_user") != messages.is_set("smtp_password_file"):
        error("SMTP User and SMTP Password File go together", "smtp_user", "smtp_password_file")
    is_clear = messages.text("smtp_security") == "None"
    if messages.is_set("smtp_user") and is_clear:
        error("the password would be sent in clear text; use StartTLS or TLS", "smtp_security")
    elif is_clear and host not in _OWN_HOSTS:
        message = f"mail to {host} could be read on the way; use StartTLS or TLS, with a CA File"
        error(f"{message} for your own certificate", "smtp_security")
    for directive in messages.block.directives:
        kind = directive.spec.code
        if isinstance(directive.value, Destination) and (kind[:4] == "mail" or kind == "operator"):
            for address in directive.value.addresses:
                if not directive.value.command and not _ADDRESS.match(address):
                    text = f"{address!r} is not a mail address"
                    findings.at_directive(ERROR, "messages", text, directive)


def _check_notify(
    findings: Findings,
    messages: Resource,
    block: Resource,
    names: set[str],
    *,
    is_sandboxed: bool,
) -> None:
    title = f"Notify {block.name} of Messages {messages.name}" if block.name else "a Notify block"

    def error(message: str, *attributes: str) -> None:
        findings.error("messages", f"{title}: {message}", block, *attributes)

    if not block.name:
        error("it needs a Name")
    elif block.name in names:
        error("there is one of this name already", "name")
    names.add(block.name)
    kind = block.text("type").lower()
    if not kind:
        error("it needs a Type")
        return
    shown = {one: block.spec.by_attribute[one].shown_name for one in _PARTICULAR}
    for needed in NOTICE_NEEDS[kind]:
        given = [one for one in needed if block.is_set(one)]
        if len(given) != 1:
            choice = " or ".join(shown[one] for one in needed)
            more = ", not both" if given else ""
            error(f"Type {block.text('type')} needs {choice}{more}", *given)
    allowed = {*(one for needed in NOTICE_NEEDS[kind] for one in needed), *NOTICE_MAY.get(kind, ())}
    for attribute in _PARTICULAR:
        if block.is_set(attribute) and attribute not in allowed:
            error(f"{shown[attribute]} has no effect with Type {block.text('type')}", attribute)
    if kind == "mail" and not messages.text("smtp_server"):
        error("mail needs an SMTP Server in the Messages resource", "type")
    for address in block.texts("to"):
        if not _ADDRESS.match(address):
            error(f"{address!r} is not a mail address", "to")
    for fault in _url_faults(block.text("url"), with_token=block.is_set("token_file")):
        error(fault, "url")
    if command := block.text("command"):
        if fault := word_fault(command):
            error(fault, "command")
        elif is_sandboxed and (reason := _sandbox_fault(command)):
            findings.warning("messages", f"{title}: {reason}", block, "command")
    if block.is_set("digest_at") and day_minute(block.text("digest_at")) is None:
        error("Digest At takes a time of day such as 7:30", "digest_at")
    if block.is_set("maximum_per_hour") and not block.number("maximum_per_hour"):
        error("nothing would be sent: Maximum Per Hour is 0", "maximum_per_hour")
    _check_files(findings, block, ("url_file", "token_file", "ca_file"))


def _url_faults(url: str, *, with_token: bool) -> Iterator[str]:
    if not url:
        return
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        yield f"{url!r} is not an address: {error}"
        return
    if parts.scheme not in ("https", "http") or not host:
        yield f"{url!r} is not an address; write such as https://ntfy.example.org/backups"
    elif parts.username or parts.query:
        yield "an address with a secret in it is in a URL File, which others cannot read"
    elif parts.scheme == "http" and host not in _OWN_HOSTS:
        yield f"what is sent to {host} could be read in transit; use https" + (
            ", the token too" if with_token else ""
        )


def _check_files(findings: Findings, resource: Resource, attributes: tuple[str, ...]) -> None:
    for attribute in attributes:
        path = resource.text(attribute)
        if path and not path.startswith("/"):
            shown = resource.spec.by_attribute[attribute].shown_name
            message = f"{shown} takes an absolute path, not {path!r}"
            findings.error("messages", message, resource, attribute)
        elif fault := _hidden_fault(path):
            findings.warning("messages", fault, resource, attribute)
