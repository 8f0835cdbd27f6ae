"""Starts further processes of this program.

`python -m` imports from the present folder first. Root often works in the folder of a user, whose
`copy.py` would then run as root. So every interpreter of ours is started without that folder on
its path (-P) and in a folder that only root can write to; the daemons go there themselves, for
processes that libraries start.
"""

from __future__ import annotations

import os
import sys
from typing import Final

# Where every process of ours runs that is not a command of a user.
SAFE_FOLDER: Final = "/"


def module_command(module: str, *words: str) -> list[str]:
    """The command that runs a module of ours; in SAFE_FOLDER, unless the words need ours."""
    return [sys.executable, "-P", "-m", module, *words]


def leave_present_folder() -> None:
    """Go to SAFE_FOLDER; relative paths that were given must be absolute by now."""
    os.chdir(SAFE_FOLDER)
