"""Destinations of notices as settings: defaults, events, times of day."""

from __future__ import annotations

import re
import textwrap

import pytest

from kit.project import DOCUMENTS
from strongroom.base.errors import ConfigurationError
from strongroom.config.resolve import load
from strongroom.config.settings.configuration import DirectorConfiguration
from strongroom.config.settings.messages import day_minute
from strongroom.config.values.notice_events import EVENTS

BASE = """
Director { Name = dir; Password = x; Messages = m }
Catalog { Name = c; Db Name = c; Db User = x; Db Password = x }
Storage { Name = s; Address = s; Password = x; Device = d; Media Type = File }
Pool { Name = p; Pool Type = Backup }
FileSet { Name = f; Include { File = / } }
Client { Name = w; Address = w; Password = x }
Job { Name = j; Type = Backup; Client = w; FileSet = f; Storage = s; Pool = p; Messages = m }
"""


def messages(tmp_path, text):
    folder = tmp_path / "director.d" / "all"
    folder.mkdir(parents=True)
    (folder / "all.conf").write_text(BASE + text)
    component = load(str(tmp_path)).director
    assert component is not None
    return DirectorConfiguration.of(component).messages["m"]


def test_a_mail_server_has_the_port_of_its_security(tmp_path):
    found = messages(
        tmp_path,
        "Messages { Name = m; SMTP Server = mx; SMTP Security = tls; Mail From = a@b\n"
        "  CA File = /c\n"
        "  Notify { Name = n; Type = Mail; To = a@b, c@d } }",
    )
    server = found.mail_server
    assert server is not None
    assert (server.port, server.security, server.user) == (465, "TLS", "")
    (notify,) = found.notify
    assert (notify.kind, notify.to, notify.ca_file) == ("mail", ("a@b", "c@d"), "/c")
    assert notify.events == frozenset(EVENTS) - {"job-incomplete"}
    assert (notify.tells_resolved, notify.digest_minute, notify.maximum_per_hour) == (
        True,
        None,
        12,
    )


def test_events_are_chosen_in_their_order(tmp_path):
    found = messages(
        tmp_path,
        "Messages { Name = m; Notify { Name = n; Type = Slack; URL File = /u\n"
        "  Events = all, !Job-Late, disk-full; Resolved = no; Digest At = 7:05 } }",
    )
    (notify,) = found.notify
    assert notify.events == frozenset(EVENTS) - {"job-late"}
    assert (notify.tells_resolved, notify.digest_minute) == (False, 425)


def test_an_event_that_there_is_not_is_named_with_the_one_that_was_meant(tmp_path):
    with pytest.raises(ConfigurationError, match="event 'job-lat'"):
        messages(
            tmp_path,
            "Messages { Name = m; Notify { Name = n; Type = Slack; URL File = /u\n"
            "  Events = job-lat } }",
        )


@pytest.mark.parametrize(
    ("text", "minute"),
    [("7:30", 450), ("00:00", 0), ("23:59", 1439), ("24:00", None), ("7:5", None), ("7", None),
     ("", None), ("-1:00", None), ("7:30:00", None)],
)  # fmt: skip
def test_a_time_of_day_is_hours_and_minutes(text, minute):
    assert day_minute(text) == minute


def test_the_messages_of_the_guide_can_be_used(tmp_path):
    page = (DOCUMENTS / "guides/notices.md").read_text("utf-8")
    (block,) = re.findall(r"^    Messages \{\n.*?^    \}\n", page, re.MULTILINE | re.DOTALL)
    text = textwrap.dedent(block).replace("Name = Standard", "Name = m")
    found = messages(tmp_path, text)
    assert found.mail_server is not None
    assert found.notify
