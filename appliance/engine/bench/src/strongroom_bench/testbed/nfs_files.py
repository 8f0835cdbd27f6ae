"""A folder through the kernel's own NFS server and client, over a link that delays.

The client is in its own network namespace, at the other end of a pair of virtual network
devices on which netem delays every packet to the server. So all a mount costs is real but the
distance.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from strongroom.base import clock
from strongroom.base.errors import UsageError

# Addresses for measurements between networks: RFC 2544.
_SERVER: Final = "198.18.77.1"
_CLIENT: Final = "198.18.77.2"
_BITS: Final = 30
_PROGRAMS: Final = ("ip", "tc", "nsenter", "exportfs", "mount.nfs4")
_THREADS: Final = Path("/proc/fs/nfsd/threads")
_PACKETS: Final = 100_000
_MOUNT_SECONDS: Final = 60
_NEEDED: Final = (
    "NFS is measured as root, with the kernel's server running on this machine (`apt-get install "
    "nfs-kernel-server nfs-common iproute2`): "
)


@contextmanager
def nfs_mount(folder: Path, place: Path, milliseconds: float) -> Iterator[None]:
    """`folder` at `place`, a new folder, read-only by NFSv4.2, round trips of `milliseconds`.

    Raises UsageError where that is impossible.
    """
    require_nfs()
    namespace = f"strongroom-nfs-{os.getpid()}"
    device = f"srn{os.getpid()}"
    with ExitStack() as undo:
        place.mkdir()
        undo.callback(place.rmdir)
        _do("ip", "netns", "add", namespace)
        # The devices end with it.
        undo.callback(_try, "ip", "netns", "del", namespace)
        inside = ("nsenter", f"--net=/run/netns/{namespace}")
        _do("ip", "link", "add", device, "type", "veth", "peer", "name", "nfs", "netns", namespace)
        undo.callback(_try, "ip", "link", "del", device)
        _do("ip", "address", "add", f"{_SERVER}/{_BITS}", "dev", device)
        _do("ip", "link", "set", device, "up")
        _do(*inside, "ip", "address", "add", f"{_CLIENT}/{_BITS}", "dev", "nfs")
        _do(*inside, "ip", "link", "set", "nfs", "up")
        delay = ("delay", f"{milliseconds:g}ms", "limit", str(_PACKETS))
        _do(*inside, "tc", "qdisc", "add", "dev", "nfs", "root", "netem", *delay)
        export = f"{_CLIENT}:{folder}"
        # A name of its own, for file systems in memory have none.
        options = f"ro,no_root_squash,no_subtree_check,insecure,fsid={_name()}"
        _do("exportfs", "-o", options, export)
        undo.callback(_try, "exportfs", "-u", export)
        source = f"{_SERVER}:{folder}"
        _do(*inside, "mount", "-t", "nfs4", "-o", "ro,vers=4.2", source, str(place))
        undo.callback(_unmount, place)
        yield


def require_nfs() -> None:
    """Raise UsageError where no NFS can be mounted, with what is missing."""
    if os.geteuid():
        raise UsageError(f"{_NEEDED}this is not root")
    missing = [program for program in _PROGRAMS if shutil.which(program) is None]
    if missing:
        raise UsageError(f"{_NEEDED}{', '.join(missing)} is missing")
    try:
        threads = int(_THREADS.read_text())
    except (OSError, ValueError):
        threads = 0
    if not threads:
        raise UsageError(f"{_NEEDED}the server does not run (`systemctl start nfs-server`)")


def _name() -> str:
    return str(uuid.UUID(bytes=clock.random_bytes(16)))


def _unmount(place: Path) -> None:
    _try("umount", str(place))
    if os.path.ismount(place):
        _try("umount", "--lazy", str(place))


def _do(*command: str) -> None:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_MOUNT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"{_NEEDED}{' '.join(command)} did not end") from error
    if done.returncode:
        raise UsageError(f"{_NEEDED}{' '.join(command)} failed: {done.stdout.strip()}")


def _try(*command: str) -> None:
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
