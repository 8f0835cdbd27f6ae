"""Forked children: what ends them does not break off their cleaning up."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kit.daemon_process import wait_for
from strongroom.engine.processes.channel import ChildChannel, channel_pair
from strongroom.engine.processes.fork import await_children, fork_child, stop_children


@pytest.mark.parametrize("end", [await_children, stop_children])
def test_a_child_that_is_ended_cleans_up_to_the_last_step(tmp_path: Path, end) -> None:
    def work(channel: ChildChannel[bytes]) -> None:
        try:
            (tmp_path / "ready").touch()
            channel.receive()
        finally:
            for number in range(10):
                time.sleep(0.01)
                (tmp_path / str(number)).touch()

    ours, theirs = channel_pair()
    pid = fork_child(theirs, bytes, work, [ours])
    wait_for((tmp_path / "ready").exists, lambda: "the child did not begin")
    end([pid], [ours])
    assert len(list(tmp_path.iterdir())) == 11
    assert ours.fileno() == -1
