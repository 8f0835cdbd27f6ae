"""`strongroom` that is killed at a rename: what is made durable becomes visible by one.

    python killed_at_rename.py NUMBER ARGUMENT...

Each rename is two moments, one before it and one after it. The process kills itself at the
NUMBERth moment, or ends as usual if there are fewer.
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import count
from typing import Any

from strongroom.cli.main import main

_real = os.rename
_moments = count(1)


def _renamed(*arguments: Any, **options: Any) -> None:
    _pass_moment()
    _real(*arguments, **options)
    _pass_moment()


def _pass_moment() -> None:
    if next(_moments) == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)


os.rename = _renamed
sys.exit(main(sys.argv[2:]))
