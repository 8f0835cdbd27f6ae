"""One wheel, and one environment with it, for all tests of the installation."""

from pathlib import Path

import pytest

from kit.fresh_installation import FreshInstallation, build_wheel, install


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> FreshInstallation:
    return install(wheel, tmp_path_factory.mktemp("installed") / "environment")


@pytest.fixture(scope="session")
def installed_director(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> FreshInstallation:
    return install(wheel, tmp_path_factory.mktemp("director") / "environment", ["director"])
