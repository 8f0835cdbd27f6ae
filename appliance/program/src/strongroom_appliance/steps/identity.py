"""What makes this machine another than all that came from the same image: ids and host keys."""

from __future__ import annotations

import os
import re
import shutil
from typing import Final

from strongroom.net.identities.private_files import sync_folder
from strongroom_appliance.machine import Machine, run, run_for_code
from strongroom_appliance.steps.context import Context

_KINDS: Final = ("ed25519",)
_FOLDER: Final = "/etc/ssh"
_MACHINE_ID: Final = re.compile(r"[0-9a-f]{32}\n?")


def make_identity(context: Context) -> None:
    """Make machine-id and ssh host keys where they are missing or were not finished."""
    if not _MACHINE_ID.fullmatch(context.machine.read("/etc/machine-id") or ""):
        run(["systemd-machine-id-setup"])
        context.did("made a machine id")
    os.makedirs(_FOLDER, 0o755, exist_ok=True)
    for kind in _KINDS:
        _host_key(context, kind)


def _host_key(context: Context, kind: str) -> None:
    path = f"{_FOLDER}/ssh_host_{kind}_key"
    if os.path.exists(path) and run_for_code(["ssh-keygen", "-y", "-P", "", "-f", path])[0] == 0:
        if not os.path.exists(f"{path}.pub"):
            public = run(["ssh-keygen", "-y", "-P", "", "-f", path])
            context.machine.write(f"{path}.pub", public)
        return
    # Finished elsewhere and then moved: the key is there as a whole, or not at all.
    folder = f"{_FOLDER}/.strongroom-new"
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder, 0o700)
    made = f"{folder}/key"
    host = (context.machine.read("/etc/hostname") or "").strip() or "appliance"
    run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", f"root@{host}", "-f", made])
    for name in (made, f"{made}.pub"):
        _sync(name)
    os.rename(f"{made}.pub", f"{path}.pub")
    os.rename(made, path)
    sync_folder(os.fsencode(_FOLDER))
    shutil.rmtree(folder)
    context.did(f"made an ssh host key ({kind})")


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def host_key_fingerprints(machine: Machine) -> list[str]:
    """Fingerprints of the ssh host keys, as `ssh` shows them."""
    found = []
    for kind in _KINDS:
        path = machine.path(f"{_FOLDER}/ssh_host_{kind}_key.pub")
        if os.path.exists(path):
            code, output = run_for_code(["ssh-keygen", "-l", "-f", path])
            if code == 0 and len(output.split()) > 1:
                found.append(f"{kind} {output.split()[1]}")
    return found
