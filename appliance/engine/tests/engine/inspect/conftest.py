"""A repository with two snapshots, made once for each module."""

from __future__ import annotations

import pytest

from kit.looking_site import Site, new_site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return new_site(tmp_path_factory.mktemp("site"))
