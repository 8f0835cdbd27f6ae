"""A storage daemon in memory, for attackers who hold an agent's certificate and put key."""

from __future__ import annotations

from kit.storage_fixtures import appliance, daemon, make_daemon, open_as

__all__ = ["appliance", "daemon", "make_daemon", "open_as"]
