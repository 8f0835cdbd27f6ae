"""`strongroom` where the operating system fails for files of one name.

    python failing_system.py FUNCTION NAME ARGUMENT...

os.FUNCTION raises EIO when it is called with NAME as the path.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import Any

from strongroom.cli.main import main


def _fail(function: str, wanted: bytes) -> None:
    real = getattr(os, function)

    def failing(path: Any, *arguments: Any, **options: Any) -> Any:
        if path == wanted:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return real(path, *arguments, **options)

    setattr(os, function, failing)


_fail(sys.argv[1], os.fsencode(sys.argv[2]))
sys.exit(main(sys.argv[3:]))
