"""What ends soon, as conditions: certificates of the authority, and API tokens; see `expiries`.

What has ended stays wrong until it is replaced, revoked or withdrawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strongroom import clock
from strongroom.daemons.director.catalog.incidents import Condition
from strongroom.daemons.director.expiries import all_expiries
from strongroom.daemons.director.shown_text import shown_time

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

    from strongroom.daemons.director.context import DirectorContext

TOPICS: Final = ("certificate:", "token:")


def expiry_conditions(context: DirectorContext, zone: tzinfo) -> list[Condition]:
    """What ends soon or has ended. Blocks. Raises StrongroomError, OSError."""
    return list(_conditions(context, zone))


def _conditions(context: DirectorContext, zone: tzinfo) -> Iterator[Condition]:
    now_ns = clock.now_ns()
    for one in all_expiries(context):
        if not one.is_soon:
            continue
        has_ended = one.ends_ns <= now_ns
        if one.kind == "token":
            event, topic = "token-expiring", f"token:{one.id}"
        else:
            event = "certificate-expired" if has_ended else "certificate-expiring"
            topic = f"certificate:{one.kind}:{one.name}"
        yield Condition(
            event=event,
            topic=topic,
            title=f"{one.title} {'has ended' if has_ended else 'ends soon'}",
            detail=f"it ends {shown_time(one.ends_ns, zone)}",
            remedy=one.remedy,
            since_ns=now_ns,
            client=one.client,
        )
