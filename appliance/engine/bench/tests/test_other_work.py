"""What other programs take of the machine while something is measured."""

from __future__ import annotations

import subprocess
import sys

from strongroom_bench.testbed.other_work import OtherWork

BUSY = "import time\nwhile time.process_time() < {}: pass"


def spin(seconds: float) -> list[str]:
    return [sys.executable, "-c", BUSY.format(seconds)]


def test_what_a_measured_program_takes_is_no_other_work_once_it_has_ended():
    work = OtherWork()
    program = subprocess.Popen(spin(60))
    try:
        # Until it is waited for, it looks like a program of others.
        subprocess.run(spin(0.5), check=True)
        before = work.cores()
    finally:
        program.kill()
        program.wait()
    assert 0 <= work.cores() < before


def test_others_are_never_less_than_nothing():
    work = OtherWork()
    subprocess.run(spin(0.2), check=True)
    assert work.cores() >= 0
