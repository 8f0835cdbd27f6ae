"""A program of the appliance that is killed at a moment: at a rename, or when it runs a program.

    python killed_at_moment.py NUMBER strongroom-appliance ARGUMENT...

A rename is two moments, one before and one after it. A program of the system is three: before,
while it runs (it is killed too, as by a power cut), and after it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from itertools import count
from typing import Any

_rename, _run = os.rename, subprocess.run
_moments = count(1)


def _is_now() -> bool:
    return next(_moments) == _last


def _end() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _renamed(*arguments: Any, **options: Any) -> None:
    if _is_now():
        _end()
    _rename(*arguments, **options)
    if _is_now():
        _end()


def _ran(words: Any, **options: Any) -> Any:
    if _is_now():
        _end()
    if _is_now():
        began = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)  # fmt: skip
        assert began.stdin is not None
        began.stdin.write(options.get("input") or b"")
        began.stdin.close()
        time.sleep(0.01)
        began.kill()
        _end()
    done = _run(words, **options)
    if _is_now():
        _end()
    return done


_last = int(sys.argv[1])
sys.argv = sys.argv[2:]
os.rename, subprocess.run = _renamed, _ran  # type: ignore[assignment]
from strongroom_appliance.program import main  # noqa: E402 - with what is put in its way

sys.exit(main())
