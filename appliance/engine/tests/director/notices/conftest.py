"""Real mail and web servers on loopback, and a director in this process that tells them."""

from __future__ import annotations

import os
from contextlib import suppress

import pytest

from kit.connections import House
from kit.director_in_process import client, job
from kit.mail_server import MailServer
from kit.web_server import WebServer
from strongroom.base.errors import StrongroomError


# Certificates are judged by the machine's clock, so they are made before a test moves ours.
@pytest.fixture(scope="session")
def house(tmp_path_factory):
    made = House(tmp_path_factory.mktemp("house"))
    made.server = made.identity("mx", "storage", "localhost", "127.0.0.1")
    return made


@pytest.fixture
def ca_file(house):
    return os.fsdecode(house.server.folder) + "/authority.pem"


@pytest.fixture
def mail_server(house):
    with MailServer(house.server, security="StartTLS", login=("ann", "word")) as server:
        yield server


@pytest.fixture
def web_server(house):
    with WebServer(house.server) as server:
        yield server


@pytest.fixture
def secret_file(tmp_path):
    """Makes a file with a secret."""

    def make(text: str, mode: int = 0o400) -> str:
        path = tmp_path / f"secret{len(list(tmp_path.glob('secret*')))}"
        path.write_text(text + "\n")
        path.chmod(mode)
        return str(path)

    return make


NIGHTLY = "Schedule { Name = nights; Run = daily at 21:00; }\n"


@pytest.fixture
def told(director, mail_server, web_server, ca_file, secret_file):
    """Configures a director that tells of its jobs by mail and webhook."""
    return Told(director, mail_server, web_server, ca_file, secret_file)


class Told:
    def __init__(self, director, mail_server, web_server, ca_file, secret_file) -> None:
        self.director, self.mail, self.web = director, mail_server, web_server
        self._ca_file, self._secret_file = ca_file, secret_file

    def configure(self, text: str = "", notify: str = "", messages: str = "", **settings) -> None:
        """One job `nightly` of web1, told to one mail address and one webhook."""
        password = self._secret_file("word")
        block = f"""Messages {{ Name = People; CA File = "{self._ca_file}"
          SMTP Server = localhost; SMTP Port = {self.mail.port}; SMTP User = ann
          SMTP Password File = "{password}"; Mail From = backup@example.org
          {messages}
          Notify {{ Name = mail; Type = Mail; To = ann@example.org; {notify} }}
          Notify {{ Name = hook; Type = Webhook; URL = "{self.web.url}/in"; {notify} }}
        }}\n"""
        self.director.configure(
            block + NIGHTLY + client("web1") + (text or job("nightly", more="Schedule = nights")),
            **settings,
        )
        file = self.director.folder / "etc/director.d/all/all.conf"
        text = file.read_text().replace("Messages = Standard", "Messages = People")
        file.write_text(text)

    async def open(self, text: str = "", **settings) -> None:
        """Configure the director, and open it."""
        self.configure(text, **settings)
        await self.director.open()

    async def with_agent(self, text: str = "", **settings):
        """The same with the agent of web1 connected."""
        await self.open(text, **settings)
        return await self.director.agent("web1")

    async def look(self, seconds: float = 60.0) -> None:
        """Time goes by, and the director looks and sends."""
        await self.director.go(seconds)
        await self.director.service.notices.look()
        await self.send()

    async def look_if_it_can(self) -> None:
        """Time goes by and the director looks, whatever else it cannot do."""
        self.director.time.pass_by(60)
        with suppress(StrongroomError):
            await self.director.service.scheduler.tick()
        await self.director.service.notices.look()

    async def send(self, seconds: float = 11.0) -> None:
        self.director.time.pass_by(seconds)
        await self.director.service.notices.deliver()

    def events(self) -> list[tuple[str, str]]:
        """Event and state of each incident that the webhook was notified, but for reminders."""
        return [
            (one["event"], one["state"])
            for asked in self.web.asked
            for one in asked.json["notices"]
            if not one["reminder"]
        ]

    def titles(self) -> list[str]:
        """What the webhook was notified, in words, but for reminders."""
        return [
            one["title"]
            for asked in self.web.asked
            for one in asked.json["notices"]
            if not one["reminder"]
        ]

    def mailed(self) -> list[str]:
        """The subjects of the mails, without the name of the director."""
        return [one.partition("] ")[2] for one in self.mail.subjects()]


@pytest.fixture
def fail(director):
    """A run of a job that its agent reports as failed."""

    async def fail(agent, name="nightly", **more):
        run = await director.start(name)
        await agent.start(run.id)
        director.time.pass_by(1)
        await director.end(agent, run.id, "failed", error_id="store", error="no space", **more)
        return run

    return fail
