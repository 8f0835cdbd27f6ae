from pathlib import Path

import pytest


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """An empty folder."""
    folder = tmp_path.resolve() / "source"
    folder.mkdir()
    return folder
