"""Who may use the menu: before setup anyone who is at the machine, afterwards the administrator.

The password is compared by libcrypt, as login does it.
"""

from __future__ import annotations

import ctypes
import hmac
import time
from typing import TYPE_CHECKING, Final

from strongroom_appliance.console.fields import Field
from strongroom_appliance.machine import run_for_code
from strongroom_appliance.state import State
from strongroom_appliance.steps.admin import SUDO, password_hash_of

if TYPE_CHECKING:
    from strongroom_appliance.console.screen import Screen

_WAIT_SECONDS: Final = 3
_LIBRARY: Final = "libcrypt.so.1"


def administrators() -> list[str]:
    """Users who may use the menu: those with sudo."""
    found = [name for name in _names_in_sudoers() if password_hash_of(name).startswith("$")]
    return sorted(set(found))


def _names_in_sudoers() -> list[str]:
    try:
        with open(SUDO, encoding="utf-8") as file:
            return [line.split()[0] for line in file if line[:1].isalpha() or line[:1] == "_"]
    except (OSError, IndexError):
        return []


def is_open() -> bool:
    """Whether no one has to log in: this machine was not set up, and has no administrator."""
    return not State().known.is_ready and not _names_in_sudoers()


def log_in(screen: Screen) -> str | None:
    """Let an administrator log in; the name, None if that was given up."""
    names = administrators()
    if not names:
        lines = [
            "This machine has no administrator with a password, so its menu is closed.",
            "Log in by ssh and give the command:  sudo strongroom-appliance console",
        ]
        screen.text("Log in", lines)
        return None
    fault = ""
    while True:
        who = ", ".join(names)
        password = screen.ask(
            "Log in",
            [fault, f"Administrator: {who}"],
            Field("password", "Password", is_secret=True),
        )
        if password is None:
            return None
        for name in names:
            if is_password(password, password_hash_of(name)):
                return name
        time.sleep(_WAIT_SECONDS)
        fault = "That was not the password."


def is_password(password: str, password_hash: str) -> bool:
    """Whether a password is the one of a hash."""
    if not password_hash.startswith("$"):
        return False
    library = ctypes.CDLL(_LIBRARY)
    library.crypt.restype = ctypes.c_char_p
    library.crypt.argtypes = (ctypes.c_char_p, ctypes.c_char_p)
    found = library.crypt(password.encode("utf-8", "replace"), password_hash.encode())
    return found is not None and hmac.compare_digest(found, password_hash.encode())


def new_hash(password: str) -> str:
    """A hash for /etc/shadow."""
    code, output = run_for_code(["openssl", "passwd", "-6", "-stdin"], password.encode() + b"\n")
    return output.strip() if code == 0 else ""
