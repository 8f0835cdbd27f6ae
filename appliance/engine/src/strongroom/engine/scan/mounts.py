"""Finds mounts of network file systems and of user-space daemons (FUSE).

Every system call there has the latency of a network or a daemon, so many of them should be in
flight at once; on a local file system that would only cost. The mounts themselves are not
accessed, so one that does not respond blocks nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

_FAR_TYPES: Final = frozenset(
    b"9p acfs afs beegfs ceph cifs coda davfs fuse gfs2 glusterfs gpfs lustre nfs nfs4 "
    b"ocfs2 orangefs panfs pvfs2 smb3 smbfs virtiofs".split()
)
_FAR_FAMILY: Final = b"fuse."
# Files there say that they are empty and give content when they are read: for some kinds that has
# its own effects, or no end.
_OF_KERNEL: Final = frozenset(
    b"binder binfmt_misc bpf cgroup cgroup2 debugfs nfsd proc resctrl rpc_pipefs securityfs "
    b"selinuxfs smackfs tracefs".split()
)
_ESCAPED: Final = re.compile(rb"\\([0-7]{3})")


def far_places(paths: Iterable[bytes], mountinfo: bytes | None = None) -> tuple[bytes, ...]:
    """Mount points of network and FUSE file systems above or below one of `paths`, sorted.

    Paths and mount points are relative to "/". `mountinfo`: text of that file of /proc, read here
    when None; without it the result is empty.
    """
    found = mounts_of(paths, mountinfo)
    return tuple(sorted(place for place, is_far in found.items() if is_far))


def mounts_of(paths: Iterable[bytes], mountinfo: bytes | None = None) -> dict[bytes, bool]:
    """Mount points above or below one of `paths`, and whether they are as of `far_places`."""
    types = _mounted_types(mountinfo)
    found = set()
    for path in paths:
        found.add(_holding(path, types))
        found.update(place for place in types if lies_below(place, (path,)))
    return {place: _is_far(types.get(place, b"")) for place in found}


def file_system_type(path: bytes) -> bytes:
    """The type of the file system that holds `path`, relative to "/"; b"" where it is not known.

    A mount point counts as what is mounted there.
    """
    types = _mounted_types(None)
    return types.get(_holding(path, types), b"")


def mount_points_of(paths: Iterable[bytes]) -> list[bytes]:
    """Where the file system is mounted that holds each path; b"" for the one of "/"."""
    types = _mounted_types(None)
    return [_holding(path, types) for path in paths]


def unsized_devices() -> dict[int, bytes | None]:
    """File systems whose files may hold more than the 0 bytes that they say, by their numbers.

    None: read them to their end. Else they are the kernel's own, which no one should read whole:
    where they are mounted.
    """
    found: dict[int, bytes | None] = {}
    for place, number, file_system in _mounts(None):
        if file_system in _OF_KERNEL:
            found.setdefault(number, place)
        elif file_system == b"fuse" or file_system.startswith(_FAR_FAMILY):
            found[number] = None
    return found


def lies_below(path: bytes, places: Sequence[bytes]) -> bool:
    """Whether `path` is one of the places or below one."""
    return any(not place or path == place or path.startswith(place + b"/") for place in places)


def _mounted_types(mountinfo: bytes | None) -> dict[bytes, bytes]:
    # A later mount at the same place hides the earlier one.
    return {place: file_system for place, _, file_system in _mounts(mountinfo)}


def _mounts(mountinfo: bytes | None) -> Iterator[tuple[bytes, int, bytes]]:
    """Mount point, device number and type of each mount."""
    if mountinfo is None:
        try:
            with open("/proc/self/mountinfo", "rb") as file:
                mountinfo = file.read()
        except OSError:
            return
    for line in mountinfo.splitlines():
        before, separator, after = line.partition(b" - ")
        fields = before.split(b" ")
        if separator and len(fields) > 4:
            major, _, minor = fields[2].partition(b":")
            number = os.makedev(int(major), int(minor))
            yield _unescaped(fields[4]).strip(b"/"), number, after.split(b" ")[0]


def _holding(path: bytes, places: Iterable[bytes]) -> bytes:
    return max((place for place in places if lies_below(path, (place,))), key=len, default=b"")


def _is_far(file_system: bytes) -> bool:
    return file_system in _FAR_TYPES or file_system.startswith(_FAR_FAMILY)


def _unescaped(text: bytes) -> bytes:
    return _ESCAPED.sub(lambda match: bytes([int(match[1], 8)]), text)
