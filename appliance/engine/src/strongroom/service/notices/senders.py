"""How a letter gets to each kind of destination: mail, webhooks, chats, commands, pings."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec

from strongroom.base.errors import NoticeError
from strongroom.base.printable import printable
from strongroom.config.settings.messages import NotifySettings
from strongroom.service.notices.letter import Letter
from strongroom.service.notices.mail import send_mail
from strongroom.service.notices.secret_files import secret, secret_lines
from strongroom.service.notices.targets import NoticeTarget, PingTarget, ReportTarget
from strongroom.service.notices.web_requests import ask

_COMMAND_SECONDS: Final = 60
_SENDMAIL: Final = "/usr/sbin/sendmail"
_MOST_STANDARD_ERROR: Final = 300
# The most bytes of text that servers take: Slack 40,000 characters, Matrix 64 KiB an event, ntfy
# 4 KiB, and twice that as JSON.
_MOST_SLACK: Final = 30_000
_MOST_MATRIX: Final = 30_000
_MOST_NTFY: Final = 3_500
# Severity -> priority of ntfy, of Gotify.
_NTFY: Final = {"info": 2, "warning": 3, "error": 4}
_GOTIFY: Final = {"info": 2, "warning": 5, "error": 8}


def send_notice(target: NoticeTarget, letter: Letter) -> None:
    """Send to a Notify block. Raises NoticeError. Blocks."""
    notify = target.notify
    if notify.kind == "mail":
        if target.server is None:
            raise NoticeError("there is no SMTP Server")
        send_mail(target.server, target.address, letter)
    elif notify.kind == "command":
        run_with_text(
            shlex.split(notify.command),
            letter.text,
            {
                "STRONGROOM_SUBJECT": letter.subject,
                "STRONGROOM_SEVERITY": letter.severity,
                "STRONGROOM_INCIDENTS": " ".join(one["incident"] for one in letter.notices),
            },
        )
    else:
        url = secret(notify.url_file) if notify.url_file else notify.url
        token = secret(notify.token_file) if notify.token_file else ""
        _SENDERS[notify.kind](notify, url.rstrip("/"), token, letter)


def send_report(target: ReportTarget, letter: Letter, words: Sequence[str]) -> None:
    """Send the report of a run; words: of the Mail Command, where there is one."""
    if target.server is not None:
        for address in target.addresses:
            send_mail(target.server, address, letter)
        return
    text = letter.text
    if not words:
        words = [_SENDMAIL, "-oi", *target.addresses]
        head = f"Subject: {letter.subject}\nContent-Type: text/plain; charset=utf-8\n\n"
        text = head + text
    run_with_text(words, text, {})


def send_ping(target: PingTarget, phase: str) -> None:
    """Ask for the address of a phase: start, success or fail. Raises NoticeError."""
    url = ping_addresses(target.file).get(phase, "")
    if not url:
        return
    names = {"n": target.job, "c": target.client, "%": "%"}
    filled = re.sub("%([nc%])", lambda found: quote(names[found[1]], safe=""), url)
    ask("GET", filled, ca_file=target.ca_file)


def ping_addresses(path: str) -> dict[str, str]:
    """Phase -> address, from a Ping File. Raises NoticeError."""
    lines = secret_lines(path)
    if len(lines) == 1 and " " not in lines[0]:
        base = lines[0].rstrip("/")
        return {"start": f"{base}/start", "success": base, "fail": f"{base}/fail"}
    found: dict[str, str] = {}
    for line in lines:
        phase, _, address = line.partition(" ")
        if phase not in ("start", "success", "fail") or not address:
            shown = printable(path)
            raise NoticeError(f"{shown}: write `start ADDRESS`, `success ADDRESS`, `fail ADDRESS`")
        found[phase] = address.strip()
    return found


def program_of(command: str) -> str:
    """The program that a command runs. Raises NoticeError if there is none."""
    word = shlex.split(command)[0]
    found = shutil.which(word, path=os.defpath)
    if found is None:
        raise NoticeError(f"no program {printable(word)} that can be run")
    return found


def run_with_text(words: Sequence[str], text: str, variables: Mapping[str, str]) -> None:
    """Run a command with a text on its standard input. Raises NoticeError."""
    program = printable(os.path.basename(words[0]))
    try:
        ended = subprocess.run(
            list(words),
            input=text.encode("utf-8", "backslashreplace"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_COMMAND_SECONDS,
            check=False,
            start_new_session=True,
            env={"PATH": os.defpath, "LANG": "C.UTF-8", **variables},
        )
    except subprocess.TimeoutExpired as error:
        raise NoticeError(f"{program} took longer than {_COMMAND_SECONDS} s") from error
    except OSError as error:
        raise NoticeError(f"cannot run {program}: {error.strerror}") from error
    if ended.returncode:
        error_text = printable(ended.stderr[-_MOST_STANDARD_ERROR:].strip())
        raise NoticeError(f"{program} ended with code {ended.returncode}: {error_text}")


def _webhook(notify: NotifySettings, url: str, token: str, letter: Letter) -> None:
    body = {
        "id": letter.id,
        "director": letter.director,
        "subject": letter.subject,
        "severity": letter.severity,
        "text": letter.text,
        "notices": letter.notices,
    }
    _post(notify, url, body, _bearer(token))


def _slack(notify: NotifySettings, url: str, token: str, letter: Letter) -> None:
    text = f"{letter.subject}\n{letter.text}"
    for sign, instead in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(sign, instead)
    _post(notify, url, {"text": _bounded(text, _MOST_SLACK)})


def _matrix(notify: NotifySettings, url: str, token: str, letter: Letter) -> None:
    room = quote(notify.room, safe="")
    # The server does nothing when it gets the same transaction again.
    place = f"{url}/_matrix/client/v3/rooms/{room}/send/m.room.message/{letter.id}"
    text = _bounded(f"{letter.subject}\n{letter.text}", _MOST_MATRIX)
    # Without mentions: no name in the text calls anybody.
    body = {"msgtype": "m.text", "body": text, "m.mentions": {}}
    _post(notify, place, body, _bearer(token), method="PUT")


def _ntfy(notify: NotifySettings, url: str, token: str, letter: Letter) -> None:
    server, _, topic = url.rpartition("/")
    body = {
        "topic": topic,
        "title": letter.subject,
        "message": _bounded(letter.text, _MOST_NTFY),
        "priority": _NTFY[letter.severity],
    }
    _post(notify, f"{server}/", body, _bearer(token))


def _gotify(notify: NotifySettings, url: str, token: str, letter: Letter) -> None:
    body = {
        "title": letter.subject,
        "message": letter.text,
        "priority": _GOTIFY[letter.severity],
    }
    _post(notify, f"{url}/message", body, {"X-Gotify-Key": token})


_SENDERS: Final[dict[str, Callable[[NotifySettings, str, str, Letter], None]]] = {
    "webhook": _webhook,
    "slack": _slack,
    "matrix": _matrix,
    "ntfy": _ntfy,
    "gotify": _gotify,
}


def _bounded(text: str, most_bytes: int) -> str:
    """The lines of a text that fit, and that there are more."""
    if len(text.encode()) <= most_bytes:
        return text
    begin = text.encode()[:most_bytes].decode("utf-8", "ignore")
    return f"{begin.rpartition(chr(10))[0] or begin}\n... and more: strongroom notify list\n"


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}


def _post(
    notify: NotifySettings,
    url: str,
    body: dict[str, Any],
    headers: Mapping[str, str] | None = None,
    method: str = "POST",
) -> None:
    fields = {"Content-Type": "application/json", **(headers or {})}
    ask(method, url, msgspec.json.encode(body), fields, notify.ca_file)
