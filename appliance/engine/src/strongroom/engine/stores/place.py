"""How the place of a repository is named, for `--repo` and for directives alike.

    /mnt/backup/repository                                    a folder
    unix:/run/strongroom-storage/storage.sock[#REPOSITORY]    a storage daemon of this machine
    strongroom://HOST[:PORT][/REPOSITORY]                     one by TCP, with a certificate
    ssh://[USER@]HOST[:PORT]/PATH                             a folder there, by `strongroom serve`
    sftp://[USER@]HOST[:PORT]/PATH, sftp:[USER@]HOST:PATH     a folder there, by SFTP
    s3://BUCKET[/PREFIX][?endpoint=URL&region=NAME]           an object store that speaks S3
    s3:HOST/BUCKET[/PREFIX], s3:URL/BUCKET[/PREFIX]           the same, as restic writes it

PATH is absolute; /~/PATH is below the user's home there, and so is, after sftp:HOST:, what does not
begin with a slash. REPOSITORY is the name of the daemon's
device or the id of the repository; without, its first one.

Whatever has a colon before its first slash and is none of these is refused: as a folder of that
name it would hold a backup that no one meant to be here.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

import msgspec

from strongroom.base.errors import UsageError
from strongroom.base.printable import printable

USUAL_PORT: Final = 9103
_UNIX: Final = "unix:"
_NETWORK: Final = "strongroom://"
_SSH: Final = "ssh://"
_SFTP: Final = "sftp:"
# What the place of a bucket begins with.
S3: Final = "s3:"
# A colon before the first slash: a scheme, or a host as scp and rsync write it.
_ELSEWHERE: Final = re.compile(r"[^/]+:")
# ssh takes a word that begins with - for an option, and hands the rest to a shell in ProxyCommand.
_USER_OR_HOST: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.%:-]*")
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]")
_REGION: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
_SUPPORTED: Final = (
    "a repository is a folder, ssh://HOST/PATH, sftp://HOST/PATH, s3://BUCKET/PREFIX, or at a "
    "storage daemon: strongroom://HOST:PORT or unix:SOCKET"
)
# What other programs write, and what to do instead.
_INSTEAD: Final = {
    "b2": "Backblaze has an S3 interface: s3:s3.REGION.backblazeb2.com/BUCKET",
    "gs": "Google's store has no conditions that an S3 client could use: see the guide "
    "`repositories` for a copy of a repository by rclone",
    "azure": "Azure's store does not speak S3: see the guide `repositories` for a copy of a "
    "repository by rclone",
    "rclone": "see the guide `repositories` for a copy of a repository by rclone",
    "rest": "the server of restic keeps none of our promises: let ssh:// or a storage daemon serve "
    "that folder",
}
_OTHER_NAMES: Final = {"gcs": "gs", "az": "azure", "abs": "azure", "abfs": "azure"}
# From a colon to the last @: a password is in there.
_PASSWORD: Final = re.compile(r":(?!//).*@", re.DOTALL)
_HOW_S3: Final = "write s3://BUCKET/PREFIX?endpoint=https://HOST, or s3:HOST/BUCKET/PREFIX"


class FolderLocation(msgspec.Struct, frozen=True):
    """A folder of this machine."""

    text: str

    @property
    def path(self) -> str:
        """The path as it was named."""
        return self.text


class RemoteLocation(msgspec.Struct, frozen=True):
    """Where a storage daemon is: a socket's path, or address and port."""

    text: str
    socket_path: str
    address: str
    port: int
    repository: str


class SshLocation(msgspec.Struct, frozen=True):
    """A path on a host that ssh reaches. user "" and port 0: as ssh's configuration says."""

    text: str
    user: str
    host: str
    port: int
    path: str


class SftpLocation(msgspec.Struct, frozen=True):
    """A folder behind SFTP. host: how ssh reaches it."""

    text: str
    host: SshLocation

    @property
    def path(self) -> str:
        """The folder, absolute or from where a login begins."""
        return self.host.path


class BucketLocation(msgspec.Struct, frozen=True):
    """Keys of a bucket that begin with a prefix. endpoint, region: "" for the environment's."""

    text: str
    bucket: str
    prefix: str
    endpoint: str
    region: str


Place = FolderLocation | RemoteLocation | SshLocation | SftpLocation | BucketLocation


def place_of(text: str) -> Place:
    """The place that `text` names. Raises UsageError."""
    if text.startswith(_UNIX):
        return _socket_place(text)
    if text.startswith(_NETWORK):
        return _network_place(text)
    if text.startswith(_SSH):
        return _ssh_place(text, text)
    if text.startswith(_SFTP):
        return SftpLocation(text, _ssh_place(text, _as_url(text)))
    if text.startswith(S3):
        return _bucket_place(text)
    shown = _shown(text)
    if _ELSEWHERE.match(text):
        scheme = text.partition(":")[0].lower()
        if instead := _INSTEAD.get(_OTHER_NAMES.get(scheme, scheme)):
            raise UsageError(f"{shown} is not supported. {instead}; {_SUPPORTED}")
        raise UsageError(
            f"{shown} names a protocol or a host that is not supported; {_SUPPORTED} (a folder "
            f"whose name holds a colon is written ./NAME)"
        )
    if text.startswith("~"):
        raise UsageError(
            f"{shown} is not a path: the shell did not replace the ~; write $HOME (or ./{shown})"
        )
    return FolderLocation(text)


