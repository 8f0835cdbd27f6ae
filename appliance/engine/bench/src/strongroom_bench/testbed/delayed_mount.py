"""A folder shown by the file system of `delayed_files`, which runs as its own process.

So what uses this module need not have libfuse.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from strongroom.base.errors import UsageError
from strongroom.base.interpreter import module_command

_END_SECONDS: Final = 5.0
_MODULE: Final = "strongroom_bench.testbed.delayed_files"


@contextmanager
def delayed_mount(
    folder: Path, place: Path, milliseconds: float, disk_bytes_a_second: float = 0
) -> Iterator[None]:
    """`folder` at `place`, a new folder, as a file server or, with a rate, as a disk.

    Raises UsageError where that is impossible.
    """
    place.mkdir()
    words = [str(folder), str(place), str(milliseconds), str(disk_bytes_a_second)]
    command = module_command(_MODULE, *words)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            if process.stdout.readline() != "mounted\n":
                raise UsageError(
                    "no file system can be mounted here: this needs /dev/fuse and fusermount3 "
                    "(`apt-get install fuse3`)"
                )
            yield
        finally:
            subprocess.run(["fusermount3", "-u", "-z", str(place)], check=False)
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                # A container that was started meanwhile has the mount in its own namespace.
                process.kill()
    place.rmdir()
