"""Mail and web requests: encrypted, the server verified, nothing secret told or logged."""

from __future__ import annotations

import dataclasses
import logging
import os
from ssl import SSLCertVerificationError

import msgspec
import pytest

from kit.mail_server import MailServer
from kit.web_server import WebServer
from strongroom.base.errors import NoticeError
from strongroom.config.settings.messages import MailServerSettings, NotifySettings
from strongroom.service.notices import mail as mail_module
from strongroom.service.notices.letter import Letter
from strongroom.service.notices.senders import send_notice, send_ping
from strongroom.service.notices.targets import NoticeTarget, PingTarget

LETTER = Letter(id="ab" * 16, director="dir", subject="[dir] error: x <&> é", text="what\n.\nend\n",
                severity="error")  # fmt: skip
NOTIFY = NotifySettings(
    name="n", kind="webhook", to=(), url="", url_file="", token_file="", room="", command="",
    ca_file="", events=frozenset(), tells_resolved=True, digest_minute=None, maximum_per_hour=9,
)  # fmt: skip


def notice(kind: str, **more) -> NoticeTarget:
    return NoticeTarget("M/n", dataclasses.replace(NOTIFY, kind=kind, **more))


def mail(server: MailServer, security: str, ca_file: str, password_file: str = "") -> NoticeTarget:
    user = "ann" if password_file else ""
    settings = MailServerSettings(
        "localhost", server.port, security, user, password_file, "b@example.org", ca_file
    )
    return NoticeTarget(
        "M/n", dataclasses.replace(NOTIFY, kind="mail"), "ann@example.org", settings
    )


@pytest.mark.parametrize("security", ["StartTLS", "TLS"])
def test_a_mail_goes_encrypted_with_a_login(server_identity, ca_file, secret_file, security):
    with MailServer(
        server_identity, security=security, login=("ann", "wörd".encode().hex())
    ) as server:
        secret = secret_file("wörd".encode().hex())
        send_notice(mail(server, security, ca_file, secret), LETTER)
    (got,) = server.mails
    assert (got["To"], got["From"]) == ("ann@example.org", "b@example.org")
    assert got["Subject"] == LETTER.subject
    assert got.get_content().replace("\r", "") == LETTER.text
    assert all(line.split(" ")[0].upper() in ("EHLO", "STARTTLS") for line in server.in_clear)


def test_a_server_of_this_machine_may_take_mail_in_clear():
    with MailServer() as server:
        send_notice(mail(server, "None", ""), LETTER)
    assert server.recipients == ["ann@example.org"]


@pytest.mark.parametrize("security", ["StartTLS", "TLS"])
def test_a_mail_server_that_is_not_certified_gets_nothing(server_identity, secret_file, security):
    with (
        MailServer(server_identity, security=security, login=("ann", "word")) as server,
        pytest.raises(NoticeError) as refused,
    ):
        # The system's authorities do not know ours.
        send_notice(mail(server, security, "", secret_file("word")), LETTER)
    assert isinstance(refused.value.__cause__, SSLCertVerificationError)
    assert (server.mails, server.logins) == ([], [])


def test_a_mail_server_of_another_name_gets_nothing(house, tmp_path, ca_file, secret_file):
    other = house.identity("other", "storage", "mail.example.org")
    with (
        MailServer(other, security="StartTLS", login=("ann", "word")) as server,
        pytest.raises(NoticeError) as refused,
    ):
        send_notice(mail(server, "StartTLS", ca_file, secret_file("word")), LETTER)
    assert isinstance(refused.value.__cause__, SSLCertVerificationError)
    assert server.logins == []


def test_without_starttls_nothing_is_said_in_clear(server_identity, ca_file, secret_file):
    with (
        MailServer(server_identity, security="None", login=("ann", "word")) as server,
        pytest.raises(NoticeError, match="STARTTLS"),
    ):
        send_notice(mail(server, "StartTLS", ca_file, secret_file("word")), LETTER)
    assert (server.logins, server.mails) == ([], [])
    assert not any("MAIL" in line.upper() for line in server.heard)


