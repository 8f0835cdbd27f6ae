"""Does something in a forked process, which may be killed on the way, or be somebody else."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Final

from strongroom.base.errors import StrongroomError

NOBODY: Final = 65_534
_PR_SET_PDEATHSIG: Final = 1
# What `in_child` gives for one that was killed.
KILLED: Final = -9


def end_with_parent() -> None:
    """Have this process killed when the thread that forked it ends.

    pytest waits for the ends of pipes that a child has from a worker, even if that is gone.
    """
    if ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL):
        raise OSError("prctl refused the signal for the death of the parent")


def in_child(action: Callable[[], object], user: int | None = None) -> int:
    """The exit status of a child that does `action`: 0, the exit code of an error, or -9.

    It does so as `user` (with the group of the same number and no other), if one is given.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        status = 99
        try:
            # Whatever the parent has open is not ours to finish, nor to hold when it is gone.
            gc.disable()
            if user is not None:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
            # Another user forgets it.
            end_with_parent()
            action()
            status = 0
        except StrongroomError as error:
            status = error.exit_code
        except BaseException:  # noqa: BLE001 - the child ends here, whatever happened
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
