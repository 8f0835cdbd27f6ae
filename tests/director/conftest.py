"""A real director, which house.py starts with the engine's Python, and Ansible as somebody uses it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

HOUSE = Path(__file__).with_name("house.py")
PATIENCE_SECONDS = 600


class House:
    """The appliance in a folder; web1 and db1 are connected, web2 is unreachable."""

    def __init__(self, folder):
        self.folder = folder
        python = Path(shutil.which("strongroom")).resolve().with_name("python")
        environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
        with open(folder / "house.log", "wb") as log:
            self.process = subprocess.Popen(
                [python, HOUSE, folder],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        place = self._answer()
        self.url = place["url"]
        self.home = place["environment"]["HOME"]
        self.environment = place["environment"]
        self.identity = str(Path(self.home) / ".config/strongroom/admin")
        self.authority = f"{self.identity}/authority.pem"
        self.ca = str(folder / "state/ca")
        self.data = folder / "data"
        self.viewer_token = (folder / "token").read_text().strip()

    @property
    def credential(self):
        """Options with which a task may all."""
        return {"director": self.url, "identity": self.identity}

    @property
    def viewer(self):
        """Options with which a task may look at web1 only."""
        return {"director": self.url, "token": self.viewer_token, "authority": self.authority}

    def tell(self, action, name):
        """Start or stop an agent."""
        self.process.stdin.write(f"{action} {name}\n")
        self.process.stdin.flush()
        self._answer()

    def command(self, *words, given="", exit_code=0):
        """Give a command of the engine; the objects that it prints, as an array or a line each."""
        done = subprocess.run(
            ["strongroom", "--json", *words],
            env=self.environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == exit_code, (words, done.stdout, done.stderr)
        if done.stdout.startswith("["):
            return json.loads(done.stdout)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def join(self, name, token):
        """Let a machine join."""
        place = ["--config", f"{self.folder}/{name}/etc", "--state", f"{self.folder}/{name}/state"]
        words = ["agent", "join", self.url, "--token-file", "-", "--name", name, "--no-start", *place]
        return self.command(*words, given=token)

    def log(self):
        """What the house said on standard error."""
        return (self.folder / "house.log").read_text()[-5000:]

    def close(self):
        """End it."""
        self.process.stdin.close()
        self.process.wait(PATIENCE_SECONDS)

    def _answer(self):
        line = self.process.stdout.readline()
        assert line, self.log()
        return json.loads(line)


@pytest.fixture(scope="session")
def house(tmp_path_factory):
    """One for all tests of a process."""
    if shutil.which("strongroom") is None:
        pytest.fail("the engine's command is not in PATH; `make test-ansible` makes and adds it")
    found = House(tmp_path_factory.mktemp("house"))
    yield found
    found.close()


@pytest.fixture
def play(house, tmp_path):
    """Run a play of these tasks; what Ansible prints."""

    def run(tasks, *options, hosts="localhost,", exit_code=0, **variables):
        path = tmp_path / "play.yml"
        path.write_text(
            yaml.safe_dump([{"hosts": "all", "connection": "local", "gather_facts": False, "tasks": tasks}])
        )
        words = ["-i", hosts, "-e", f"ansible_python_interpreter={sys.executable}", *options, str(path)]
        return ansible("ansible-playbook", *words, house=house, exit_code=exit_code, folder=tmp_path, **variables)

    return run


def ansible(*words, house, folder, exit_code=0, **variables):
    """Give a command of Ansible, as the operator at home."""
    environment = {**os.environ, "HOME": house.home, "ANSIBLE_NOCOLOR": "1", **variables}
    environment.pop("XDG_CONFIG_HOME", None)
    done = subprocess.run(
        words,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == exit_code, (words, done.stdout, done.stderr)
    return done.stdout + done.stderr
