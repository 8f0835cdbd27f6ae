"""When people are notified that a certificate or token ends soon.

Certificates are renewed by their holders after two thirds of their life, and what lives only weeks
would always end soon: so the warning comes in the last quarter of a life at the earliest.
"""

from __future__ import annotations

from typing import Final

from strongroom.base.clock import SECOND_NS

# Unless the director's Expiry Warning says otherwise.
WARNING_SECONDS: Final = 14 * 86400
# Of an authority, whose end every machine feels: so long before at least.
AUTHORITY_WARNING_SECONDS: Final = 180 * 86400


def ends_soon(
    begun_ns: int, ends_ns: int, now_ns: int, warning_seconds: int = WARNING_SECONDS
) -> bool:
    """Whether what lives from `begun_ns` to `ends_ns` ends soon, or has ended."""
    warning_ns = min(warning_seconds * SECOND_NS, (ends_ns - begun_ns) // 4)
    return ends_ns - warning_ns <= now_ns
