"""Of the mail server and the notices of an inventory, what the engine refuses is refused, and nothing else."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import yaml
from ansible_collections.strongroom.backup.plugins.module_utils.notice_checks import wrong_mail, wrong_notice

PROJECT = Path(__file__).resolve().parents[4]
TABLE = yaml.safe_load((PROJECT / "meta/directives.yml").read_text())["Notify"]
SERVER = {"SMTP Server": "mail.example.org", "Mail From": "backup@example.org"}
DIRECTOR = """
Director { Name = d; Dir Address = 127.0.0.1; Password = x; Messages = Standard }
Catalog { Name = c; DB Name = x; DB User = x }
Client { Name = c; Address = 127.0.0.1; Password = x }
Storage { Name = s; Address = 127.0.0.1; Password = x; Device = d; Media Type = File }
Pool { Name = p; Pool Type = Backup }
FileSet { Name = f; Include { File = /etc } }
Job { Name = j; Type = Backup; Level = Full; Client = c; FileSet = f; Storage = s; Pool = p; Messages = Standard }
Messages { Name = Standard; Console = all }
"""
MAIL = [
    {},
    SERVER,
    {"SMTP Server": ""},
    {"SMTP Server": "mail server", "Mail From": "a@b"},
    {"SMTP Server": "mail.example.org"},
    {"SMTP Server": "mail.example.org", "Mail From": "not an address"},
    {"Mail From": "a@b"},
    {"smtpport": 26, "Mail From": "a@b"},
    {**SERVER, "SMTP Port": 70000},
    {**SERVER, "smtp security": "none"},
    {**SERVER, "SMTP Server": "localhost", "SMTP Security": "None"},
    {**SERVER, "SMTP User": "u"},
    {**SERVER, "SMTP User": "u", "SMTP Password File": "/etc/x"},
    {**SERVER, "SMTP User": "u", "SMTP Password File": "x"},
    {**SERVER, "SMTP User": "u", "SMTP Password File": "/etc/x", "SMTP Security": "None"},
    {**SERVER, "CA File": "x"},
]
NOTICES = [
    {},
    {"To": "ann@example.org"},
    {"To": "root"},
    {"To": "no address"},
    {"To": "ann@example.org", "Digest At": "7:30"},
    {"To": "ann@example.org", "Digest At": "29:00"},
    {"To": "ann@example.org", "Digest At": "7"},
    {"To": "ann@example.org", "Maximum Per Hour": 0},
    {"To": "ann@example.org", "Maximum Per Hour": 6, "Resolved": "no"},
    {"URL": "https://ntfy.example.org/x"},
    {"URL": "http://ntfy.example.org/x"},
    {"URL": "http://localhost:8080/x"},
    {"URL": "http://localhost:x/x"},
    {"URL": "ftp://ntfy.example.org/x"},
    {"URL": "https://a:b@ntfy.example.org/x"},
    {"URL": "https://ntfy.example.org/x?token=y"},
    {"URL File": "/etc/strongroom/url"},
    {"URL File": "url"},
    {"URL": "https://ntfy.example.org/x", "URL File": "/etc/strongroom/url"},
    {"URL": "https://ntfy.example.org/x", "Token File": "/etc/strongroom/token"},
    {"URL": "https://ntfy.example.org/x", "Token File": "/etc/strongroom/token", "Room": "x"},
    {"URL File": "/etc/strongroom/url", "CA File": "/etc/ssl/ca.pem"},
    {"Command": "/usr/bin/true"},
]


def refused(folder, blocks):
    """Whether the engine refuses each block of a Messages resource."""
    path = folder / "strongroom-dir.conf"
    messages = [f"Messages {{ Name = m{number}; {block} }}" for number, block in enumerate(blocks)]
    path.write_text(DIRECTOR.strip() + "\n" + "\n".join(messages) + "\n")
    command = [shutil.which("strongroom"), "--json", "config", "check", "--component", "director", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    first = len(DIRECTOR.strip().splitlines()) + 1
    lines = {one["line"] for one in found if one["type"] == "finding" and one["severity"] == "error"}
    assert all(line >= first for line in lines), done.stdout
    return [first + number in lines for number in range(len(blocks))]


def written(directives):
    return "".join(f'{name} = "{value}"; ' if value != "" else "" for name, value in directives.items())


def test_of_mail_servers_it_refuses_what_the_engine_refuses(tmp_path):
    engine = refused(tmp_path, [written(one) for one in MAIL])
    assert [bool(list(wrong_mail(one))) for one in MAIL] == engine
    assert set(engine) == {True, False}


def test_of_notices_it_refuses_what_the_engine_refuses(tmp_path):
    asked = [(mail, kind, one) for mail in (SERVER, {}) for kind in sorted(TABLE["needs"]) for one in NOTICES]
    engine = refused(
        tmp_path, [f"{written(mail)} Notify {{ Name = n; Type = {kind}; {written(one)} }}" for mail, kind, one in asked]
    )
    ours = [bool(list(wrong_notice(kind, one, TABLE, bool(mail)))) for mail, kind, one in asked]
    assert [one for one, mine, its in zip(asked, ours, engine, strict=True) if mine != its] == []
    accepted = {kind for (_mail, kind, _one), is_refused in zip(asked, engine, strict=True) if not is_refused}
    assert accepted == set(TABLE["needs"])
