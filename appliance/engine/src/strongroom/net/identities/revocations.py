"""Revoked certificates: the authority's signed list in a file, kept current.

Whenever it is asked for, the file is checked, and read again when it was replaced: a revocation
is in force from then on. A running daemon never forgets a revocation: a list
without the authority's signature, or older than the one known, does not replace that.

While the list is missing, too large, damaged or older, `fault` says so, and no one new is trusted
(`refusal`): nothing is known then about what was revoked since. Who is known already stays, unless
the last good list revokes it (`is_revoked`).

Used from any thread; `_lock` guards the check.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from strongroom.base.errors import PeerRefusedError, UsageError
from strongroom.net.identities.peer import Peer
from strongroom.net.identities.private_files import PUBLIC_MODE, read_bounded, write_file
from strongroom.net.identities.revocation_list import (
    GREATEST_LIST_BYTES,
    RevocationList,
    parse_list,
)

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

_NONE_YET: Final = -1

_log = logging.getLogger(__name__)


class Revocations:
    """The list in file `path`; `roots`: the authorities whose signature is accepted."""

    def __init__(self, path: bytes, roots: Sequence[Certificate]) -> None:
        self._path = path
        self._roots = tuple(roots)
        self._lock = threading.Lock()
        self._list = RevocationList(_NONE_YET)
        self._seen: tuple[int, int, int] | None = None
        self._fault = ""

    @property
    def fault(self) -> str:
        """Why the list cannot be relied on; "" if it can."""
        self._current()
        return self._fault

    def is_revoked(self, peer: Peer) -> bool:
        """Whether the certificate of a peer is known to be revoked."""
        return self._current().is_revoked(peer)

    def refusal(self, peer: Peer) -> str:
        """Why a peer that is not known yet cannot be trusted; "" if it can."""
        if self._current().is_revoked(peer):
            return (
                f"the certificate of {peer} (serial {peer.serial}) was revoked; enrol it anew "
                "if that was a mistake"
            )
        return self._fault and f"no new connections are accepted: {self._fault}"

    def _current(self) -> RevocationList:
        with self._lock:
            self._look_again()
            return self._list

    def _look_again(self) -> None:
        fault = ""
        try:
            marks = _marks(self._path)
            if marks == self._seen:
                return
            self._seen = marks
            self._read()
        except (OSError, PeerRefusedError, UsageError) as error:
            if isinstance(error, OSError):
                self._seen = None
            reason = error.strerror if isinstance(error, OSError) else error
            fault = (
                f"the list of revoked certificates {os.fsdecode(self._path)} cannot be used "
                f"({reason}); copy revoked.pem of the authority's folder there"
            )
        if fault != self._fault:
            self._fault = fault
            if fault:
                _log.error("no new connections are accepted: %s", fault)
            else:
                _log.warning("the list of revoked certificates can be used again")

    def _read(self) -> None:
        found = parse_list(read_bounded(self._path, GREATEST_LIST_BYTES), self._roots)
        if found.number < self._list.number:
            raise PeerRefusedError("it is older than the list known")
        self._list = found


def install_list(path: bytes, pem: bytes, roots: Sequence[Certificate]) -> bool:
    """Write a fetched list to file `path`; False when the one there is as new or newer.

    Raises PeerRefusedError for a list that `roots` have not signed.
    """
    new = parse_list(pem, roots)
    try:
        old = parse_list(read_bounded(path, GREATEST_LIST_BYTES), roots)
    except (FileNotFoundError, PeerRefusedError, UsageError):
        old = None
    if old is not None and old.number >= new.number:
        return False
    write_file(path, pem, PUBLIC_MODE)
    return True


def _marks(path: bytes) -> tuple[int, int, int]:
    found = os.stat(path)
    return found.st_mtime_ns, found.st_ino, found.st_size
