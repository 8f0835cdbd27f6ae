"""Forked workers: what ends them does not break off their cleaning up."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from kit.daemon_process import wait_for
from strongroom.jobs.workers.channel import channel_pair
from strongroom.jobs.workers.fork import await_workers, fork_worker, stop_workers

if TYPE_CHECKING:
    from pathlib import Path

    from strongroom.jobs.workers.channel import WorkerChannel


@pytest.mark.parametrize("end", [await_workers, stop_workers])
def test_a_worker_that_is_ended_cleans_up_to_the_last_step(tmp_path: Path, end) -> None:
    def work(channel: WorkerChannel[bytes]) -> None:
        try:
            (tmp_path / "ready").touch()
            channel.receive()
        finally:
            for number in range(10):
                time.sleep(0.01)
                (tmp_path / str(number)).touch()

    ours, theirs = channel_pair()
    pid = fork_worker(theirs, bytes, work, [ours])
    wait_for((tmp_path / "ready").exists, lambda: "the worker did not begin")
    end([pid], [ours])
    assert len(list(tmp_path.iterdir())) == 11
    assert ours.fileno() == -1
