"""The administrator: a user with sudo, who logs in by ssh key."""

from __future__ import annotations

import os
import pwd
from typing import Final

from strongroom_appliance.machine import is_active, is_enabled, run
from strongroom_appliance.steps.context import Context

SUDO: Final = "/etc/sudoers.d/strongroom-admin"
_KEYS: Final = "/etc/ssh/strongroom-keys"
_SERVER: Final = "/etc/ssh/sshd_config.d/20-strongroom-admin.conf"


def set_admin(context: Context) -> None:
    """Make the user; give it keys, password and rights; run the ssh server if there is a key."""
    admin = context.answers.admin
    assert admin is not None
    machine = context.machine
    try:
        pwd.getpwnam(admin.name)
    except KeyError:
        run(["useradd", "--create-home", "--shell", "/bin/bash", "--user-group", admin.name])
        context.did(f"made the user {admin.name}")
    if admin.password_hash and password_hash_of(admin.name) != admin.password_hash:
        run(["chpasswd", "--encrypted"], f"{admin.name}:{admin.password_hash}\n".encode())
        context.did(f"set the password of {admin.name}")
    # Who has no password has proved with a key who they are.
    has_password = _is_usable(password_hash_of(admin.name))
    word = "" if has_password else "NOPASSWD: "
    text = f"# Written by Strongroom.\n{admin.name} ALL=(ALL:ALL) {word}ALL\n"
    if machine.write(SUDO, text, 0o440):
        context.did(f"let {admin.name} use sudo")
    _keys(context, admin.name, admin.ssh_keys)


def _keys(context: Context, name: str, keys: list[str]) -> None:
    """Keys are in a folder of root's, so that no program of the user's adds one forever."""
    machine = context.machine
    os.makedirs(_KEYS, 0o755, exist_ok=True)
    is_changed = machine.write(_SERVER, f"AuthorizedKeysFile .ssh/authorized_keys {_KEYS}/%u\n")
    for other in machine.names(_KEYS):
        if other != name and not other.startswith("."):
            machine.remove(f"{_KEYS}/{other}")
            context.did(f"removed the ssh keys of {other}")
    if not keys:
        machine.remove(f"{_KEYS}/{name}")
    elif machine.write(f"{_KEYS}/{name}", "".join(f"{key}\n" for key in keys)):
        context.did(f"let {len(keys)} ssh keys log in as {name}")
    if not machine.is_running:
        return
    is_on = is_active("ssh.service")
    if keys:
        if not is_enabled("ssh.service"):
            run(["systemctl", "enable", "--quiet", "ssh.service"])
            context.did("enabled the ssh server")
        if is_changed or not is_on:
            run(["systemctl", "restart", "--no-block", "ssh.service"])
    elif is_on:
        run(["systemctl", "disable", "--quiet", "--now", "ssh.service"])
        context.did("stopped the ssh server: no user has a key")


def password_hash_of(name: str) -> str:
    """What /etc/shadow has for a user; empty if there is none."""
    with open("/etc/shadow", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            words = line.rstrip("\n").split(":")
            if words[0] == name:
                return words[1]
    return ""


def _is_usable(password_hash: str) -> bool:
    return password_hash.startswith("$")
