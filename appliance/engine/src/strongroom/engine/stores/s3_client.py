"""Requests to an object store that speaks S3, made again until they succeed or time is up.

A request that fails for a reason that may pass (no connection, 500, 503 SlowDown, 429) is made
again after a random, growing time, or after as long as the store asks for. A store that has
answered before may be away for PATIENCE_SECONDS, one that has not for FIRST_PATIENCE_SECONDS: then
its place is probably wrong. Every request has the same effect when it is made twice: a condition
that fails after a first attempt without an answer is reported as `Taken`, for the caller to see
whether the object is its own.

Nothing is logged. Safe from any thread. A process that was forked makes its own connections at its
first request.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http.client import HTTPException
from typing import Final, NamedTuple, TypeVar
from urllib.parse import urlsplit
from xml.sax.saxutils import escape

from strongroom.base import clock
from strongroom.base.errors import RepositoryNotFoundError, StoreError
from strongroom.base.printable import printable
from strongroom.engine.stores.patience import PATIENCE_SECONDS, Patience
from strongroom.engine.stores.place import BucketLocation
from strongroom.engine.stores.s3_access import USUAL_REGION, Access, PassingError
from strongroom.engine.stores.s3_answers import (
    Head,
    KeyVersion,
    Part,
    date_text,
    document,
    element,
    error_of,
    head_of,
    listed,
    uploads_of,
    versions_of,
)
from strongroom.engine.stores.s3_signing import quoted_key, quoted_query, signed
from strongroom.engine.stores.s3_transport import Answer, Connections
from strongroom.engine.stores.shared_counts import Traffic

FIRST_PATIENCE_SECONDS: Final = 20.0
# More than any object that is read whole has: a snapshot of many millions of folders.
_MOST_WHOLE_BYTES: Final = 1 << 30
# Versions that one request removes.
_AT_ONCE: Final = 1000
_PASSING_STATUSES: Final = frozenset((408, 409, 425, 429, 500, 502, 503, 504))
_PASSING_CODES: Final = frozenset(
    ("SlowDown", "Throttling", "ThrottlingException", "RequestTimeout", "ExpiredToken",
     "ExpiredTokenException", "RequestLimitExceeded", "InternalError", "ServiceUnavailable")
)  # fmt: skip
_EXPIRED_CODES: Final = frozenset(("ExpiredToken", "ExpiredTokenException"))
# A bucket of another region is refused so, by a redirection or by the signature's region.
_ELSEWHERE: Final = frozenset((301, 302, 307, 400))
_REGION: Final = re.compile("[A-Za-z0-9-]{1,64}")
_REMEDIES: Final = {
    "InvalidAccessKeyId": "the store does not know this access key",
    "SignatureDoesNotMatch": "the secret access key is wrong",
    "AccessDenied": "this access key lacks the right for it in this bucket",
    "RequestTimeTooSkewed": "correct the clock of this machine",
    "AuthorizationHeaderMalformed": "name the bucket's region: ?region=NAME",
    "PermanentRedirect": "name the bucket's region: ?region=NAME",
}

_Result = TypeVar("_Result")


class Taken(Exception):  # noqa: N818 - it is an answer, not a fault
    """A condition was not met. was_repeated: an earlier attempt may have met it."""

    def __init__(self, *, was_repeated: bool) -> None:
        super().__init__("a condition was not met")
        self.was_repeated = was_repeated


class Missing(Exception):  # noqa: N818 - as above
    """There is no such object."""


class BeyondEnd(Exception):  # noqa: N818 - as above
    """The object ends before the range that was asked for."""


class RefusedError(StoreError):
    """The store refused a request that it understood."""


class Stored(NamedTuple):
    """What a store says of an object that it took. version: "" where it keeps none."""

    tag: str
    version: str


class Retention(NamedTuple):
    """How long a version of an object cannot be removed. mode: as the store spells it."""

    mode: str
    until_ns: int


class Counts(NamedTuple):
    """Requests by what they do, and bytes of objects."""

    requests: dict[str, int]
    sent_bytes: int
    received_bytes: int


class Request(NamedTuple):
    """One request. key: "" for the bucket itself. most_bytes: of an object's content."""

    verb: str
    method: str
    key: str = ""
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    content: bytes | bytearray = b""
    most_bytes: int | None = None


