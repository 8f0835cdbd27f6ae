"""What the Director resource says of the daemon itself: where it listens, and its folders."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from strongroom.config.resolve import load
from strongroom.errors import ConfigurationError, UsageError

if TYPE_CHECKING:
    from strongroom.config.model import Resource

USUAL_CONFIGURATION = "/etc/strongroom"
_EVERYWHERE = "0.0.0.0"  # noqa: S104 - what Bareos listens on where nothing is said
_LONGEST_KEY_FILE_BYTES = 64 << 10
_LONGEST_PASSPHRASE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class DirectorSettings:
    """The daemon. `authority_folder` and the files: "" where there is none."""

    name: str
    addresses: tuple[tuple[str, int], ...]
    identity_folder: str
    authority_folder: str
    authority_passphrase_file: str
    put_key_file: str
    cipher_suites: str

    @classmethod
    def read(cls, path: str) -> DirectorSettings:
        """What the files at `path` say. Raises ConfigurationError, UsageError."""
        configuration = load(path, component="director").director
        daemon = None if configuration is None else configuration.daemon
        if daemon is None:
            raise ConfigurationError(
                f"{path} has no resource Director; see strongroom config check"
            )
        return cls(
            name=daemon.name,
            addresses=_addresses(daemon),
            identity_folder=daemon.identity_directory,
            authority_folder=daemon.authority_directory or "",
            authority_passphrase_file=daemon.authority_passphrase_file or "",
            put_key_file=daemon.put_key_file or "",
            cipher_suites=daemon.tls_cipher_suites or "",
        )

    def authority_passphrase(self) -> bytes | None:
        """What opens the authority's key; None where it has no passphrase. Raises UsageError."""
        if not self.authority_passphrase_file:
            return None
        line = _read(self.authority_passphrase_file, _LONGEST_PASSPHRASE_BYTES).split(b"\n", 1)[0]
        if not line.strip():
            raise UsageError(f"the first line of {self.authority_passphrase_file} is empty")
        return line.rstrip(b"\r")

    def put_key(self) -> str | None:
        """The put key that agents are given, None where there is none. Raises UsageError.

        A restore key in its place is refused: no agent may have that.
        """
        if not self.put_key_file:
            return None
        from strongroom.repo.keys import PutKey, import_key

        text = _read(self.put_key_file, _LONGEST_KEY_FILE_BYTES).decode("ascii", "replace")
        if not isinstance(import_key(text), PutKey):
            raise UsageError(
                f"{self.put_key_file} is no put key; make one with `strongroom key export-put`"
            )
        return text


def _addresses(daemon: Resource) -> tuple[tuple[str, int], ...]:
    port = int(daemon.port)
    if daemon.addresses:
        return tuple((one.host or _EVERYWHERE, int(one.port or port)) for one in daemon.addresses)
    return ((daemon.address or _EVERYWHERE, port),)


def _read(path: str, most_bytes: int) -> bytes:
    try:
        with open(os.fsencode(path), "rb") as file:
            return file.read(most_bytes)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