def test_a_refused_login_says_so_without_the_password(server_identity, ca_file, secret_file):
    with (
        MailServer(server_identity, security="TLS", login=("ann", "right")) as server,
        pytest.raises(NoticeError, match="535 wrong") as caught,
    ):
        send_notice(mail(server, "TLS", ca_file, secret_file("hunter2")), LETTER)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("mode", "words"), [(0o404, "anybody"), (0o402, "anybody"), (0o644, "anybody")]
)
def test_a_secret_that_others_may_read_is_not_used(
    server_identity, ca_file, secret_file, mode, words
):
    with (
        MailServer(server_identity, security="TLS", login=("ann", "word")) as server,
        pytest.raises(NoticeError, match=words),
    ):
        send_notice(mail(server, "TLS", ca_file, secret_file("word", mode)), LETTER)
    assert server.heard == []


def test_a_secret_is_a_file_with_a_line(ca_file, tmp_path, secret_file):
    (tmp_path / "empty").touch(0o400)
    for path, words in ((tmp_path, "no regular file|Is a directory"), (tmp_path / "no", "No such"),
                        (tmp_path / "empty", "no secret")):  # fmt: skip
        with pytest.raises(NoticeError, match=words):
            send_notice(notice("slack", url_file=str(path)), LETTER)


def test_each_kind_speaks_its_own_language(web_server, ca_file, secret_file):
    url, token = web_server.url, secret_file("tok")
    secret_url = secret_file(f"{url}/services/T0/B0/x")
    for target in (
        notice("webhook", url=f"{url}/in", token_file=token, ca_file=ca_file),
        notice("slack", url_file=secret_url, ca_file=ca_file),
        notice("matrix", url=url, token_file=token, room="!r:example.org", ca_file=ca_file),
        notice("ntfy", url=f"{url}/backups", token_file=token, ca_file=ca_file),
        notice("gotify", url=url, token_file=token, ca_file=ca_file),
    ):
        send_notice(target, LETTER)
    webhook, slack, matrix, ntfy, gotify = web_server.asked
    assert (webhook.method, webhook.path) == ("POST", "/in")
    assert webhook.headers["Authorization"] == "Bearer tok"
    assert webhook.json["subject"] == LETTER.subject
    assert slack.path == "/services/T0/B0/x"
    assert "&lt;&amp;&gt;" in slack.json["text"]
    room = "/_matrix/client/v3/rooms/%21r%3Aexample.org/send/m.room.message/"
    assert (matrix.method, matrix.path) == ("PUT", room + LETTER.id)
    assert matrix.json["msgtype"] == "m.text"
    assert (ntfy.path, ntfy.json["topic"], ntfy.json["priority"]) == ("/", "backups", 4)
    assert (gotify.path, gotify.headers["X-Gotify-Key"]) == ("/message", "tok")


def test_a_web_server_that_is_not_certified_gets_nothing(web_server, secret_file):
    with pytest.raises(NoticeError) as refused:
        send_notice(notice("webhook", url=web_server.url, token_file=secret_file("t")), LETTER)
    assert isinstance(refused.value.__cause__, SSLCertVerificationError)
    assert web_server.asked == []


def test_a_redirection_takes_no_token_elsewhere(server_identity, web_server, ca_file, secret_file):
    with WebServer(server_identity) as other:
        web_server.moved_to, web_server.answers = f"{other.url}/x", [307]
        target = notice("webhook", url=web_server.url, token_file=secret_file("t"), ca_file=ca_file)
        with pytest.raises(NoticeError, match="answered 307"):
            send_notice(target, LETTER)
        assert other.asked == []


def test_no_failure_tells_the_address_or_the_token(web_server, ca_file, secret_file, caplog):
    caplog.set_level(logging.DEBUG)
    url = secret_file(f"{web_server.url}/s3cret?key=s3cret")
    token = secret_file("s3cret")
    target = notice("webhook", url_file=url, token_file=token, ca_file=ca_file)
    said = []
    web_server.answers = [500]
    for prepare in (lambda: None, web_server.stop):
        prepare()
        with pytest.raises(NoticeError) as caught:
            send_notice(target, LETTER)
        said.append(str(caught.value))
    assert "answered 500" in said[0]
    assert "localhost" in said[1]
    assert "s3cret" not in " ".join(said) + caplog.text


def test_a_secret_address_has_to_be_encrypted(secret_file):
    target = notice("slack", url_file=secret_file("http://hooks.example.org/x"))
    with pytest.raises(NoticeError, match="https"):
        send_notice(target, LETTER)


