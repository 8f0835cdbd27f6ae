"""Read-ahead for a caller that lists small objects and then gets them one by one.

Index objects, snapshots and tombstones are read that way, and each would cost a round trip to the
daemon. So with one of them, those listed after it are requested at the same time.

For one thread at a time; its owner holds a lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strongroom.net.storage.protocol import FrameType, ObjectPart

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strongroom.net.storage.client import StorageAnswer, StorageClient
    from strongroom.stores.store import Kind, ObjectInfo

WINDOW_OBJECTS: Final = 16
# Of an index object sometimes only the beginning is needed.
HEAD_BYTES: Final = 64 << 10


class ReadAhead:
    """The beginnings of the objects of one listing."""

    def __init__(
        self,
        kind: Kind,
        listed: Sequence[ObjectInfo],
        is_cached: Callable[[str], bool],
    ) -> None:
        self._kind: Kind = kind
        wanted = [info for info in listed if not is_cached(info.name)]
        self._sizes = {info.name: info.size_bytes for info in wanted}
        self._names = [info.name for info in wanted]
        self._places = {name: place for place, name in enumerate(self._names)}
        self._asked = 0
        self._answers: dict[str, StorageAnswer] = {}
        self._latest: tuple[str, bytes] | None = None

    def size_of(self, name: str) -> int | None:
        """The size that was listed."""
        return self._sizes.get(name)

    def head(self, client: StorageClient, name: str) -> bytes | None:
        """The first HEAD_BYTES of an object or all of it; None when it was not listed.

        Raises the daemon's error for that object.
        """
        if self._latest is not None and self._latest[0] == name:
            return self._latest[1]
        place = self._places.get(name)
        if place is None:
            return None
        # A caller that goes back or jumps gets what is still in the window.
        while self._asked < min(place + WINDOW_OBJECTS, len(self._names)):
            next_name = self._names[self._asked]
            size = min(self._sizes[next_name], HEAD_BYTES)
            part = ObjectPart(self._kind, next_name, 0, size)
            if self._asked >= place:
                self._answers[next_name] = client.request(
                    FrameType.GET, part, limit_bytes=HEAD_BYTES
                )
            self._asked += 1
        answer = self._answers.pop(name, None)
        if answer is None:
            return None
        data = client.wait(answer).payload()
        self._latest = (name, data)
        return data
