"""As the tests of the storage daemon have it: daemons in folders in memory."""

from __future__ import annotations

from storage_daemon.conftest import *  # noqa: F403 - pytest finds fixtures by their names here
