"""Houses of daemons in folders in memory: these tests make many small objects durable."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.house_of_daemons import SQLITE, HouseOfDaemons
from kit.memory_folder import memory_folder


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def catalog(request: pytest.FixtureRequest) -> str:
    """What the Catalog resource of a house says."""
    if request.param == "sqlite":
        return SQLITE
    new: str = request.getfixturevalue("cluster").new_catalog()
    return new


@pytest.fixture(scope="session")
def first_house() -> Iterator[HouseOfDaemons]:
    """Made command by command as an operator does; others are copies of it.

    Tests that share it give their files other names than other tests do.
    """
    with memory_folder() as folder, HouseOfDaemons(folder, ("web1", "web2")) as house:
        yield house


@pytest.fixture
def new_house(first_house: HouseOfDaemons, folder: Path) -> Iterator[Callable[..., HouseOfDaemons]]:
    """Starts a house of one's own."""
    made: list[HouseOfDaemons] = []

    def make(*agents: str, **options: Any) -> HouseOfDaemons:
        house = HouseOfDaemons(folder, agents or ("web1",), like=first_house, **options)
        made.append(house)
        return house.__enter__()

    yield make
    for house in made:
        house.__exit__(None, None, None)
