"""What other programs take of the machine while something is measured."""

from __future__ import annotations

import subprocess
import sys

from strongroom.measure.testbed.other_work import OtherWork

BUSY = "import time\nwhile time.process_time() < {}: pass"


def spin(seconds: float) -> list[str]:
    return [sys.executable, "-c", BUSY.format(seconds)]


def test_what_a_waited_for_child_takes_is_no_other_work():
    before = OtherWork()
    stranger = subprocess.Popen(spin(60))
    try:
        # A child that has not ended counts as another program: this is what others look like.
        subprocess.run(spin(0.5), check=True)
        assert before.cores() > 0
    finally:
        stranger.kill()
        stranger.wait()


def test_others_are_never_less_than_nothing():
    work = OtherWork()
    subprocess.run(spin(0.2), check=True)
    assert work.cores() >= 0
