"""A machine without daemons notifies people by the senders that a director has."""

import pytest

from kit.mail_server import MailServer
from kit.web_server import WebServer
from strongroom.base.errors import (
    ConfigurationError,
    NoticeError,
    RepositoryNotFoundError,
    UnknownNameError,
)

MESSAGES = """
}}
Messages {{
  Name = house
  {smtp}
  {notify}
"""


@pytest.fixture
def hook():
    with WebServer() as server:
        yield server


def configured(machine, notify, smtp=""):
    # The configuration of the fixture closes the last resource.
    machine.configure(MESSAGES.format(smtp=smtp, notify=notify))


def webhook(hook, further=""):
    return f"Notify {{ Name = hook; Type = Webhook; URL = {hook.url}/in; {further} }}"


def fail(machine):
    machine.command.repository.rename(machine.command.folder / "elsewhere")
    machine.schedule("run", exit_code=RepositoryNotFoundError.exit_code)
    (machine.command.folder / "elsewhere").rename(machine.command.repository)
    return machine.schedule("notify", "--failed")


def told(hook):
    return [asked.json for asked in hook.asked]


def test_a_failure_is_told_again_and_its_end_once(machine, hook):
    configured(machine, webhook(hook))
    fail(machine)
    fail(machine)
    machine.schedule("run")
    machine.schedule("run")
    first, again, over = told(hook)
    assert first["subject"].startswith("[web1] error: the backup of web1 has failed")
    assert first["notices"][0]["event"] == "job-failed"
    assert again["subject"].startswith("[web1] still error: ")
    assert over["subject"].startswith("[web1] resolved: the backup of web1 has failed")
    assert len({one["notices"][0]["incident"] for one in (first, again, over)}) == 1


def test_mail_goes_to_each_address(machine):
    with MailServer() as server:
        configured(
            machine,
            'Notify { Name = ops; Type = Mail; To = ann@example.org, "bob@example.org" }',
            f"SMTP Server = 127.0.0.1; SMTP Port = {server.port}; SMTP Security = None\n"
            "  Mail From = backup@example.org",
        )
        fail(machine)
        assert [mail["To"] for mail in server.mails] == ["ann@example.org", "bob@example.org"]
        assert "has failed" in server.mails[0].get_content()


def test_rules_say_who_is_told_what(machine, hook):
    configured(
        machine,
        webhook(hook, "Events = job-incomplete; Resolved = no")
        + webhook(hook).replace("= hook", "= all"),
    )
    (machine.data / "unread").write_text("x")
    fail(machine)
    assert len(hook.asked) == 1
    machine.schedule("run")
    assert len(hook.asked) == 2


def test_the_unit_is_there_for_notify_blocks_alone(machine, hook):
    configured(machine, webhook(hook))
    units = machine.units()
    assert "OnFailure=strongroom-backup-failed.service" in units["strongroom-backup.service"]
    assert machine.start_service(units["strongroom-backup-failed.service"]).returncode == 0
    assert len(hook.asked) == 1


def test_a_destination_that_fails_ends_no_run(machine, hook):
    configured(machine, webhook(hook))
    fail(machine)
    hook.answers = [503]
    done = machine.schedule("run")
    assert "house/hook: localhost answered 503" in done.stderr
    # The next run tells it, and no further one.
    machine.schedule("run")
    machine.schedule("run")
    assert len(hook.asked) == 3


def test_notify_test_asks_each_destination(machine, hook):
    configured(machine, webhook(hook))
    words = ("notify", "test", "--config", str(machine.configuration))
    assert machine.command.run(*words).stdout == "house/hook: sent\n"
    assert told(hook)[0]["subject"] == "[web1] test"
    hook.answers = [500]
    done = machine.command.run(*words, "hook", exit_code=NoticeError.exit_code)
    assert "answered 500" in done.stdout
    machine.command.run(*words, "other", exit_code=UnknownNameError.exit_code)
    assert "house/hook" in machine.schedule("show").stdout


def test_what_is_wrong_with_a_block_is_an_error_with_its_place(machine):
    configured(machine, "Notify { Name = hook; Type = Webhook }")
    done = machine.schedule("show", exit_code=ConfigurationError.exit_code)
    assert "needs URL or URL File" in done.stderr
    configured(machine, "Notify { Name = ops; Type = Mail; To = ann@example.org }")
    done = machine.schedule("show", exit_code=ConfigurationError.exit_code)
    assert "mail needs an SMTP Server" in done.stderr
