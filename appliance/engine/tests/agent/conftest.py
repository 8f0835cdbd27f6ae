from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.agent_site import AgentSite
from kit.memory_fixtures import tmp_path

__all__ = ["tmp_path"]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[AgentSite]:
    """A machine whose agent is not started yet."""
    made = AgentSite(tmp_path.resolve())
    try:
        yield made
    finally:
        made.close()
        # Shown where the test has failed.
        sys.stdout.write(made.messages.read_text() if made.messages.exists() else "no agent ran")


@pytest.fixture
def agent(site: AgentSite) -> AgentSite:
    """A machine whose agent is connected."""
    site.start_connected()
    return site
