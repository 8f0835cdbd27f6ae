"""One wheel, and one environment with it, for all tests of the installation."""

import pytest

from kit.fresh_installation import build_wheel, install


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def installed(wheel, tmp_path_factory):
    return install(wheel, tmp_path_factory.mktemp("installed") / "environment")


@pytest.fixture(scope="session")
def installed_director(wheel, tmp_path_factory):
    return install(wheel, tmp_path_factory.mktemp("director") / "environment", ["director"])
