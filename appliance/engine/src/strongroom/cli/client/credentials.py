"""Keeps what a console command shows to the director: renews a certificate, warns before its end.

A certificate in an identity folder is renewed by any command in the last third of its life. One
that cannot be renewed, and a token, which only a person can replace, are warned of two weeks before
they end; the director says so of tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urlsplit

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import StrongroomError, UsageError
from strongroom.cli.client.place import DirectorAccess
from strongroom.net.identities.identity import Identity, ends_soon
from strongroom.net.renewal import DirectorAddress, has_ended, renew_certificate


def keep_identity(place: DirectorAccess, warn: Callable[[str], None]) -> None:
    """Renew the certificate of `place` if that is due, or say when it ends."""
    if not place.identity:
        return
    with suppress(UsageError):
        # What is wrong with the folder is reported where it is used.
        identity = Identity.load(place.identity)
        if has_ended(identity) or not identity.renewal_due():
            return
        reason = _renewal_fault(place, identity)
        if not reason:
            return
        begun_ns, ends_ns = (
            int(moment.timestamp()) * SECOND_NS
            for moment in (identity.not_before, identity.not_after)
        )
        if ends_soon(begun_ns, ends_ns, clock.now_ns()):
            warn(
                f"the certificate in {place.identity} ends on {identity.not_after:%Y-%m-%d}, and "
                f"could not be renewed: {reason}"
            )


def warn_of_token(place: DirectorAccess, ends: str, warn: Callable[[str], None]) -> None:
    """Say that the token of `place` ends soon; `ends`: the header of the director, "" for none."""
    if ends.isascii() and ends.isdecimal():
        shown = clock.utc_text(int(ends[:12]) * SECOND_NS)[:10]
        warn(
            f"the token in {place.token_file} ends on {shown}; `strongroom token create` makes "
            "another for --token-file"
        )


def _renewal_fault(place: DirectorAccess, identity: Identity) -> str:
    """Renew; why that is not possible, "" when it was."""
    parts = urlsplit(place.url)
    director = DirectorAddress(parts.hostname or "", parts.port or 443)
    try:
        renew_certificate(director, identity.folder)
    except OSError as error:
        return f"{place.identity}: {error.strerror or error}"
    except StrongroomError as error:
        # Another command may have renewed it in the meantime.
        return "" if Identity.load(identity.folder).serial != identity.serial else str(error)
    return ""
