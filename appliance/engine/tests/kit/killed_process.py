"""Does something in a forked process, which may be killed on the way, or be somebody else."""

from __future__ import annotations

import gc
import os
import sys
import traceback
from typing import TYPE_CHECKING, Final

from strongroom.errors import StrongroomError

if TYPE_CHECKING:
    from collections.abc import Callable


NOBODY: Final = 65_534
# What `in_child` gives for one that was killed.
KILLED: Final = -9


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
            # Whatever the parent has open is not ours to finish.
            gc.disable()
            if user is not None:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
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
