"""`Quota Of` of a storage daemon: how much one agent may store."""

from __future__ import annotations

from strongroom.config.values.measures import size_bytes
from strongroom.errors import UsageError


def parse_quota(text: str) -> tuple[str, int]:
    """The agent and its bytes, from such as `web1 500 GB`. Raises UsageError."""
    name, _, size = text.partition(" ")
    quota_bytes = size_bytes(size.strip())
    if quota_bytes is None:
        raise UsageError(f'Quota Of = "{text}" has no size such as 500 GB')
    return name, quota_bytes
