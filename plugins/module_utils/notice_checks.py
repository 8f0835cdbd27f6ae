# Copyright (c) Strongroom contributors
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What is wrong with the mail server and the notices of an appliance, as the director would refuse it.

What each type of notice needs and may have is in meta/directives.yml, which is made from the engine's own table.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from ansible_collections.strongroom.backup.plugins.module_utils import forms

OWN_HOSTS = ("localhost", "127.0.0.1", "::1")
ADDRESS = re.compile(r"(?!=\?)[A-Za-z0-9!#$%&'*+/=?^_`{|}~.\-]+(?:@[A-Za-z0-9](?:[A-Za-z0-9.\-]*[A-Za-z0-9])?)?")
OF_MAIL_SERVER = ("SMTP Port", "SMTP Security", "SMTP User", "SMTP Password File", "Mail From")
FILES = ("SMTP Password File", "URL File", "Token File", "CA File")


class Directives:
    """Directives of a block by name, in any case and with any blanks."""

    def __init__(self, given):
        self._given = {_key(name): (name, value) for name, value in given.items()}

    def has(self, name):
        """Whether it is set, to anything but nothing."""
        return self.text(name) != ""

    def text(self, name):
        """Its value as a text; nothing where it is not set."""
        value = self._given.get(_key(name), ("", ""))[1]
        if isinstance(value, (list, tuple)):
            return ", ".join(map(str, value))
        return "" if value is None else str(value)

    def place(self, name):
        """Its place in the variable, as it is written there."""
        return "." + str(self._given[_key(name)][0]) if _key(name) in self._given else ""


def _key(name):
    return "".join(str(name).split()).lower()


def wrong_mail(given):
    """Triples of a place in strongroom_mail (empty: all of it), the value there and what is wrong."""
    mail = Directives(given)
    server = mail.text("SMTP Server")
    if not server:
        for name in OF_MAIL_SERVER:
            if mail.has(name):
                yield (mail.place(name), mail.text(name), "has no effect without an SMTP Server")
                return
        return
    if not re.fullmatch(r"[A-Za-z0-9.:-]+", server):
        yield mail.place("SMTP Server"), server, "is not a host name or address"
    sender = mail.text("Mail From")
    if not ADDRESS.fullmatch(sender):
        yield "", None, "needs a Mail From, such as backup@example.org"
    port = mail.text("SMTP Port")
    if port.isascii() and port.isdecimal() and int(port) > 65535:
        yield mail.place("SMTP Port"), port, "is not between 1 and 65535"
    if mail.has("SMTP User") != mail.has("SMTP Password File"):
        yield "", None, "needs both SMTP User and SMTP Password File, or neither"
    if mail.text("SMTP Security").lower() == "none":
        if mail.has("SMTP User"):
            yield (mail.place("SMTP Security"), "None", "would send the password in clear text; use StartTLS or TLS")
        elif server not in OWN_HOSTS:
            yield (mail.place("SMTP Security"), "None", "lets others read mail to %s; use StartTLS or TLS" % server)
    yield from _wrong_files(mail)


def wrong_notice(kind, given, table, has_mail_server):
    """The same of one notice. table: `Notify` of meta/directives.yml."""
    notice = Directives(given)
    needs, may = table["needs"][kind.lower()], table["may"].get(kind.lower(), ())
    for either in needs:
        count = sum(map(notice.has, either))
        if count != 1:
            yield ("", None, "of type %s needs %s%s" % (kind, " or ".join(either), ", not both" if count else ""))
    known = {name for either in table["needs"].values() for one in either for name in one}
    allowed = {name for either in needs for name in either}.union(may)
    for name in sorted(known.union(*table["may"].values()) - allowed):
        if notice.has(name):
            yield (notice.place(name), notice.text(name), "has no effect with type %s" % kind)
    if kind.lower() == "mail" and not has_mail_server:
        yield "", None, "of type Mail needs an SMTP Server in strongroom_mail"
    addresses = re.split(r"\s*,\s*", notice.text("To")) if kind.lower() == "mail" and notice.has("To") else ()
    for address in addresses:
        if not ADDRESS.fullmatch(address):
            yield notice.place("To"), address, "is not a mail address"
    if notice.has("URL"):
        problem = _wrong_url(notice.text("URL"))
        if problem:
            yield notice.place("URL"), notice.text("URL"), problem
    if notice.has("Digest At") and forms.clock(notice.text("Digest At")):
        yield (notice.place("Digest At"), notice.text("Digest At"), forms.clock(notice.text("Digest At")))
    if notice.text("Maximum Per Hour") == "0":
        yield notice.place("Maximum Per Hour"), "0", "would let nothing be sent"
    yield from _wrong_files(notice)


def _wrong_url(url):
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError:
        return "is not an address such as https://ntfy.example.org/backups"
    if parts.scheme not in ("https", "http") or not host:
        return "is not an address such as https://ntfy.example.org/backups"
    if parts.username or parts.query:
        return "has a secret in it; write it into a URL File, which others cannot read"
    if parts.scheme == "http" and host not in OWN_HOSTS:
        return "could be read in transit; use https"
    return ""


def _wrong_files(block):
    for name in FILES:
        path = block.text(name)
        if path and not path.startswith("/"):
            yield (block.place(name), path, "is not an absolute path: it does not begin with /")
