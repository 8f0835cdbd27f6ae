"""A year unattended: each fault is reported within a day, and no good snapshot is lost."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from kit.director_in_process import TestDirector
from kit.year_of_faults import FAULTS, NIGHTS, YearOfFaults
from strongroom.config.values.notice_events import CONDITIONS


async def lived(director: TestDirector, told, seed: int, nights: int = NIGHTS) -> None:
    year = YearOfFaults(director, told, seed)
    try:
        await year.open()
        await year.live(FAULTS, nights)
        await year.assert_whole()
    finally:
        await director.close()


def test_a_year_of_faults(director, told):
    """With no more quiet nights between the faults than each takes; others last the whole year."""
    asyncio.run(lived(director, told, 1, nights=0))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_another_year_of_faults(director, told, seed):
    asyncio.run(lived(director, told, seed))


def test_each_condition_is_raised_by_a_test():
    """By the year, or by one that says that it was told."""
    raised = {fault.event for fault in FAULTS}
    tests = Path(__file__).parents[2]
    says_told = re.compile(
        r'"([a-z-]+)", "open"|(?:await events\(\) == \{|== \[\()"([a-z-]+)"'
        r'|\("([a-z-]+)" in events\)'
    )
    for file in tests.rglob("test_*.py"):
        for found in says_told.finditer(file.read_text(encoding="utf-8")):
            raised.update(filter(None, found.groups()))
    assert set(CONDITIONS) - raised == set()
