import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kit.director_fixtures import director, own_director
from kit.director_server import RunningDirector
from kit.json_output import objects_of
from kit.memory_fixtures import tmp_path
from kit.simulated_agent import SimulatedAgent
from strongroom.cli.main import main
from strongroom.director.catalog.database import open_catalog
from strongroom.director.catalog.snapshots import add_snapshots, load_snapshot
from strongroom.director.results.snapshots import Snapshot
from strongroom.engine.repository.snapshots import Snapshot as StoredSnapshot

__all__ = ["director", "own_director", "tmp_path"]


@dataclass
class Answer:
    """What a command gave: its exit code and what it wrote."""

    exit_code: int
    output: str
    messages: str

    @property
    def objects(self) -> list[dict[str, Any]]:
        return objects_of(self.output)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TZ", "UTC")
    for name in ("XDG_CONFIG_HOME", "STRONGROOM_DIRECTOR", "STRONGROOM_REPOSITORY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def command(
    director: RunningDirector, home: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Answer]:
    """Run `strongroom WORDS`, as admin unless told otherwise."""

    def run(
        *words: str, who: str = "admin", exit_code: int = 0, place: Sequence[str] | None = None
    ) -> Answer:
        if place is None:
            identity = director.identity(who).folder.decode()
            place = ["--director", director.url, "--identity", identity]
        found = main([*words, *place])
        written = capsys.readouterr()
        assert found == exit_code, (words, found, written.out, written.err)
        return Answer(found, written.out, written.err)

    return run


@pytest.fixture
def working_agent(
    director: RunningDirector,
) -> Iterator[Callable[[str, Callable[[SimulatedAgent], object]], SimulatedAgent]]:
    """An agent in a thread that does every run as `work` says, until the test ends."""
    stopping = contextlib.ExitStack()

    def start(name: str, work: Callable[[SimulatedAgent], object]) -> SimulatedAgent:
        agent = stopping.enter_context(SimulatedAgent(director, name))
        thread = threading.Thread(target=work, args=(agent,), daemon=True)
        thread.start()
        stopping.callback(thread.join, 30)
        return agent

    with stopping:
        yield start


@pytest.fixture
def copied(own_director: RunningDirector) -> tuple[StoredSnapshot, Snapshot]:
    """The newest snapshot of web1, and what the catalog says of its copy elsewhere."""
    original = own_director.snapshots[1]
    catalog = open_catalog(f"sqlite:///{own_director.folder}/state/main.sqlite")
    try:
        copy = dataclasses.replace(
            load_snapshot(catalog, original.id),
            id="c0" * 32,
            storage="offsite",
            original=original.id,
            server_ns=original.server_ns + 86400 * 10**9,
        )
        add_snapshots(catalog, [copy])
    finally:
        catalog.close()
    return original, copy