class S3Client:
    """Requests to one bucket. Failures are StoreError."""

    def __init__(
        self, place: BucketLocation, access: Access | None = None, *, is_known: bool = False
    ) -> None:
        """access: keys and region as they were found. is_known: the store has answered."""
        self._place = place
        self._lock = threading.Lock()
        self._access = access
        # Where the store says that the bucket is.
        self._found_region = ""
        self._connections: Connections | None = None
        self._endpoint = ""
        self._process = 0
        self._is_known = is_known
        self._requests: dict[str, int] = {}
        self._sent_bytes = self._received_bytes = 0
        self.traffic: Traffic | None = None

    def again(self) -> S3Client:
        """Another for the same place, with its own connections."""
        again = S3Client(self._place, self._access, is_known=self._is_known)
        again.traffic, again._found_region = self.traffic, self._found_region
        return again

    @property
    def counts(self) -> Counts:
        """What this client has asked for so far."""
        with self._lock:
            return Counts(dict(self._requests), self._sent_bytes, self._received_bytes)

    def put(
        self,
        key: str,
        data: bytes | bytearray,
        *,
        is_new: bool = False,
        tag: str | None = None,
        retention: Retention | None = None,
    ) -> Stored:
        """Store an object whole. is_new, tag: only if none, or this, is there.

        Raises Taken.
        """
        headers = {"if-none-match": "*"} if is_new else {}
        if tag is not None:
            headers = {"if-match": tag}
        if retention is not None:
            headers["x-amz-object-lock-mode"] = retention.mode
            headers["x-amz-object-lock-retain-until-date"] = date_text(retention.until_ns)
            headers |= _digest(data)
        answer = self.ask(Request("put_object", "PUT", key, headers=headers, content=data), _as_is)
        with self._lock:
            self._sent_bytes += len(data)
        if self.traffic is not None:
            self.traffic.count(sent_bytes=len(data))
        return Stored(answer.headers.get("etag", ""), answer.headers.get("x-amz-version-id", ""))

    def get(self, key: str, first: int = 0, last: int | None = None, version: str = "") -> bytes:
        """The bytes from `first` to `last`, or to the end. Raises Missing, BeyondEnd."""
        is_whole = first == 0 and last is None
        headers = {} if is_whole else {"range": f"bytes={first}-{'' if last is None else last}"}
        most_bytes = _MOST_WHOLE_BYTES if last is None else last - first + 1
        request = Request(
            "get_object", "GET", key, _of_version(version), headers, most_bytes=most_bytes
        )
        data = self.ask(request, _as_is).content
        with self._lock:
            self._received_bytes += len(data)
        if self.traffic is not None:
            self.traffic.count(received_bytes=len(data))
        return data

    def head(self, key: str, version: str = "") -> Head:
        """Size, time, tag and retention of an object. Raises Missing."""
        request = Request("head_object", "HEAD", key, _of_version(version))
        return self.ask(request, lambda answer: head_of(answer.headers))

    def part_of_list(self, prefix: str, after: str) -> tuple[list[tuple[str, Head]], str]:
        """Objects whose keys begin with `prefix`, and what is passed for the next part, or ""."""
        query = {"list-type": "2", "prefix": prefix, "encoding-type": "url"}
        query |= {"continuation-token": after} if after else {}
        found, is_cut, following = self.ask(
            Request("list_objects_v2", "GET", query=query), _list_of
        )
        if (is_cut and not following) or (after and following == after):
            # A prune that missed a snapshot would remove what it needs.
            raise self._cut_list()
        return found, following

    def delete(self, key: str) -> str:
        """Remove an object; a missing one is not an error.

        The version of the mark that a bucket with versions lays over the object, else "".
        """
        try:
            headers = self.ask(Request("delete_object", "DELETE", key), _as_is).headers
        except Missing:
            return ""
        is_marker = headers.get("x-amz-delete-marker", "").lower() == "true"
        return headers.get("x-amz-version-id", "") if is_marker else ""

    def keeps_versions(self) -> bool:
        """Whether the bucket keeps what is overwritten or deleted."""
        request = Request("get_bucket_versioning", "GET", query={"versioning": ""})
        return self.ask(request, _document_of).text("Status") == "Enabled"

    def part_of_versions(
        self, prefix: str, after: tuple[str, str]
    ) -> tuple[list[KeyVersion], tuple[str, str]]:
        """Versions and marks of keys that begin with `prefix`, and what to pass for the next part.

        ("", "") begins and ends. Of each key the newest version is first; marks come apart.
        """
        query = {"versions": "", "prefix": prefix, "encoding-type": "url"}
        query |= {"key-marker": after[0]} if after[0] else {}
        query |= {"version-id-marker": after[1]} if after[1] else {}
        found, is_cut, following = self.ask(
            Request("list_object_versions", "GET", query=query), _versions_of
        )
        if not is_cut:
            following = ("", "")
        elif not following[0] or following == after:
            raise self._cut_list()
        return found, following

    def delete_version(self, key: str, version: str) -> None:
        """Remove one version for good. Raises RefusedError where it is locked."""
        with suppress(Missing):
            self.ask(Request("delete_object", "DELETE", key, _of_version(version)), _as_is)

    def delete_versions(self, versions: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
        """Remove versions (keys and ids) for good; those that the store did not remove."""
        left: set[tuple[str, str]] = set()
        for first in range(0, len(versions), _AT_ONCE):
            some = versions[first : first + _AT_ONCE]
            objects = [
                element("Object", element("Key", escape(key)), element("VersionId", escape(one)))
                for key, one in some
            ]
            content = element("Delete", *objects, element("Quiet", "true")).encode()
            root = self.ask(
                Request("delete_objects", "POST", "", {"delete": ""}, _digest(content), content),
                _document_of,
            )
            # Of a key without a version any may be left: a mark must not go before them.
            failed = {(one.text("Key"), one.text("VersionId")) for one in root.parts("Error")}
            left.update(one for one in some if one in failed or (one[0], "") in failed)
        return left

    def retain(self, key: str, version: str, retention: Retention) -> None:
        """Set the retention of a version. Raises RefusedError where it would end earlier."""
        mode = element("Mode", retention.mode)
        until = element("RetainUntilDate", date_text(retention.until_ns))
        content = element("Retention", mode, until).encode()
        query = {"retention": "", "versionId": version}
        verb = "put_object_retention"
        self.ask(Request(verb, "PUT", key, query, _digest(content), content), _as_is)

    def make_bucket(self, *, can_lock: bool = False) -> None:
        """Make the bucket where there is none."""
        try:
            self.ask(Request("head_bucket", "HEAD"), _as_is)
        except RepositoryNotFoundError:
            headers = {"x-amz-bucket-object-lock-enabled": "true"} if can_lock else {}
            region, content = self._region(self._access_now()), b""
            if region != USUAL_REGION:
                where = element("LocationConstraint", region)
                content = element("CreateBucketConfiguration", where).encode()
                headers |= _digest(content)
            with suppress(Taken):
                self.ask(Request("create_bucket", "PUT", "", {}, headers, content), _as_is)

    def begun_uploads(self, prefix: str) -> list[tuple[str, str, int]]:
        """Uploads in parts that no one has finished: key, id, and when they began.

        The first thousand: once these are gone others follow.
        """
        query = {"uploads": "", "prefix": prefix, "encoding-type": "url"}
        request = Request("list_multipart_uploads", "GET", query=query)
        return self.ask(request, lambda answer: uploads_of(document(answer.content)))

    def abort_upload(self, key: str, upload: str) -> None:
        """Remove what was sent of an upload in parts."""
        with suppress(Missing):
            request = Request("abort_multipart_upload", "DELETE", key, {"uploadId": upload})
            self.ask(request, _as_is)

    def close(self) -> None:
        """Close the connections of this process."""
        with self._lock:
            if self._connections is not None and self._process == os.getpid():
                self._connections.close()
            self._connections = None

    def ask(self, request: Request, read: Callable[[Answer], _Result]) -> _Result:
        """Make a request until it succeeds; what `read` makes of the answer.

        Raises StoreError, and Taken, Missing, BeyondEnd.
        """
        patience, attempt = Patience(self._place.text), 0
        while True:
            attempt += 1
            with self._lock:
                self._requests[request.verb] = self._requests.get(request.verb, 0) + 1
            if self.traffic is not None:
                self.traffic.count(1)
            began_ns, asked_seconds = clock.since_boot_ns(), 0.0
            access = self._access_now()
            region = self._region(access)
            try:
                answer = self._send(request, access, region)
                self._is_known = True
                if self.traffic is not None:
                    self.traffic.answered(began_ns)
                if answer.status < 300 and not _is_late_error(request, answer):
                    return read(answer)
                asked_seconds = _asked_pause(answer)
                was_repeated = attempt > 1
                failure = self._of_answer(
                    request, access, region, answer, was_repeated=was_repeated
                )
            except PassingError as error:
                failure = error
            except (OSError, HTTPException) as error:
                failure = PassingError(f"no answer ({type(error).__name__})")
            except (ValueError, LookupError) as error:
                raise StoreError(
                    f"{printable(self._place.text)}: what answers there does not speak S3 "
                    f"({request.verb}: {printable(str(error), 200)}); correct the place"
                ) from None
            if not isinstance(failure, PassingError):
                raise failure
            if not isinstance(failure, _MovedError):
                most_seconds = PATIENCE_SECONDS if self._is_known else FIRST_PATIENCE_SECONDS
                patience.wait(failure, most_seconds, asked_seconds)

    def _send(self, request: Request, access: Access, region: str) -> Answer:
        if not _REGION.fullmatch(region):
            raise StoreError(
                f"{printable(self._place.text)}: {printable(region, 80)!r} is not the name of a "
                "region; correct AWS_DEFAULT_REGION or ~/.aws/config"
            )
        endpoint, top = self._where(access, region)
        path = quoted_key(f"{top}/{request.key}" if request.key else top or "/")
        query = quoted_query(request.query)
        headers = {**request.headers, "host": urlsplit(endpoint).netloc}
        content = request.content
        headers = signed(access.keys(), region, request.method, path, query, headers, content)
        target = f"{path}?{query}" if query else path
        connections = self._connections_of_this_process(endpoint, access)
        return connections.ask(request.method, target, headers, content, request.most_bytes)

    def _where(self, access: Access, region: str) -> tuple[str, str]:
        """The server, and what comes before a key in a path."""
        bucket = self._place.bucket
        style = access.addressing_style
        # The certificate is of names with one part before this.
        is_part = bucket == bucket.lower() and "." not in bucket and "_" not in bucket
        if endpoint := self._place.endpoint or access.endpoint:
            parts = urlsplit(endpoint)
            # With an @ it has a password, of which another message might quote a part.
            if parts.scheme not in ("http", "https") or not parts.hostname or "@" in endpoint:
                raise StoreError(
                    f"{printable(self._place.text)}: the endpoint in AWS_ENDPOINT_URL or "
                    "~/.aws/config is not http://HOST:PORT or https://HOST"
                )
            # Servers of one's own have no name for each bucket, unless that is stated.
            is_name = ":" not in parts.hostname and not parts.hostname.replace(".", "").isdigit()
            is_part = is_part and is_name and style == "virtual"
            scheme, host, top = parts.scheme, parts.netloc, parts.path.rstrip("/")
        else:
            is_part = is_part and style != "path"
            scheme, host, top = "https", access.host_in(region), ""
        if is_part:
            return f"{scheme}://{bucket}.{host}", top
        return f"{scheme}://{host}", f"{top}/{bucket}"

    def _region(self, access: Access) -> str:
        return self._found_region or self._place.region or access.region

    def _cut_list(self) -> StoreError:
        return StoreError(
            f"{printable(self._place.text)}: the store sent a part of a list and does not say "
            "how to get the rest; update it, or use another"
        )

    def _of_answer(
        self,
        request: Request,
        access: Access,
        used_region: str,
        answer: Answer,
        *,
        was_repeated: bool,
    ) -> Exception:
        """What a refusal means."""
        status, error, verb = answer.status, error_of(answer.content), request.verb
        # What has no content, as the answer to HEAD, has no code.
        code = error.text("Code") if error is not None else "AccessDenied" if status == 403 else ""
        if status == 412 or code == "PreconditionFailed":
            return Taken(was_repeated=was_repeated)
        if code in ("BucketAlreadyOwnedByYou", "BucketAlreadyExists"):
            return Taken(was_repeated=was_repeated)
        if code in _EXPIRED_CODES:
            self._forget(access)
        if status in _PASSING_STATUSES or code in _PASSING_CODES:
            return PassingError(f"the store answered {status} {printable(code, 80)}")
        if status in _ELSEWHERE:
            region = answer.headers.get("x-amz-bucket-region", "")
            region = region or (error.text("Region") if error is not None else "")
            if self._moves(used_region, region):
                return _MovedError(f"the bucket is in {region}")
        if code == "NoSuchBucket" or (status == 404 and verb in ("head_bucket", "list_objects_v2")):
            return RepositoryNotFoundError(
                f"there is no repository at {printable(self._place.text)}: the store has no such "
                "bucket; make one with strongroom init"
            )
        if status == 404:
            # A replacement of what is gone: some stores say it so, some as a condition.
            return Taken(was_repeated=was_repeated) if verb == "put_object" else Missing()
        if status == 416:
            return BeyondEnd()
        remedy = _REMEDIES.get(code, "see the store's log")
        message = printable(error.text("Message") if error is not None else "", 200)
        return RefusedError(
            f"{printable(self._place.text)} refused {verb.replace('_', ' ')}: {status} "
            f"{printable(code, 80)} {message}; {remedy}"
        )

    def _access_now(self) -> Access:
        with self._lock:
            if self._access is None:
                self._access = Access(printable(self._place.text))
            return self._access

    def _forget(self, access: Access) -> None:
        """Read the access keys anew: another program may have renewed their file."""
        with self._lock:
            if self._access is access:
                self._access = None

    def _moves(self, used: str, found: str) -> bool:
        """Whether a request to one region is made again in the one that the store names."""
        if found == used or not _REGION.fullmatch(found):
            return False
        with self._lock:
            # Once: a store that names one region after the other would keep us asking. But several
            # threads may be sent there, each by its own answer.
            self._found_region = self._found_region or found
            return self._found_region == found

    def _connections_of_this_process(self, endpoint: str, access: Access) -> Connections:
        with self._lock:
            is_ours = self._process == os.getpid() and self._endpoint == endpoint
            if self._connections is None or not is_ours:
                self._connections = Connections(endpoint, self._place.text, access.authorities_file)
                self._process, self._endpoint = os.getpid(), endpoint
            return self._connections


class _MovedError(PassingError):
    """The same request succeeds in another region, at once."""


def _is_late_error(request: Request, answer: Answer) -> bool:
    """Whether the store failed after it had begun to answer, as Amazon does."""
    # A mere glance at the content first: a list is long.
    return (
        request.most_bytes is None
        and b"<Error" in answer.content[:512]
        and error_of(answer.content) is not None
    )


def _as_is(answer: Answer) -> Answer:
    return answer


def _document_of(answer: Answer) -> Part:
    return document(answer.content)


def _list_of(answer: Answer) -> tuple[list[tuple[str, Head]], bool, str]:
    root = document(answer.content)
    found = [listed(one) for one in root.parts("Contents")]
    return found, root.is_true("IsTruncated"), root.text("NextContinuationToken")


def _versions_of(answer: Answer) -> tuple[list[KeyVersion], bool, tuple[str, str]]:
    root = document(answer.content)
    following = (root.key("NextKeyMarker"), root.text("NextVersionIdMarker"))
    return versions_of(root), root.is_true("IsTruncated"), following


def _of_version(version: str) -> dict[str, str]:
    return {"versionId": version} if version else {}


def _digest(content: bytes | bytearray) -> dict[str, str]:
    # Amazon demands a digest with a retention and with a document, and takes this one as every
    # server does.
    digest = hashlib.md5(content, usedforsecurity=False).digest()
    return {"content-md5": base64.b64encode(digest).decode()}


def _asked_pause(answer: Answer) -> float:
    """How long the store asks us to wait."""
    text = answer.headers.get("retry-after", "")
    return min(float(text), 60.0) if text.isdecimal() and text.isascii() else 0.0
