"""The process of a job, as the service manager starts it for a restore: a socket is its input."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

from strongroom.agent.jobs.description import JobDescription
from strongroom.engine.filesets.spec import FileSetInclude, FileSetSpec
from strongroom.net.control.messages import RunEnded, StartEstimate
from strongroom.service.job_process.messages import decode_from_job, encode_line


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
                [sys.executable, "-m", "strongroom.agent.jobs.job"],
                stdin=theirs,
                stdout=theirs,
            )
            theirs.close()
            ours.sendall(encode_line(description))
            with ours.makefile("rb") as lines:
                ended = next(
                    message
                    for message in map(decode_from_job, lines)
                    if isinstance(message, RunEnded)
                )
        assert ended.status == "done"
        assert process.wait(30) == 0
