"""What ends soon: certificates that the authority of this director issued, and API tokens.

Certificates of daemons are renewed by their holders after two thirds of their life, and a token or
certificate of a few weeks would always end soon: so the warning comes in the last quarter of a
life at the earliest. Only the newest certificate of a name and role counts, and the newest token.
What has ended stays wrong until it is replaced, revoked or withdrawn.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from strongroom import clock
from strongroom.clock import SECOND_NS
from strongroom.daemons.director.catalog.access import list_tokens
from strongroom.daemons.director.catalog.incidents import Condition
from strongroom.daemons.director.notices.letters import shown_time
from strongroom.net.identities.authority import Authority
from strongroom.net.identities.trust import roots_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime, tzinfo

    from strongroom.daemons.director.context import DirectorContext

TOPICS: Final = ("certificate:", "token:")
# In place of the role: every certificate ends with this one.
_ROOT: Final = "the authority"
_SHORTEST_LIFE_NS: Final = 2 * 86400 * SECOND_NS


def expiry_conditions(context: DirectorContext, zone: tzinfo) -> list[Condition]:
    """What ends soon or has ended. Blocks. Raises StrongroomError, OSError."""
    return [*_certificates(context, zone), *_tokens(context, zone)]


def _certificates(context: DirectorContext, zone: tzinfo) -> Iterator[Condition]:
    settings = context.configuration.director
    now_ns = clock.now_ns()
    newest: dict[tuple[str, str], tuple[int, int]] = {}
    if settings.authority_folder:
        authority = Authority(os.fsencode(settings.authority_folder))
        root = roots_of(authority.certificate_pem)[0]
        newest[_ROOT, ""] = (_ns(root.not_valid_before_utc), _ns(root.not_valid_after_utc))
        revoked = authority.revoked()
        for one in authority.issued():
            if not revoked.covers(one.role, one.name, one.issued):
                newest[one.role, one.name] = (one.issued_ns, one.not_after_ns)
    if (identity := context.identity) is not None:
        own = (_ns(identity.not_before), _ns(identity.not_after))
        newest.setdefault((identity.role, identity.name), own)
    clients = context.configuration.clients
    for (role, name), (issued_ns, ends_ns) in newest.items():
        if role == "agent" and name not in clients:
            continue
        if not _ends_soon(issued_ns, ends_ns, settings.expiry_warning_seconds, now_ns):
            continue
        has_ended = ends_ns <= now_ns
        remedy = (
            f"strongroom ca issue {name} --role {role}; or ca revoke {name}, if nobody needs it"
        )
        if role == "agent":
            remedy = f"see why the agent on {name} does not renew it; enrol it anew if need be"
        if role == _ROOT:
            remedy = "make another with strongroom ca init, and enrol everybody with it"
        holder = f"{role} {name}".strip()
        yield Condition(
            event="certificate-expired" if has_ended else "certificate-expiring",
            topic=f"certificate:{role}:{name}",
            title=f"the certificate of {holder} {'has ended' if has_ended else 'ends soon'}",
            detail=f"it ends {shown_time(ends_ns, zone)}",
            remedy=remedy,
            since_ns=now_ns,
            client=name if role == "agent" else "",
        )


def _tokens(context: DirectorContext, zone: tzinfo) -> Iterator[Condition]:
    now_ns = clock.now_ns()
    warning_seconds = context.configuration.director.expiry_warning_seconds
    tokens = list_tokens(context.catalog)
    latest: dict[tuple[str, str], int] = {}
    for one in tokens:
        of = (one.name, one.profile)
        latest[of] = max(latest.get(of, 0), one.expires_ns or 1 << 62)
    for one in tokens:
        if not one.expires_ns or one.expires_ns < latest[one.name, one.profile]:
            continue
        if one.expires_ns - one.created_ns < _SHORTEST_LIFE_NS:
            continue
        if _ends_soon(one.created_ns, one.expires_ns, warning_seconds, now_ns):
            yield Condition(
                event="token-expiring",
                topic=f"token:{one.id}",
                title=f"the API token {one.id} of {one.name} ends soon or has ended",
                detail=f"it ends {shown_time(one.expires_ns, zone)}",
                remedy=f"strongroom token create {one.name}, or token withdraw {one.id}",
                since_ns=now_ns,
            )


def _ns(moment: datetime) -> int:
    return int(moment.timestamp()) * SECOND_NS


def _ends_soon(begun_ns: int, ends_ns: int, warning_seconds: int, now_ns: int) -> bool:
    warning_ns = min(warning_seconds * SECOND_NS, (ends_ns - begun_ns) // 4)
    return ends_ns - warning_ns <= now_ns
