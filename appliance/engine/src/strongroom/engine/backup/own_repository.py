"""Recognise the folder of the repository that a backup writes to: it grows meanwhile."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, NamedTuple, Self

from strongroom.engine.repository.repository import Repository
from strongroom.engine.rows.rows import INODE
from strongroom.engine.scan.directory import fitting_columns

_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MOST_CONFIG_BYTES: Final = 1 << 16
_MOST_NAMES: Final = 64


class OwnRepository(NamedTuple):
    """place: device and inode of its folder, None where a daemon serves it, perhaps from here."""

    place: tuple[int, int] | None
    id: bytes

    @classmethod
    def of(cls, repository: Repository) -> Self:
        """That of a backup."""
        location = repository.store.location
        place = None
        if location.startswith("/"):
            try:
                status = os.stat(location)
                place = (status.st_dev, fitting_columns(status)[INODE])
            except OSError:
                place = None
        return cls(place, repository.config.id.encode())

    def is_at(self, fd: int, names: Sequence[bytes]) -> bool:
        """Whether it is the directory `fd`, which holds `names`."""
        if self.place is not None:
            status = os.fstat(fd)
            return (status.st_dev, fitting_columns(status)[INODE]) == self.place
        if len(names) > _MOST_NAMES or b"config" not in names or b"packs" not in names:
            return False
        try:
            config = os.open(b"config", _OPEN, dir_fd=fd)
        except OSError:
            return False
        try:
            return self.id in os.read(config, _MOST_CONFIG_BYTES)
        except OSError:
            return False
        finally:
            os.close(config)
