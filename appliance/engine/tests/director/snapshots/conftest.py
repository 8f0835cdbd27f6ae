"""A storage daemon in memory, for snapshots that agents stored at it."""

from __future__ import annotations

from kit.storage_fixtures import appliance, daemon, make_daemon, open_as, site

__all__ = ["appliance", "daemon", "make_daemon", "open_as", "site"]
