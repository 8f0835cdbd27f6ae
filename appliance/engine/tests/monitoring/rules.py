"""The alerts and recording rules as they are committed: their names, expressions and selectors."""

from __future__ import annotations

import re
from typing import Final

import yaml

from kit.project import ROLES

RULES: Final = ROLES / "monitoring" / "files" / "rules" / "strongroom.yml"
_SELECTOR: Final = re.compile(r"\b(?:(?:strongroom|node)_\w+|strongroom:[\w:]+|up)\b(?:\{[^}]*\})?")
_GROUPING: Final = re.compile(r"\b(?:on|by|ignoring|without) \([^)]*\)")


def expressions() -> dict[str, str]:
    """Name of an alert or of what is recorded -> what it evaluates."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {
        one.get("alert") or one["record"]: one["expr"] for group in groups for one in group["rules"]
    }


def selectors(expression: str) -> list[str]:
    """What it asks for: names of metrics with their matchers."""
    return _SELECTOR.findall(_GROUPING.sub("", expression))
