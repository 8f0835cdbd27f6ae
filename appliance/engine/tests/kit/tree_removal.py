"""Remove a tree whatever it holds: immutable, append-only, unreadable, deeper than PATH_MAX."""

from __future__ import annotations

import os
import stat

from kit.directory_descriptors import (
    APPEND_ONLY,
    IMMUTABLE,
    get_flags,
    open_directory,
    open_inode,
    set_flags,
)


def _loosen(descriptor: int) -> None:
    """Take away the flags that forbid removal, where the file system has such flags."""
    try:
        flags = get_flags(descriptor)
        if flags & (IMMUTABLE | APPEND_ONLY):
            set_flags(descriptor, flags & ~(IMMUTABLE | APPEND_ONLY))
    except OSError:
        # No flags here; should they be the obstacle after all, the removal itself will fail.
        return


def _loosen_file(name: bytes, directory: int) -> None:
    with open_inode(name, directory) as descriptor:
        _loosen(descriptor)


def _empty(directory: int) -> list[bytes]:
    """Remove what is not a directory; the names of the subdirectories that are left."""
    _loosen(directory)
    if os.fstat(directory).st_mode & stat.S_IRWXU != stat.S_IRWXU:
        os.fchmod(directory, 0o700)
    left = []
    with os.scandir(directory) as entries:
        for entry in entries:
            name = os.fsencode(entry.name)
            if entry.is_dir(follow_symlinks=False):
                left.append(name)
                continue
            try:
                os.unlink(name, dir_fd=directory)
            except PermissionError:
                _loosen_file(name, directory)
                os.unlink(name, dir_fd=directory)
    return left


def _enter(name: bytes, parent: int) -> int:
    try:
        return open_directory(name, parent)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=parent)
        return open_directory(name, parent)


def remove_tree(root: bytes) -> None:
    """Remove the directory `root` and all below it; nothing happens when it is not there.

    Keeps one descriptor at a time and climbs by `..`, so depth costs neither stack nor
    descriptors. Raises OSError when something cannot be removed.
    """
    try:
        current = open_directory(root)
    except FileNotFoundError:
        return
    try:
        # One list for each directory on the way down; its last name is the one being emptied.
        levels = [_empty(current)]
        while True:
            if levels[-1]:
                below = _enter(levels[-1][-1], current)
                os.close(current)
                current = below
                levels.append(_empty(current))
                continue
            levels.pop()
            if not levels:
                break
            above = open_directory(b"..", current)
            os.close(current)
            current = above
            os.rmdir(levels[-1].pop(), dir_fd=current)
    finally:
        os.close(current)
    os.rmdir(root)
