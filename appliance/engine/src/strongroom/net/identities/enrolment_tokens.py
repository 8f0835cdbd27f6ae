"""Single-use enrolment tokens: the bearer of one gets one certificate for one name and role.

A token is 32 random bytes as text. Only its hash is kept, as the name of a file that states what
the token permits; using it removes that file, which succeeds once among concurrent attempts.
"""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from blake3 import blake3

from strongroom import clock
from strongroom.clock import SECOND_NS
from strongroom.errors import PeerRefusedError, UsageError
from strongroom.net.identities.peer import Role, check_name, check_role
from strongroom.net.identities.private_files import (
    SECRET_MODE,
    read_bounded,
    sync_folder,
    write_file,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_PREFIX = "srt1_"
_SECRET_SIZE = 32
_GREATEST_FILE_BYTES = 4096


class TokenUse(msgspec.Struct, frozen=True, kw_only=True):
    """What a token permits. Times in nanoseconds since 1970.

    `name`: the only name that it may be used for; "" for any. `hosts`: DNS names and addresses of
    the certificate. `new_client`: the name is that of another client from then on, with new keys.
    """

    name: str
    role: Role
    hosts: tuple[str, ...] = ()
    new_client: bool = False
    created_ns: int
    expires_ns: int


class NewEnrolmentToken(NamedTuple):
    """`text` is the secret, which is not stored; `id` is safe to show."""

    text: str
    id: str
    use: TokenUse


class TokenInfo(NamedTuple):
    """A token that was not used yet."""

    id: str
    use: TokenUse


class EnrolmentTokens:
    """The tokens in an existing folder; several processes may use it at once."""

    def __init__(self, folder: bytes) -> None:
        self._folder = folder

    def create(
        self,
        name: str,
        role: str,
        lifetime_seconds: float,
        hosts: Sequence[str] = (),
        *,
        new_client: bool = False,
    ) -> NewEnrolmentToken:
        """Make a token. Raises UsageError for an impossible name or role."""
        if name:
            check_name(name)
        if new_client and (not name or role != "agent"):
            raise UsageError("only an agent that is named can become a new client")
        now = clock.now_ns()
        use = TokenUse(
            name=name,
            role=check_role(role),
            hosts=tuple(hosts),
            new_client=new_client,
            created_ns=now,
            expires_ns=now + int(lifetime_seconds * SECOND_NS),
        )
        secret = clock.random_bytes(_SECRET_SIZE)
        text = _PREFIX + base64.urlsafe_b64encode(secret).rstrip(b"=").decode("ascii")
        identifier = _identifier(text)
        path = os.path.join(self._folder, identifier.encode())
        write_file(path, msgspec.json.encode(use), SECRET_MODE)
        return NewEnrolmentToken(text, identifier, use)

    def look(self, text: str, name: str) -> TokenUse:
        """What a token permits, without using it.

        Raises PeerRefusedError when it is unknown, used, expired, or for another name.
        """
        use = self._read(_identifier(text))
        if use is None:
            raise PeerRefusedError("the enrolment token is unknown, or was used already")
        if clock.now_ns() >= use.expires_ns:
            raise PeerRefusedError("the enrolment token has expired; ask for a new one")
        if use.name and use.name != name:
            raise PeerRefusedError(f"the enrolment token is not for the name {name!r}")
        return use

    def use(self, text: str, name: str) -> TokenUse:
        """Consume a token; raises as `look` does."""
        use = self.look(text, name)
        if not self.withdraw(_identifier(text)):
            raise PeerRefusedError("the enrolment token was used already")
        return use

    def withdraw(self, identifier: str) -> bool:
        """Remove a token by its id; False when there is none."""
        if not identifier.isalnum():
            return False
        try:
            os.unlink(os.path.join(self._folder, identifier.encode()))
        except FileNotFoundError:
            return False
        sync_folder(self._folder)
        return True

    def unused(self) -> list[TokenInfo]:
        """The tokens that can still be used; removes those that have expired."""
        found = []
        for name in sorted(os.listdir(self._folder)):
            identifier = os.fsdecode(name)
            use = self._read(identifier) if identifier.isalnum() else None
            if use is None:
                continue
            if clock.now_ns() >= use.expires_ns:
                self.withdraw(identifier)
            else:
                found.append(TokenInfo(identifier, use))
        return found

    def _read(self, identifier: str) -> TokenUse | None:
        path = os.path.join(self._folder, identifier.encode())
        try:
            return msgspec.json.decode(read_bounded(path, _GREATEST_FILE_BYTES), type=TokenUse)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise PeerRefusedError("the enrolment token's record is damaged") from error


def _identifier(text: str) -> str:
    return blake3(b"strongroom enrolment token 1\0" + text.encode()).hexdigest(16)
