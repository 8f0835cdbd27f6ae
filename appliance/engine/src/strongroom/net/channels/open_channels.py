"""A daemon's open connections; those whose certificate is revoked meanwhile are closed.

A thread checks every two seconds, from the first channel on. `_lock` guards the set of channels,
which holds weak references.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable

from strongroom.net.channels.channel import Channel
from strongroom.net.identities.trust import Trust

_LOOK_EVERY_SECONDS = 2.0

_log = logging.getLogger(__name__)


class OpenChannels:
    """`current_trust`: the trust in force; it knows the revoked certificates."""

    def __init__(self, current_trust: Callable[[], Trust]) -> None:
        self._current_trust = current_trust
        self._lock = threading.Lock()
        self._channels: weakref.WeakSet[Channel] = weakref.WeakSet()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, channel: Channel) -> None:
        """Watch a channel from now on."""
        if not channel.peer.serial:
            return
        with self._lock:
            self._channels.add(channel)
            if self._thread is None and not self._stopped.is_set():
                self._thread = threading.Thread(
                    target=self._watch, name="revocation watch", daemon=True
                )
                self._thread.start()

    def shut_down_revoked(self) -> int:
        """Shut down the channels of revoked certificates; how many there were."""
        revocations = self._current_trust().revocations
        if revocations is None:
            return 0
        with self._lock:
            channels = list(self._channels)
        revoked = [channel for channel in channels if revocations.is_revoked(channel.peer)]
        for channel in revoked:
            _log.warning(
                "ending a connection of %s: its certificate %s was revoked",
                channel.peer,
                channel.peer.serial,
            )
            channel.shutdown()
            self.forget(channel)
        return len(revoked)

    def forget(self, channel: Channel) -> None:
        """Stop watching a channel."""
        with self._lock:
            self._channels.discard(channel)

    def stop(self) -> None:
        """End the thread."""
        with self._lock:
            self._stopped.set()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _watch(self) -> None:
        while not self._stopped.wait(_LOOK_EVERY_SECONDS):
            self.shut_down_revoked()
