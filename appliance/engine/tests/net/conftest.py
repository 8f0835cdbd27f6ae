from collections.abc import Callable
from pathlib import Path

import pytest

from kit.connections import House
from kit.memory_fixtures import tmp_path
from strongroom.base import clock

__all__ = ["tmp_path"]


@pytest.fixture(scope="session")
def shared_house(tmp_path_factory: pytest.TempPathFactory) -> House:
    """For tests that change nothing in it."""
    return House(tmp_path_factory.mktemp("house"))


@pytest.fixture
def house(tmp_path: Path) -> House:
    """One of the test's own."""
    return House(tmp_path)


@pytest.fixture
def wall_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Moves our wall clock: `wall_clock(days=3)` from now on."""
    real = clock.now_ns

    def move(days: float = 0, seconds: float = 0) -> None:
        offset_ns = int((days * 86400 + seconds) * 1e9)
        monkeypatch.setattr(clock, "now_ns", lambda: real() + offset_ns)

    return move
