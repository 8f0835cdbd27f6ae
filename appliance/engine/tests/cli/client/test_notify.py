"""`strongroom notify`, and a whole director that tells real servers of a failed job."""

from __future__ import annotations

import os
import time

import pytest

from kit.director_server import CONFIGURATION, RunningDirector
from kit.mail_server import MailServer
from kit.simulated_agent import SimulatedAgent
from kit.web_server import WebServer
from strongroom.cli.main import main
from strongroom.net.control.messages import StartBackup


@pytest.fixture
def told(tmp_path, director):
    """A director with a mail server and a webhook; both are closed after the test."""
    with MailServer() as mail, WebServer() as web:
        messages = f"""Messages {{ Name = standard; SMTP Server = 127.0.0.1; SMTP Port = {mail.port}
          SMTP Security = None; Mail From = backup@example.org
          Notify {{ Name = mail; Type = Mail; To = ann@example.org }}
          Notify {{ Name = hook; Type = Webhook; URL = "{web.url}/in" }} }}"""
        text = CONFIGURATION.replace("Messages { Name = standard; Console = all }", messages)
        with RunningDirector(tmp_path, text, like=director) as running:
            running.mail, running.web = mail, web
            yield running


def place(director, who="admin"):
    folder = os.fsdecode(director.identity(who).folder)
    return ["--director", director.url, "--identity", folder]


def test_a_test_goes_to_each_destination_and_says_what_its_server_says(told, command):
    answer = command("notify", "test", place=place(told))
    assert sorted(answer.output.splitlines()) == ["standard/hook: sent", "standard/mail: sent"]
    assert told.mail.subjects() == ["[boss] test"]
    assert "operator admin" in told.mail.mails[0].get_content()
    told.web.answers = [503]
    answer = command("notify", "test", "hook", "--json", place=place(told), exit_code=68)
    (one,) = [found for found in answer.objects if found["type"] == "notice-test"]
    assert one["destination"] == "standard/hook"
    assert "answered 503" in one["error"]
    answer = command("notify", "test", "none", place=place(told), exit_code=60)
    assert "standard/hook, standard/mail" in answer.messages
    answer = command("notify", "list", place=place(told))
    assert answer.output == "everything is OK\n"


def test_a_test_takes_a_right_and_is_audited(told, command):
    answer = command("notify", "test", place=place(told, "ann"), exit_code=63)
    assert "`notify`" in answer.messages
    assert told.mail.mails == []
    command("notify", "test", "standard/mail", place=place(told))
    found = command("audit", "--json", place=place(told)).objects
    assert ("admin", "notify", "test standard/mail", "done") in {
        (one["who"], one["action"], one["object"], one["result"]) for one in found
    }


def test_a_failed_job_reaches_people_within_seconds(told, command):
    with SimulatedAgent(told, "web1") as agent:
        command("run", "nightly-web1", place=place(told))
        run_id = agent.expect(StartBackup).run_id
        agent.started(run_id)
        agent.ended(run_id, "failed", error="no space left", error_id="store")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not (told.mail.mails and told.web.asked):
            time.sleep(0.2)
    assert told.mail.subjects() == ["[boss] error: the job nightly-web1 of web1 failed"]
    (asked,) = told.web.asked
    assert [one["event"] for one in asked.json["notices"]] == ["job-failed"]
    answer = command("notify", "list", place=place(told))
    assert "job-failed" in answer.output
    assert f"strongroom log {run_id[:8]}" in answer.output
    # Who may see web1 and not db1 is shown this one; the command is what ann lacks.
    text = told.configuration.replace("estimate, token", "estimate, token, notify")
    told.configure(text)
    command("reload", place=place(told))
    shown = command("notify", "list", "--json", place=place(told, "ann")).objects
    assert [one["client"] for one in shown] == ["web1"]
    told.configure(text.replace('Client ACL = "web.*"', "Client ACL = db1"))
    command("reload", place=place(told))
    assert command("notify", "list", "--json", place=place(told, "ann")).objects == []


def test_a_check_before_the_start_names_secrets_that_cannot_be_used(told, tmp_path, capsys):
    secret = tmp_path / "address"
    secret.write_text("https://hooks.example.org/x\n")
    secret.chmod(0o644)
    chat = f'Notify {{ Name = chat; Type = Slack; URL File = "{secret}" }}\n          '
    block = f"{chat}Notify {{ Name = tell; Type = Command; Command = /nothing/tell }}\n Notify"
    told.configure(told.configuration.replace("Notify", block, 1))
    words = ["director", "--check", "--config", str(told.configuration_file)]
    assert main(words) == 68
    said = capsys.readouterr().err
    assert "URL File of Notify chat" in said
    assert f"{secret}: chmod 400" in said
    assert "Command of Notify tell: no program /nothing/tell" in said
    secret.chmod(0o400)
    main(words)
    assert "URL File" not in capsys.readouterr().err
