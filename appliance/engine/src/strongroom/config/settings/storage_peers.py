"""`Operators` of a storage daemon: which operators may connect, and what for."""

from __future__ import annotations

from typing import Final

from strongroom.errors import UsageError

# In place of a name: whoever has a certificate of the role.
EVERYBODY: Final = "*all*"
OPERATOR_VERBS: Final = frozenset(("list", "read", "metrics"))


def parse_operator(text: str) -> tuple[str, frozenset[str]]:
    """The operator and its verbs, from such as `ann list read`. Raises UsageError."""
    name, *verbs = text.split()
    unknown = [verb for verb in verbs if verb not in OPERATOR_VERBS]
    if not verbs or unknown:
        what = f"says {unknown[0]!r}" if unknown else "names no verb"
        raise UsageError(
            f'Operators = "{text}" {what}; write the name and any of '
            f"{', '.join(sorted(OPERATOR_VERBS))}"
        )
    return name, frozenset(verbs)
