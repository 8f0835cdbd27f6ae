"""What a command printed with --json, as objects: one array of a list, else one a line."""

from __future__ import annotations

import json
from typing import Any


def objects_of(text: str | bytes) -> list[dict[str, Any]]:
    """The objects, in order."""
    stripped = text.strip()
    if stripped[:1] in ("[", b"["):
        return list(json.loads(stripped))
    return [json.loads(line) for line in stripped.splitlines()]
