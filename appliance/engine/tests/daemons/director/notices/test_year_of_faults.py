"""A year in which nobody looks: each fault is told within a day, and no good snapshot is lost."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kit.year_of_faults import FAULTS, YearOfFaults
from strongroom.config.values.notice_events import CONDITIONS

if TYPE_CHECKING:
    from kit.director_in_process import TestDirector


async def lived(director: TestDirector, told, seed: int) -> None:
    year = YearOfFaults(director, told, seed)
    try:
        await year.open()
        await year.live(FAULTS)
        await year.assert_whole()
    finally:
        await director.close()


def test_a_year_of_faults(director, told):
    asyncio.run(lived(director, told, 1))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_another_year_of_faults(director, told, seed):
    asyncio.run(lived(director, told, seed))


def test_each_condition_is_raised_by_a_test():
    """By the year, or by one that says that it was told."""
    raised = {fault.event for fault in FAULTS}
    tests = Path(__file__).parents[3]
    says_told = re.compile(r'"([a-z-]+)", "open"|(?:await events\(\) == \{|== \[\()"([a-z-]+)"')
    for file in tests.rglob("test_*.py"):
        for found in says_told.finditer(file.read_text(encoding="utf-8")):
            raised.update(filter(None, found.groups()))
    assert set(CONDITIONS) - raised == set()
