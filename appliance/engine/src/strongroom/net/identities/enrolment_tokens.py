"""Enrolment tokens: the bearer of one gets a certificate for a name and role, as often as it says.

A token is 32 random bytes and the fingerprint of the authority, as text. Only its hash is kept, as
the name of a file that states what the token permits, and who has used it. Each use is counted
under a lock on the folder, so that concurrent attempts never exceed the count.

Anyone who has used a token may do so again with the same key until the token expires: what was
interrupted is repeated. With another key the name is taken.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

import msgspec
from blake3 import blake3

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS, utc_text
from strongroom.base.decoding import decodable
from strongroom.base.errors import PeerRefusedError, UsageError
from strongroom.net.identities.peer import Role, check_name, check_role
from strongroom.net.identities.private_files import (
    SECRET_MODE,
    read_bounded,
    sync_folder,
    write_file,
)

GREATEST_USES = 10_000
# How often one machine may repeat what was interrupted.
_GREATEST_TIMES = 10
_PREFIX = "srt2_"
_SECRET_SIZE = 32
_FINGERPRINT_SIZE = 32
_GREATEST_FILE_BYTES = 4 << 20
# The clock of who makes a token may be so much ahead.
_GREATEST_SKEW_NS = 3600 * SECOND_NS
# One that seems to have expired between these times ago stays: the clock may be ahead for a while.
_KEPT_NS = (8 * 86400 * SECOND_NS, 800 * 86400 * SECOND_NS)
# What a name must be where many hosts choose theirs: it is a file's name, and part of others.
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


class TokenUser(msgspec.Struct, frozen=True, kw_only=True):
    """Who has used a token, how many times. `key`: the digest of the public key.

    Time as in TokenUse.
    """

    name: str
    key: str
    used_ns: int
    times: int = 1


class TokenUse(msgspec.Struct, frozen=True, kw_only=True):
    """What a token permits. Times in nanoseconds since 1970.

    `name`: the only name that it may be used for; "" for any new one that `pattern` (as of a shell)
    matches. `uses`: for how many names. `group`: the joining client gets the jobs of this group of
    the director's configuration; "" for none. `hosts`: DNS names and addresses of the certificate.
    `new_client`: the name is that of another client from then on, with new keys.
    """

    name: str
    role: Role
    pattern: str = "*"
    uses: int = 1
    group: str = ""
    hosts: tuple[str, ...] = ()
    new_client: bool = False
    created_ns: int
    expires_ns: int
    users: tuple[TokenUser, ...] = ()

    @property
    def uses_left(self) -> int:
        """For how many more names it may be used."""
        return self.uses - len(self.users)

    def user(self, name: str) -> TokenUser | None:
        """Who has used it for a name."""
        return next((one for one in self.users if one.name == name), None)

    def check_key(self, name: str, key: str) -> TokenUser | None:
        """Who has used it for a name with this key; PeerRefusedError when it was another key."""
        user = self.user(name)
        if user is not None and (user.key != key or self.new_client):
            raise PeerRefusedError(
                f"the enrolment token was used already for {name!r}, by a machine with another "
                "key; ask for a token for just this name"
            )
        if user is not None and user.times >= _GREATEST_TIMES:
            raise PeerRefusedError(f"the enrolment token was used too often for {name!r}")
        return user


class NewEnrolmentToken(NamedTuple):
    """`text` is the secret, which is not stored; `id` is safe to show."""

    text: str
    id: str
    use: TokenUse


class TokenInfo(NamedTuple):
    """A token that can still be used."""

    id: str
    use: TokenUse


class EnrolmentTokens:
    """The tokens in an existing folder; several processes may use it at once.

    `fingerprint`: of the authority, in hexadecimal.
    """

    def __init__(self, folder: bytes, fingerprint: str) -> None:
        self._folder = folder
        self._fingerprint = bytes.fromhex(fingerprint)

    def create(
        self,
        name: str,
        role: str,
        lifetime_seconds: float,
        hosts: Sequence[str] = (),
        *,
        new_client: bool = False,
        pattern: str = "*",
        uses: int = 1,
        group: str = "",
    ) -> NewEnrolmentToken:
        """Make a token. Raises UsageError for an impossible name, role or number of uses."""
        if name:
            check_name(name)
        if new_client and (not name or role != "agent"):
            raise UsageError("only an agent that is named can become a new client")
        if group and role != "agent":
            raise UsageError("only agents are of a group of clients")
        if not 1 <= uses <= GREATEST_USES or (name and uses != 1):
            raise UsageError(
                f"a token has 1 to {GREATEST_USES} uses, and one for a single name has one"
            )
        if uses > 1 and hosts:
            raise UsageError("a host is of one machine; give it to a token with one use")
        now = clock.now_ns()
        use = TokenUse(
            name=name,
            role=check_role(role),
            pattern=pattern,
            uses=uses,
            group=group,
            hosts=tuple(hosts),
            new_client=new_client,
            created_ns=now,
            expires_ns=now + int(lifetime_seconds * SECOND_NS),
        )
        secret = clock.random_bytes(_SECRET_SIZE) + self._fingerprint
        text = _PREFIX + base64.urlsafe_b64encode(secret).rstrip(b"=").decode("ascii")
        identifier = token_id(text)
        self._write(identifier, use)
        return NewEnrolmentToken(text, identifier, use)

    def look(self, text: str, name: str) -> TokenUse:
        """What a token permits, without using it.

        Raises PeerRefusedError when it is unknown, used up, expired, or for another name.
        """
        use = self._read(token_id(text))
        if use is None:
            raise PeerRefusedError("the enrolment token is unknown, or was withdrawn")
        now_ns = clock.now_ns()
        if now_ns >= use.expires_ns:
            raise PeerRefusedError("the enrolment token has expired; ask for a new one")
        if now_ns < use.created_ns - _GREATEST_SKEW_NS:
            # It would be good for longer than was asked for.
            raise PeerRefusedError(
                f"the enrolment token was made on {utc_text(use.created_ns)[:10]}, which is still "
                "to come: the clock was ahead; ask for a new one"
            )
        if use.name and use.name != name:
            raise PeerRefusedError(f"the enrolment token is not for the name {name!r}")
        if not use.name:
            _check_chosen(use, name)
        if use.uses_left <= 0 and use.user(name) is None:
            raise PeerRefusedError("the enrolment token was used already, as often as it allows")
        return use

    def use(self, text: str, name: str, key: str) -> TokenUse:
        """Count a use by a name with a key; raises as `look` and `TokenUse.check_key` do."""
        with self._locked():
            use = self.look(text, name)
            user = use.check_key(name, key)
            if user is None:
                user = TokenUser(name=name, key=key, used_ns=clock.now_ns())
            else:
                user = msgspec.structs.replace(user, times=user.times + 1)
            others = tuple(one for one in use.users if one.name != name)
            use = msgspec.structs.replace(use, users=(*others, user))
            self._write(token_id(text), use)
        return use

    def withdraw(self, identifier: str) -> bool:
        """Remove a token by its id; False when there is none that can still be used."""
        if not identifier.isalnum():
            return False
        with self._locked():
            use = self._read(identifier)
            if use is None:
                return False
            os.unlink(os.path.join(self._folder, identifier.encode()))
            sync_folder(self._folder)
        return use.uses_left > 0

    def unused(self) -> list[TokenInfo]:
        """The tokens that can still be used; removes those that have expired."""
        found = []
        for name in sorted(os.listdir(self._folder)):
            identifier = os.fsdecode(name)
            use = self._read(identifier) if identifier.isalnum() else None
            if use is None:
                continue
            ended_ns = clock.now_ns() - use.expires_ns
            if ended_ns < 0:
                if use.uses_left > 0:
                    found.append(TokenInfo(identifier, use))
            elif not _KEPT_NS[0] < ended_ns < _KEPT_NS[1]:
                self.withdraw(identifier)
        return found

    def _read(self, identifier: str) -> TokenUse | None:
        path = os.path.join(self._folder, identifier.encode())
        try:
            return msgspec.json.decode(
                read_bounded(path, _GREATEST_FILE_BYTES), type=decodable(TokenUse)
            )
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise PeerRefusedError("the enrolment token's record is damaged") from error

    def _write(self, identifier: str, use: TokenUse) -> None:
        path = os.path.join(self._folder, identifier.encode())
        write_file(path, msgspec.json.encode(use), SECRET_MODE)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def token_id(text: str) -> str:
    """The id of a token: what is kept and shown of it."""
    return blake3(b"strongroom enrolment token 2\0" + text.encode()).hexdigest(16)


def fingerprint_in(text: str) -> str:
    """The authority's fingerprint that a token holds. Raises UsageError for what is not a token."""
    coded = text.removeprefix(_PREFIX)
    try:
        data = base64.b64decode(coded + "=" * (-len(coded) % 4), altchars=b"-_", validate=True)
    except ValueError:
        data = b""
    if coded == text or len(data) != _SECRET_SIZE + _FINGERPRINT_SIZE:
        raise UsageError(
            f"this is not an enrolment token: one begins with {_PREFIX} and is made by "
            "`strongroom ca token`; was a part of it left out?"
        )
    return data[_SECRET_SIZE:].hex()


def _check_chosen(use: TokenUse, name: str) -> None:
    if not _PLAIN_NAME.fullmatch(name):
        raise PeerRefusedError(
            f"{name!r} cannot be chosen as a name: take up to 63 letters, digits, dots, dashes and "
            "underscores, or ask for a token for just this name"
        )
    if not fnmatchcase(name, use.pattern):
        raise PeerRefusedError(
            f"the enrolment token is not for the name {name!r}: it is for names like {use.pattern}"
        )