def _shown(text: str) -> str:
    """`text` for a message, without the password that somebody wrote into it."""
    return printable(_PASSWORD.sub(":***@", text))


def _not_a_url(text: str, error: ValueError) -> UsageError:
    # It may quote what it takes for a port: a password up to a slash.
    reason = "its host or its port is not correct" if "@" in text else str(error)
    return UsageError(f"{_shown(text)}: {reason}")


def _socket_place(text: str) -> RemoteLocation:
    path, _, repository = text[len(_UNIX) :].partition("#")
    if not path.startswith("/"):
        raise UsageError(
            f"{printable(text)}: the socket's path is absolute, as in unix:/run/x.sock"
        )
    return RemoteLocation(text, path, "", 0, repository)


def _network_place(text: str) -> RemoteLocation:
    shown = _shown(text)
    try:
        parts = urlsplit(text)
        port = parts.port or USUAL_PORT
    except ValueError as error:
        raise _not_a_url(text, error) from None
    if not parts.hostname or "@" in parts.netloc or parts.query:
        raise UsageError(f"{shown}: a storage daemon is named as strongroom://HOST:PORT")
    return RemoteLocation(text, "", parts.hostname, port, unquote(parts.path.strip("/")))


def _as_url(text: str) -> str:
    """What restic writes as sftp:user@host:/path or sftp:host:path, as a URL."""
    if text.startswith("sftp://"):
        return text
    host, _, path = text.removeprefix(_SFTP).partition(":")
    if "@" in path.partition("/")[0]:
        raise _password_in(_SFTP)
    # No server replaces the ~ that a shell would.
    path = quote(path.removeprefix("~/"), errors="surrogateescape")
    return f"sftp://{host}{path}" if path.startswith("/") else f"sftp://{host}/~/{path}"


def _ssh_place(text: str, url: str) -> SshLocation:
    scheme = text.partition(":")[0]
    shown = _shown(text)
    try:
        parts = urlsplit(url)
        port = parts.port or 0
    except ValueError as error:
        raise _not_a_url(text, error) from None
    if parts.password is not None:
        raise _password_in(f"{scheme}:")
    user = unquote(parts.username or "")
    path = unquote(parts.path, errors="surrogateescape")
    # Not `hostname`: that is in small letters, and ssh's configuration tells them apart.
    host = parts.netloc.rpartition("@")[2]
    host = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    faulty = next((part for part in (user, host) if part and not _is_word(part)), "")
    if faulty or not host or parts.query or parts.fragment:
        raise UsageError(f"{shown} is not a place: write {scheme}://[USER@]HOST[:PORT]/PATH")
    path = path.removeprefix("/~/").rstrip("/")
    # Without a name it would be the home, or the root of the file system.
    if path in ("", "~", "/~") or "\0" in path or "\n" in path:
        raise UsageError(f"{shown} names no folder there: write {scheme}://[USER@]HOST[:PORT]/PATH")
    return SshLocation(text, user, host, port, path)


def _password_in(scheme: str) -> UsageError:
    # The text itself would show it again.
    return UsageError(
        f"a place of {scheme} has no password, which others could see: let ssh log in with a key "
        "(`ssh-copy-id`)"
    )


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError as error:
        raise _not_a_url(url, error) from None


def _bucket_place(text: str) -> BucketLocation:
    if "@" in text or "%40" in text:
        # The text itself would show a secret again.
        raise UsageError(
            "a place of s3: has no access key, which others could see: put it into the environment "
            "(AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) or ~/.aws/credentials"
        )
    shown = printable(text)
    query: dict[str, str] = {}
    if text.startswith("s3://"):
        parts = _split(text)
        path = f"{parts.netloc}{parts.path}"
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        endpoint, region = query.pop("endpoint", ""), query.pop("region", "")
    else:
        url = text.removeprefix(S3)
        parts = _split(url if "://" in url else f"https://{url}")
        endpoint, region, path = f"{parts.scheme}://{parts.netloc}", "", parts.path.lstrip("/")
    bucket, _, prefix = unquote(path).partition("/")
    prefix = prefix.strip("/")
    if query or parts.fragment:
        unknown = ", ".join(map(printable, query)) or printable(parts.fragment)
        raise UsageError(f"{shown}: {unknown} is not a part of a place; {_HOW_S3}")
    if not _BUCKET.fullmatch(bucket):
        raise UsageError(f"{shown}: {printable(bucket)!r} is not the name of a bucket; {_HOW_S3}")
    if endpoint and not _is_endpoint(endpoint):
        raise UsageError(f"{shown}: an endpoint is http://HOST or https://HOST; {_HOW_S3}")
    if region and not _REGION.fullmatch(region):
        raise UsageError(f"{shown}: {printable(region)!r} is not the name of a region")
    if any(part in ("", ".", "..") for part in prefix.split("/") if prefix) or not (
        prefix.isprintable()
    ):
        raise UsageError(f"{shown}: its prefix has empty parts, dots or control characters")
    return BucketLocation(text, bucket, prefix, endpoint, region)


def _is_endpoint(text: str) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    is_bare = parts.path in ("", "/") and not (parts.query or parts.fragment)
    return parts.scheme in ("http", "https") and bool(parts.hostname) and is_bare


def _is_word(text: str) -> bool:
    return _USER_OR_HOST.fullmatch(text) is not None
