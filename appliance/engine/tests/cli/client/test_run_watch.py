"""What a watched run shows are the counts of the run, wherever they go."""

from strongroom.base.progress import CountedProgress
from strongroom.cli.client.run_watch import RunCounts
from strongroom.cli.live_progress import ProgressRates, progress_text


def run_with(**counts):
    return {"files": 0, "bytes": 0, "stored_bytes": 0, "errors": 0, "message": "backup", **counts}


def test_a_run_that_its_agent_begins_anew_is_not_counted_twice():
    progress = CountedProgress("run")
    rates = ProgressRates(progress)
    counts = RunCounts()
    for size in (33 << 20, 0, 40 << 20, 95 << 20):
        counts.tell(run_with(files=size >> 20, bytes=size), progress)
        shown = rates.snapshot()
        assert (shown["files"], shown["bytes"]) == (size >> 20, size)
        assert shown["bytes_per_second"] >= 0


def test_what_the_last_backup_came_to_is_named_as_an_estimate():
    progress = CountedProgress("run")
    run = run_with(files=5, total_files=20, total_bytes=None, total_is_estimate=True)
    RunCounts().tell(run, progress)
    assert "25%, 5 of about 20 files" in progress_text(ProgressRates(progress).snapshot())
    RunCounts().tell({**run, "total_is_estimate": False}, progress)
    assert " of 20 files" in progress_text(ProgressRates(progress).snapshot())
