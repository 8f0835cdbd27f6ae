"""Files with passwords, tokens and secret addresses: who may read them is checked at every use."""

from __future__ import annotations

import os
import stat
from typing import Final

from strongroom.base.errors import NoticeError
from strongroom.base.printable import printable

_OTHERS: Final = 0o007
_LONGEST_BYTES: Final = 8192


def secret_lines(path: str) -> list[str]:
    """The lines of a file that only its owner and group can read; none is empty.

    Raises NoticeError, which never quotes the content.
    """
    shown = printable(path)
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise NoticeError(f"{shown} is not a regular file")
            if status.st_mode & _OTHERS:
                raise NoticeError(f"anybody on this machine may read or change {shown}: chmod 400")
            if status.st_uid not in (0, os.geteuid()):
                raise NoticeError(f"{shown} belongs to user {status.st_uid}: chown it")
            data = file.read(_LONGEST_BYTES)
    except OSError as error:
        raise NoticeError(f"cannot read {shown}: {error.strerror}") from error
    try:
        lines = [line.strip() for line in data.decode("ascii").splitlines()]
    except UnicodeDecodeError as error:
        raise NoticeError(f"{shown} holds more than ASCII characters") from error
    lines = [line for line in lines if line]
    if not lines or any(not line.isprintable() for line in lines):
        raise NoticeError(f"{shown} holds no secret: it is empty, or not text")
    return lines


def _open_at_once(path: str, flags: int) -> int:
    # A FIFO in its place would block forever.
    return os.open(path, flags | os.O_NONBLOCK)


def secret(path: str) -> str:
    """The first line of such a file. Raises NoticeError."""
    return secret_lines(path)[0]
