"""A store for what is shared with forked children."""

from __future__ import annotations

import os

from strongroom.engine.stores.store import Store


class OpenedStore:
    """A store that is opened again in the first use of a forked process.

    A child that used the connection of its parent would take its parent's answers.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._process = os.getpid()

    @property
    def store(self) -> Store:
        """The store of this process; its user closes it no earlier than the process ends."""
        if self._process != os.getpid():
            self._store = self._store.reopen()
            self._process = os.getpid()
        return self._store
