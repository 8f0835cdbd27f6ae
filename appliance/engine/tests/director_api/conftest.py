import pytest

from kit.connections import House


@pytest.fixture(scope="session")
def house(tmp_path_factory):
    return House(tmp_path_factory.mktemp("house"))
