"""An appliance that `strongroom setup appliance` makes in a folder, and machines that join it.

    with MadeAppliance(folder) as appliance:
        appliance.start()
        appliance.join("web1", appliance.token("--names", "web*", "--uses", "3"))

All daemons are real processes on loopback, of anyone who runs the tests.
"""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path
from typing import Any, Self

from kit.daemon_process import DaemonProcess, wait_for
from kit.json_output import objects_of
from kit.ports import free_port
from kit.prepared_commands import run_for_text

ANSWERS = """
address = "{address}"
further_addresses = ["127.0.0.1"]
repository = "{folder}/repository"
director_port = {director_port}
storage_port = {storage_port}
operator_home = "{folder}/home"
configuration = "{folder}/etc"
state = "{folder}/state"
storage_socket = "{folder}/storage.sock"
director_user = ""
storage_user = ""
groups = ["servers", "databases"]
"""


class MadeAppliance:
    """See the module."""

    def __init__(self, folder: Path, address: str = "localhost") -> None:
        self.folder = folder
        self.address = address
        self.director_port, self.storage_port = free_port(), free_port()
        self.answers = folder / "answers.toml"
        self.write_answers()
        environment = self.environment
        self.storage = DaemonProcess("storage", folder / "etc", folder / "s.log", environment)
        self.director = DaemonProcess("director", folder / "etc", folder / "d.log", environment)
        self.agents: dict[str, DaemonProcess] = {}

    def write_answers(self, **changed: str) -> None:
        """Write the answer file; changed: answers as TOML, instead of or besides the usual."""
        text = ANSWERS.format(
            folder=self.folder,
            address=self.address,
            director_port=self.director_port,
            storage_port=self.storage_port,
        )
        lines = dict(line.split(" = ", 1) for line in text.strip().splitlines())
        lines |= changed
        self.answers.write_text("".join(f"{name} = {value}\n" for name, value in lines.items()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        running = [*self.agents.values(), self.director, self.storage]
        for daemon in running:
            if daemon.is_running:
                daemon.stop()
        for daemon in running:
            print(f"--- {daemon.kind}\n{daemon.log[-10_000:]}")

    @property
    def url(self) -> str:
        """Where the director is."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"https://{host}:{self.director_port}"

    @property
    def environment(self) -> dict[str, str]:
        """A user's environment, whose home is the operator's."""
        kept = {name: text for name, text in os.environ.items() if "STRONGROOM" not in name}
        for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
            kept.pop(name, None)
        home = str(self.folder / "home")
        return {**kept, "HOME": home, "LC_ALL": "C.UTF-8", "TZ": "UTC"}

    def command(
        self, *words: str, exit_code: int = 0, given: str = "", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Give a command."""
        answer = run_for_text(words, {**self.environment, **environment}, given=given)
        assert answer.returncode == exit_code, (words, answer.returncode, answer.stderr)
        return answer

    def told(self, *words: str, **options: Any) -> dict[str, Any]:
        """The last object that a command prints with --json."""
        return objects_of(self.command(*words, "--json", **options).stdout)[-1]

    def setup(self) -> dict[str, Any]:
        """Make the appliance, or make it what the answers say now."""
        return self.told("setup", "appliance", "--answers", str(self.answers), "--no-start")

    def start(self) -> None:
        """Make it, and start both daemons."""
        self.setup()
        self.storage.start()
        self._await(self.storage, self.storage_port)
        self.director.start()
        self._await(self.director, self.director_port)

    def token(self, *words: str) -> str:
        """Make an enrolment token; its text."""
        ca = str(self.folder / "state" / "ca")
        return str(self.told("ca", "token", *words, "--out", "-", "--ca", ca)["token"])

    def join(self, name: str, token: str, *words: str, **options: Any) -> dict[str, Any]:
        """Let a machine join; what the command tells."""
        return self.told(*self.join_words(name), *words, given=token, **options)

    def join_words(self, name: str) -> list[str]:
        """The command of a machine that joins, which reads the token."""
        place = ["--config", f"{self.folder}/{name}/etc", "--state", f"{self.folder}/{name}/state"]
        return [
            "agent",
            "join",
            self.url,
            "--token-file",
            "-",
            "--name",
            name,
            "--no-start",
            *place,
        ]

    def start_agent(self, name: str) -> DaemonProcess:
        """Start the agent of a machine that has joined, and wait until it is connected."""
        folder = self.folder / name
        agent = DaemonProcess("agent", folder / "etc", folder / "log", self.environment)
        self.agents[name] = agent
        agent.start()
        wait_for(lambda: self.told("clients", name)["connected"], lambda: agent.log)
        return agent

    def show(self, name: str) -> dict[str, Any]:
        """What the running agent tells of itself."""
        return self.told("agent", "show", "--effective", "--config", f"{self.folder}/{name}/etc")

    def _await(self, daemon: DaemonProcess, port: int) -> None:
        def listens() -> bool:
            assert daemon.is_running, daemon.log
            try:
                socket.create_connection((self.address, port)).close()
            except OSError:
                return False
            return True

        wait_for(listens, lambda: daemon.log)
