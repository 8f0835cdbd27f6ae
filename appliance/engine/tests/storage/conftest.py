"""A storage daemon of the test's own, in memory."""

from __future__ import annotations

from kit.memory_fixtures import tmp_path
from kit.storage_fixtures import appliance, daemon, make_daemon, open_as, site

__all__ = ["appliance", "daemon", "make_daemon", "open_as", "site", "tmp_path"]
