"""Processes that measure together."""

import os
import time
from pathlib import Path

import pytest

from strongroom.base.errors import UsageError
from strongroom.cli.measure.together import rate_together


def processes_of_ours():
    """Processes whose parent is this one."""
    mine = os.getpid()
    found = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        if int(fields[1]) == mine:
            found.append(int(place.parent.name))
    return found


def test_rates_are_summed_and_nobody_begins_before_all_are_ready(tmp_path):
    def prepare():
        # The second is ready late.
        number = len(list(tmp_path.iterdir()))
        (tmp_path / f"{os.getpid()}").touch()
        time.sleep(0.2 * number)
        begun = []

        def step():
            if len(begun) == 1:
                (tmp_path / f"{os.getpid()}").write_text(str(time.monotonic()))
            begun.append(1)
            time.sleep(0.01)
            return 10

        return step

    rate = rate_together(prepare, 0.3, 2)
    starts = [float(path.read_text()) for path in tmp_path.iterdir()]
    assert len(starts) == 2
    # At most 10 units in 10 ms, twice.
    assert 0 < rate <= 2000
    assert processes_of_ours() == [] or os.getpid() not in processes_of_ours()


def test_what_a_process_fails_of_is_raised_and_the_others_end():
    before = set(processes_of_ours())

    def prepare():
        raise UsageError("no room")

    with pytest.raises(UsageError, match="no room"):
        rate_together(prepare, 60, 3)
    assert set(processes_of_ours()) <= before


def test_a_process_that_is_killed_is_told_of():
    def prepare():
        os._exit(9)

    with pytest.raises(UsageError, match="has ended"):
        rate_together(prepare, 60, 2)