def test_a_command_gets_the_text_and_what_it_is_about(tmp_path):
    out = tmp_path / "out"
    command = f"sh -c 'cat > {out}; echo \"$STRONGROOM_SEVERITY $STRONGROOM_SUBJECT\" >> {out}'"
    send_notice(notice("command", command=command), LETTER)
    assert out.read_text() == f"{LETTER.text}error {LETTER.subject}\n"
    with pytest.raises(NoticeError, match="3: oh"):
        send_notice(notice("command", command="sh -c 'echo oh >&2; exit 3'"), LETTER)
    with pytest.raises(NoticeError, match="nothing-there"):
        send_notice(notice("command", command="/nothing-there"), LETTER)


def test_pings_go_to_the_addresses_of_the_file(web_server, ca_file, secret_file):
    def ping(file: str, phase: str) -> None:
        send_ping(PingTarget("ping:j", "a job", "web1", file, ca_file), phase)

    base = secret_file(f"{web_server.url}/uuid/%n/%c")
    for phase in ("start", "success", "fail"):
        ping(base, phase)
    several = secret_file(f"success {web_server.url}/ok\nfail {web_server.url}/bad")
    for phase in ("start", "success", "fail"):
        ping(several, phase)
    assert [one.path for one in web_server.asked] == [
        "/uuid/a%20job/web1/start", "/uuid/a%20job/web1", "/uuid/a%20job/web1/fail", "/ok", "/bad",
    ]  # fmt: skip
    with pytest.raises(NoticeError, match="`start ADDRESS`"):
        ping(secret_file("sucess https://x.example/y\nfail https://x.example/z"), "fail")


@pytest.mark.parametrize(("kind", "most"), [("ntfy", 4096), ("matrix", 65536), ("slack", 40000)])
def test_a_long_text_is_shortened_to_what_the_server_takes(
    web_server, ca_file, secret_file, kind, most
):
    url = f"{web_server.url}/topic"
    place = {"url_file": secret_file(url)} if kind == "slack" else {"url": url}
    target = notice(kind, **place, token_file=secret_file("t"), room="!r:x", ca_file=ca_file)
    line = 'error: "é" & <x>\n'
    send_notice(target, msgspec.structs.replace(LETTER, text=line * 5000))
    (asked,) = web_server.asked
    text = asked.json["message" if kind == "ntfy" else "body" if kind == "matrix" else "text"]
    assert text.endswith("... and more: strongroom notify list\n")
    assert len(text.encode()) <= most
    # ntfy takes twice as much JSON, Matrix no more than its events.
    assert len(asked.body) <= most * (2 if kind != "matrix" else 1)


def test_a_name_in_a_text_calls_nobody_in_a_room(web_server, ca_file, secret_file):
    token = secret_file("t")
    target = notice("matrix", url=web_server.url, token_file=token, room="!r:x", ca_file=ca_file)
    send_notice(target, msgspec.structs.replace(LETTER, text="@room"))
    assert web_server.asked[0].json["m.mentions"] == {}


def test_a_file_that_is_no_file_costs_no_descriptor(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with pytest.raises(NoticeError):
            send_notice(notice("slack", url_file=str(tmp_path)), LETTER)
    assert len(os.listdir("/proc/self/fd")) < before + 10


def test_a_user_in_an_address_is_refused_and_not_told(secret_file):
    target = notice("webhook", url_file=secret_file("https://ann:s3cret@localhost/x"))
    with pytest.raises(NoticeError, match="Token File") as caught:
        send_notice(target, LETTER)
    assert "s3cret" not in str(caught.value)


def test_a_mail_server_that_greets_without_end_is_left(monkeypatch):
    monkeypatch.setattr(mail_module, "WHOLE_SECONDS", 0.5)
    with (
        MailServer(greets_slowly=True) as server,
        pytest.raises(NoticeError, match="localhost"),
    ):
        send_notice(mail(server, "None", ""), LETTER)


@pytest.mark.parametrize("address", ["a<", '"', "=?utf-8?q?a=0aBcc:x?=@x"])
def test_an_address_that_fits_no_mail_is_said(address):
    with MailServer() as server, pytest.raises(NoticeError, match="no mail"):
        send_notice(dataclasses.replace(mail(server, "None", ""), address=address), LETTER)
    assert server.heard == []


def test_a_text_arrives_as_it_is_and_as_seven_bits():
    text = "From here on\nAll is wéll\n.\n" + "x" * 3000 + "\n"
    with MailServer() as server:
        send_notice(mail(server, "None", ""), msgspec.structs.replace(LETTER, text=text))
    (got,) = server.mails
    assert got.get_content().replace("\r", "") == text
    assert got.as_bytes().isascii()
