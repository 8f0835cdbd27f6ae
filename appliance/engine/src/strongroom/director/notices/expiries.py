"""Everything that ends: the authority, the certificates that it issued, and API tokens.

The one table for `status`, /metrics, the log and notices. Only the newest certificate of a name and
role counts, and the newest token of a name and Profile; what was revoked is not here, nor agents
that the configuration does not have. Certificates of an authority elsewhere are not known, except
the director's own. What has ended stays wrong until it is replaced, revoked or withdrawn.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Hashable, Iterator
from contextlib import suppress
from datetime import datetime, tzinfo
from typing import Final

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS, utc_text
from strongroom.director.catalog.access import list_tokens
from strongroom.director.catalog.incidents import Condition
from strongroom.director.context import DirectorContext
from strongroom.director.results.status import Expiry
from strongroom.director.shown_text import shown_time
from strongroom.net.identities import authority_files
from strongroom.net.identities.authority import Authority
from strongroom.net.identities.identity import AUTHORITY_WARNING_SECONDS, ends_soon
from strongroom.net.identities.trust import roots_of
from strongroom.service.exposition import Metric
from strongroom.service.log_lines import DailyLog

_log = logging.getLogger(__name__)

TOPICS: Final = ("certificate:", "token:")
EXPIRY_METRIC: Final = "strongroom_expiry_timestamp_seconds"
# Tokens for a task of a day or two are not reported.
_SHORTEST_LIFE_NS: Final = 2 * 86400 * SECOND_NS
_RENEWED: Final = {
    "director": "find out in the director's log why it is not renewed",
    "storage": "find out in the log of the storage daemon {name} why it is not renewed; or "
    "`strongroom "
    "ca issue {name} --role storage`, or `ca revoke {name}` if it is gone",
    "agent": "see why the agent on {name} does not renew it; enrol it anew if need be",
    "operator": "any command of {name} renews it; or `strongroom ca issue {name} --role operator`, "
    "or `ca revoke {name}` if no one needs it",
}

# Of a certificate that renews nothing any more.
_ENDED: Final = {
    **_RENEWED,
    "storage": "it renews itself when the storage daemon {name} runs, for 180 days, and after "
    "`strongroom ca renew {name}`; or `ca revoke {name}` if it is gone",
    "agent": "it renews itself when the agent on {name} runs, for 180 days, and after `strongroom "
    "ca renew {name}`; or `ca revoke {name}` if it is gone",
    "operator": "`strongroom ca issue {name} --role operator` makes another, or `ca revoke {name}` "
    "if no one needs it",
}


def all_expiries(context: DirectorContext) -> list[Expiry]:
    """Everything that ends, the first first. Blocks. Raises StrongroomError, OSError.

    What ends soon is judged once a minute: there is a certificate of each client.
    """
    version = (expiry_version(context), clock.now_ns() // (60 * SECOND_NS))
    configuration, kept = context.configuration, context.expiries
    if kept is None or kept[0] is not configuration or kept[1] != version:
        found = [*_certificates(context), *_tokens(context)]
        found.sort(key=lambda one: (one.ends_ns, one.kind, one.name))
        kept = context.expiries = (configuration, version, found)
    return kept[2]


def expiry_version(context: DirectorContext) -> Hashable:
    """Another one where something else ends, or at another time, by the same configuration.

    Blocks. Raises StrongroomError, OSError.
    """
    settings = context.configuration.director
    files = []
    if settings.authority_folder:
        folder = os.fsencode(settings.authority_folder)
        for name in (authority_files.ISSUED, authority_files.REVOKED):
            with suppress(FileNotFoundError):
                there = os.stat(os.path.join(folder, name))
                files.append((name, there.st_ino, there.st_size, there.st_mtime_ns))
    tokens = [
        (one.id, one.name, one.profile, one.expires_ns) for one in list_tokens(context.catalog)
    ]
    identity = context.identity
    pem = b"" if identity is None else identity.certificate_pem + identity.authority_pem
    return (pem, tuple(files), tuple(tokens))


def soon_texts(expiries: list[Expiry]) -> list[tuple[Expiry, str]]:
    """What ends soon, and a sentence about each."""
    return [
        (one, f"{one.title} {_ends(one)} on {utc_text(one.ends_ns)[:10]}; {one.remedy}")
        for one in expiries
        if one.is_soon
    ]


def log_expiries(daily: DailyLog, expiries: list[Expiry]) -> None:
    """Once a day a line of the log for each that ends soon."""
    for one, text in soon_texts(expiries):
        daily.warn(f"{one.kind} {one.name} {one.id} {one.ends_ns}", text)


def expiry_metrics(expiries: list[Expiry]) -> list[Metric]:
    """When each ends, for /metrics."""
    labels = ("kind", "name", "id", "client", "storage")
    samples = (
        ({label: getattr(one, label) for label in labels}, one.ends_ns / SECOND_NS)
        for one in expiries
    )
    return [Metric(EXPIRY_METRIC, tuple(samples))]


def _certificates(context: DirectorContext) -> Iterator[Expiry]:
    settings = context.configuration.director
    now_ns = clock.now_ns()
    newest: dict[tuple[str, str], tuple[int, int]] = {}
    root_pem = b"" if context.identity is None else context.identity.authority_pem
    if settings.authority_folder:
        authority = Authority(os.fsencode(settings.authority_folder))
        root_pem = authority.certificate_pem
        revoked = authority.revoked()
        for one in authority.issued():
            if not revoked.covers(one.role, one.name, one.issued):
                newest[one.role, one.name] = (one.issued_ns, one.not_after_ns)
    if (identity := context.identity) is not None:
        newest[identity.role, identity.name] = (_ns(identity.not_before), _ns(identity.not_after))
    for root in roots_of(root_pem) if root_pem else ():
        begun_ns, ends_ns = _ns(root.not_valid_before_utc), _ns(root.not_valid_after_utc)
        name = root.subject.rfc4514_string()
        remedy = "make a new one with `strongroom ca init`, and enrol every machine anew"
        warning_seconds = max(settings.expiry_warning_seconds, AUTHORITY_WARNING_SECONDS)
        is_soon = ends_soon(begun_ns, ends_ns, now_ns, warning_seconds)
        yield Expiry("authority", name, "", "", "", begun_ns, ends_ns, is_soon, remedy)
    clients, storages = context.configuration.clients, context.configuration.storages
    for (role, name), (begun_ns, ends_ns) in newest.items():
        if role == "agent" and name not in clients:
            continue
        yield Expiry(
            kind=role,
            name=name,
            id="",
            client=name if role == "agent" else "",
            storage=name if role == "storage" and name in storages else "",
            begun_ns=begun_ns,
            ends_ns=ends_ns,
            is_soon=ends_soon(begun_ns, ends_ns, now_ns, settings.expiry_warning_seconds),
            remedy=(_RENEWED if ends_ns > now_ns else _ENDED)[role].format(name=name),
        )


def _tokens(context: DirectorContext) -> Iterator[Expiry]:
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
        yield Expiry(
            kind="token",
            name=one.name,
            id=one.id,
            client="",
            storage="",
            begun_ns=one.created_ns,
            ends_ns=one.expires_ns,
            is_soon=one.expires_ns - one.created_ns >= _SHORTEST_LIFE_NS
            and ends_soon(one.created_ns, one.expires_ns, now_ns, warning_seconds),
            remedy=f"`strongroom token create {one.name}`, or `token withdraw {one.id}`",
        )


def _ends(expiry: Expiry) -> str:
    return "ended" if expiry.ends_ns <= clock.now_ns() else "ends"


def _ns(moment: datetime) -> int:
    return int(moment.timestamp()) * SECOND_NS


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
