"""Real mail and web servers on loopback, and a director in this process that tells them."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kit.agents_in_process import SimulatedAgent
from kit.connections import House
from kit.director_in_process import TestDirector, client, job
from kit.mail_server import MailServer
from kit.web_server import WebServer
from strongroom.base.errors import StrongroomError
from strongroom.director.results.runs import Run
from strongroom.net.identities.identity import Identity


# Certificates are judged by the machine's clock, so they are made before a test moves ours.
@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    return House(tmp_path_factory.mktemp("house"))


@pytest.fixture(scope="session")
def server_identity(house: House) -> Identity:
    """That of the mail and web servers."""
    return house.identity("mx", "storage", "localhost", "127.0.0.1")


@pytest.fixture
def ca_file(server_identity: Identity) -> str:
    return os.fsdecode(server_identity.folder) + "/authority.pem"


@pytest.fixture
def mail_server(server_identity: Identity) -> Iterator[MailServer]:
    with MailServer(server_identity, security="StartTLS", login=("ann", "word")) as server:
        yield server


@pytest.fixture
def web_server(server_identity: Identity) -> Iterator[WebServer]:
    with WebServer(server_identity) as server:
        yield server


@pytest.fixture
def secret_file(tmp_path: Path) -> Callable[..., str]:
    """Makes a file with a secret."""

    def make(text: str, mode: int = 0o400) -> str:
        path = tmp_path / f"secret{len(list(tmp_path.glob('secret*')))}"
        path.write_text(text + "\n")
        path.chmod(mode)
        return str(path)

    return make


NIGHTLY = "Schedule { Name = nights; Run = daily at 21:00; }\n"


@pytest.fixture
def told(
    director: TestDirector,
    mail_server: MailServer,
    web_server: WebServer,
    ca_file: str,
    secret_file: Callable[..., str],
) -> Told:
    """Configures a director that tells of its jobs by mail and webhook."""
    return Told(director, mail_server, web_server, ca_file, secret_file)


class Told:
    def __init__(
        self,
        director: TestDirector,
        mail_server: MailServer,
        web_server: WebServer,
        ca_file: str,
        secret_file: Callable[..., str],
    ) -> None:
        self.director, self.mail, self.web = director, mail_server, web_server
        self._ca_file, self._secret_file = ca_file, secret_file

    def configure(
        self, text: str = "", notify: str = "", messages: str = "", **settings: Any
    ) -> None:
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

    async def open(self, text: str = "", **settings: Any) -> None:
        """Configure the director, and open it."""
        self.configure(text, **settings)
        await self.director.open()

    async def with_agent(self, text: str = "", **settings: Any) -> SimulatedAgent:
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
def fail(director: TestDirector) -> Callable[..., Awaitable[Run]]:
    """A run of a job that its agent reports as failed."""

    async def fail(agent: SimulatedAgent, name: str = "nightly", **more: Any) -> Run:
        run = await director.start(name)
        await agent.start(run.id)
        director.time.pass_by(1)
        await director.end(agent, run.id, "failed", error_id="store", error="no space", **more)
        return run

    return fail
