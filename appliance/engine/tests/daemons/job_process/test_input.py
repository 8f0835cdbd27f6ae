"""The process of a job, as the service manager starts it for a restore: a socket is its input."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import TYPE_CHECKING

from strongroom.daemons.agent.jobs.description import JobDescription
from strongroom.daemons.job_process.messages import (
    JobEnded,
    decode_from_job,
    encode_line,
)
from strongroom.filesets.spec import FileSetInclude, FileSetSpec
from strongroom.net.control.messages import StartEstimate

if TYPE_CHECKING:
    from pathlib import Path


def test_an_agent_that_hangs_up_when_it_has_heard_the_end_does_not_kill_the_job(tmp_path: Path):
    (tmp_path / "source").mkdir()
    include = FileSetInclude(files=(str(tmp_path / "source"),))
    description = JobDescription(
        start=StartEstimate(
            run_id="a" * 32, job="j", fileset=FileSetSpec(name="f", includes=(include,))
        ),
        client="web1",
        director="boss",
        identity_folder=str(tmp_path / "identity"),
        cache_folder=str(tmp_path / "cache"),
        lock_file=str(tmp_path / "lock"),
    )
    for _ in range(3):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", "strongroom.daemons.agent.jobs.job"],
                stdin=theirs,
                stdout=theirs,
            )
            theirs.close()
            ours.sendall(encode_line(description))
            with ours.makefile("rb") as lines:
                ended = next(
                    message
                    for message in map(decode_from_job, lines)
                    if isinstance(message, JobEnded)
                )
        assert ended.status == "done"
        assert process.wait(30) == 0
