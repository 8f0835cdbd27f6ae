"""The paper copy of the passphrase: as text in groups of four, with a check, and as a QR code."""

from __future__ import annotations

import hashlib
import io
import os
import socket
from typing import Final

import segno

from strongroom import clock
from strongroom.clock import utc_text
from strongroom.errors import UsageError
from strongroom.net.identities.private_files import read_bounded
from strongroom.printable import printable

PASSPHRASE_FILE: Final = "/var/lib/strongroom/director/passphrase"  # noqa: S105 - a path
_GROUP: Final = 4
_GROUPS_A_LINE: Final = 8
_BORDER: Final = 2


def passphrase_text() -> str:
    """The passphrase that this machine has. Raises UsageError."""
    try:
        data = read_bounded(os.fsencode(PASSPHRASE_FILE), 4096)
    except OSError as error:
        raise UsageError(
            f"{PASSPHRASE_FILE} cannot be read ({error.strerror}); set up backups first"
        ) from error
    return data.split(b"\n", 1)[0].decode("utf-8", "replace")


def check_of(passphrase: str) -> str:
    """Four characters that differ where a passphrase was copied wrongly, as a rule."""
    return hashlib.sha256(b"strongroom paper\0" + passphrase.encode()).hexdigest()[:4]


def paper_lines(passphrase: str) -> list[str]:
    """The whole page, at most 76 columns wide."""
    groups = [passphrase[at : at + _GROUP] for at in range(0, len(passphrase), _GROUP)]
    host, day = printable(socket.gethostname()), utc_text(clock.now_ns())[:10]
    count, check = len(passphrase), check_of(passphrase)
    return [
        f"Passphrase of the backups on {host}, {day}",
        "Whoever has it and the data disk can read every backup. Keep it in a safe.",
        "",
        *(
            "  " + "  ".join(groups[at : at + _GROUPS_A_LINE])
            for at in range(0, len(groups), _GROUPS_A_LINE)
        ),
        "",
        f"({count} characters, without the blanks between groups; check: {check})",
        "",
        *qr_lines(passphrase),
    ]


def recovery_lines(key: str) -> list[str]:
    """The page of a recovery key of the data disk."""
    groups = key.split("-")
    half = len(groups) // 2
    return [
        f"Recovery key of the data disk of {printable(socket.gethostname())}",
        "It unlocks the disk, as its passphrase does. Keep it in a safe, away from the machine.",
        "",
        f"  {'-'.join(groups[:half])}-",
        f"  {'-'.join(groups[half:])}",
        "",
        "(one line, with all its dashes)",
        "",
        *qr_lines(key),
    ]


def qr_lines(text: str) -> list[str]:
    """The QR code, two rows a line: light on a dark terminal."""
    code = segno.make(text, error="m", boost_error=False, micro=False)
    rows = [bytes(row) for row in code.matrix_iter(border=_BORDER)]
    if len(rows) % 2:
        rows.append(bytes(len(rows[0])))
    blocks = {(0, 0): "\u2588", (0, 1): "\u2580", (1, 0): "\u2584", (1, 1): " "}
    lines = []
    for upper, lower in zip(rows[::2], rows[1::2], strict=True):
        line = io.StringIO()
        for pair in zip(upper, lower, strict=True):
            line.write(blocks[pair])
        lines.append("  " + line.getvalue())
    return lines
