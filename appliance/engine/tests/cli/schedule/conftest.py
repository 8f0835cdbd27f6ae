"""A machine with a repository, some files and a configuration of its schedule."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from kit.command import Command
from kit.memory_fixtures import tmp_path

__all__ = ["tmp_path"]

CONFIGURATION = """
Machine {{
  Name = web1
  Repository = "{repository}"
  Passphrase File = "{passphrase}"
  FileSet = everything
  Run = daily at 2:00
  Minimum Retention = 0; Keep Daily = 14
  Check Parts = 3
  {further}
}}
FileSet {{ Name = everything; Include {{ File = "{data}" }} }}
"""


@dataclass
class Machine:
    """`configuration` is its file; `command` runs strongroom on it."""

    command: Command
    configuration: Path
    data: Path
    state: Path

    def configure(self, further: str = "") -> None:
        """Write the configuration, with further directives of the Machine."""
        text = CONFIGURATION.format(
            repository=self.command.repository,
            passphrase=self.command.passphrase_file,
            data=self.data,
            further=further,
        )
        self.configuration.write_text(text)

    def schedule(self, *words: str, exit_code: int = 0) -> subprocess.CompletedProcess[str]:
        """`strongroom schedule WORDS --config ...`."""
        return self.command.run(
            *("schedule", *words, "--config", str(self.configuration)),
            exit_code=exit_code,
            STATE_DIRECTORY=str(self.state),
        )

    def units(self, *words: str) -> dict[str, str]:
        """The units that install writes, by name."""
        folder = self.command.folder / "units"
        self.schedule("install", "--into", str(folder), *words)
        return {path.name: path.read_text() for path in folder.iterdir()}

    def start_service(self, unit: str) -> subprocess.CompletedProcess[str]:
        """Run the command of a unit as it stands."""
        (line,) = (one for one in unit.splitlines() if one.startswith("ExecStart="))
        return subprocess.run(
            shlex.split(line.removeprefix("ExecStart=")),
            env={**self.command.environment, "STATE_DIRECTORY": str(self.state)},
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    command = Command(tmp_path)
    command.make_repository()
    made = Machine(command, tmp_path / "machine.conf", tmp_path / "data", tmp_path / "state")
    made.data.mkdir()
    (made.data / "file").write_text("content\n")
    made.configure()
    return made
