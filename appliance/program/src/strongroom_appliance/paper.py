"""The paper copy of the passphrase: as text in groups of four, with a check, and as a QR code."""

from __future__ import annotations

import hashlib
import os
import socket
from typing import Final

import segno

from strongroom.base import clock
from strongroom.base.clock import utc_text
from strongroom.base.errors import UsageError
from strongroom.base.printable import printable
from strongroom.net.identities.private_files import read_bounded

PASSPHRASE_FILE: Final = "/var/lib/strongroom/director/passphrase"  # noqa: S105 - a path
_GROUP: Final = 4
_GROUPS_A_LINE: Final = 8
_BORDER: Final = 2
_LIGHT: Final = "\u2588\u2588"
# Of the upper and the lower module.
_HALVES: Final = {(0, 0): "\u2588", (0, 1): "\u2580", (1, 0): "\u2584", (1, 1): " "}


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
    """The page but for the QR code, at most 76 columns wide."""
    groups = [passphrase[at : at + _GROUP] for at in range(0, len(passphrase), _GROUP)]
    host, day = printable(socket.gethostname()), utc_text(clock.now_ns())[:10]
    count, check = len(passphrase), check_of(passphrase)
    return [
        f"Passphrase of the backups on {host}, {day}",
        "Anyone who has it and the data disk can read every backup. Keep it in a safe.",
        "",
        *(
            "  " + "  ".join(groups[at : at + _GROUPS_A_LINE])
            for at in range(0, len(groups), _GROUPS_A_LINE)
        ),
        "",
        f"({count} characters, without the blanks between groups; check: {check})",
        "",
    ]


def recovery_lines(key: str) -> list[str]:
    """The page of a recovery key of the data disk, but for the QR code."""
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
    ]


def qr_lines(text: str, *, halves: bool = False) -> list[str]:
    """The QR code: two full blocks a module, light on a dark terminal.

    Every font has full blocks. halves: one half block a module, for terminals with few rows and a
    font that has these. It is as small as it can be, so that a screen shows the whole.
    """
    code = segno.make(text, error="l", micro=False)
    rows = [bytes(row) for row in code.matrix_iter(border=_BORDER)]
    if not halves:
        return ["  " + "".join("  " if dark else _LIGHT for dark in row) for row in rows]
    if len(rows) % 2:
        rows.append(bytes(len(rows[0])))
    return [
        "  " + "".join(_HALVES[pair] for pair in zip(upper, lower, strict=True))
        for upper, lower in zip(rows[::2], rows[1::2], strict=True)
    ]
