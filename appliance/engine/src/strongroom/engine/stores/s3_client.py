"""Requests to an object store that speaks S3, made again until they succeed or time is up.

botocore signs and sends; it finds access keys where all of Amazon's programs do (environment,
profiles, the role of a machine or a container) and renews them before they expire. It logs nothing.

A request that fails for a reason that may pass (no connection, 500, 503 SlowDown, 429) is made
again after a random, growing time, or after as long as the store asks for. A store that has
answered before may be away for PATIENCE_SECONDS, one that has not for FIRST_PATIENCE_SECONDS: then
its place is probably wrong. Every request has the same effect when it is made twice: a condition
that fails after a first attempt without an answer is reported as `Taken`, for the caller to see
whether the object is its own.

Safe from any thread. A process that was forked makes its own client at its first request:
connections would be shared otherwise.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import os
import re
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from strongroom.base import clock
from strongroom.base.errors import RepositoryNotFoundError, StoreError
from strongroom.base.printable import printable
from strongroom.engine.stores.patience import PATIENCE_SECONDS, Patience

if TYPE_CHECKING:
    from strongroom.engine.stores.place import BucketLocation
    from strongroom.engine.stores.shared_counts import Traffic

FIRST_PATIENCE_SECONDS: Final = 20.0
_CONNECT_SECONDS: Final = 10.0
# More than any object that is read whole has: a snapshot of many millions of folders.
_MOST_WHOLE_BYTES: Final = 1 << 30
_CONNECTIONS: Final = 40
_COUNTING_VERSION: Final = re.compile("[0-9a-f]{32}")
# Nothing was stored before 2020.
_LEAST_STORED_NS: Final = 1_577_836_800 * clock.SECOND_NS
# Versions that one request removes.
_AT_ONCE: Final = 1000
_PASSING_STATUSES: Final = frozenset((408, 409, 425, 429, 500, 502, 503, 504))
_PASSING_CODES: Final = frozenset(
    ("SlowDown", "Throttling", "ThrottlingException", "RequestTimeout", "ExpiredToken",
     "ExpiredTokenException", "RequestLimitExceeded", "InternalError", "ServiceUnavailable")
)  # fmt: skip
_EXPIRED_CODES: Final = frozenset(("ExpiredToken", "ExpiredTokenException"))
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


class Head(NamedTuple):
    """What the store knows of an object without its content.

    locked_until_ns: the end of its retention, 0 where it has none.
    """

    size_bytes: int
    modified_ns: int
    tag: str
    lock_mode: str = ""
    locked_until_ns: int = 0


class Stored(NamedTuple):
    """What a store says of an object that it took. version: "" where it keeps none."""

    tag: str
    version: str


class Retention(NamedTuple):
    """How long a version of an object cannot be removed. mode: as the store spells it."""

    mode: str
    until_ns: int


class KeyVersion(NamedTuple):
    """One version of a key, or a mark that it was deleted."""

    key: str
    version: str
    size_bytes: int
    stored_ns: int
    is_marker: bool
    is_current: bool


class Counts(NamedTuple):
    """Requests by what they do, and bytes of objects."""

    requests: dict[str, int]
    sent_bytes: int
    received_bytes: int


class S3Client:
    """Requests to one bucket. Failures are StoreError."""

    def __init__(
        self, place: BucketLocation, session: object = None, *, is_known: bool = False
    ) -> None:
        """session: of botocore, which has read what S3 is. is_known: the store has answered."""
        self._place = place
        self._lock = threading.Lock()
        self._session: Any = session
        self._client: Any = None
        self._process = 0
        self._is_known = is_known
        self._requests: dict[str, int] = {}
        self._sent_bytes = self._received_bytes = 0
        self.traffic: Traffic | None = None

    def again(self) -> S3Client:
        """Another for the same place, with its own connections."""
        again = S3Client(self._place, self._session, is_known=self._is_known)
        again.traffic = self.traffic
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
        words: dict[str, Any] = {"IfNoneMatch": "*"} if is_new else {}
        if tag is not None:
            words = {"IfMatch": tag}
        if retention is not None:
            words["ObjectLockMode"] = retention.mode
            words["ObjectLockRetainUntilDate"] = _date(retention.until_ns)
            # Amazon demands a digest with a retention, and takes this one as every server does.
            digest = hashlib.md5(data, usedforsecurity=False).digest()
            words["ContentMD5"] = base64.b64encode(digest).decode()
        answer = self._ask("put_object", Key=key, Body=data, **words)
        with self._lock:
            self._sent_bytes += len(data)
        if self.traffic is not None:
            self.traffic.count(sent_bytes=len(data))
        return Stored(str(answer.get("ETag", "")), str(answer.get("VersionId") or ""))

    def get(self, key: str, first: int = 0, last: int | None = None, version: str = "") -> bytes:
        """The bytes from `first` to `last`, or to the end. Raises Missing, BeyondEnd."""
        part = {} if first == 0 and last is None else {"Range": f"bytes={first}-{_end(last)}"}
        if version:
            part["VersionId"] = version

        most_bytes = _MOST_WHOLE_BYTES if last is None else last - first + 1

        def read(client: Any) -> bytes:
            from strongroom.engine.stores.s3_transport import read_most

            answer = client.get_object(Bucket=self._place.bucket, Key=key, **part)
            # Not `with body`: that gives what is below it, which takes a cut for the end.
            with closing(answer["Body"]) as body:
                return read_most(body, most_bytes, self._place.text)

        data = self._repeat("get_object", read)
        with self._lock:
            self._received_bytes += len(data)
        if self.traffic is not None:
            self.traffic.count(received_bytes=len(data))
        return data

    def head(self, key: str, version: str = "") -> Head:
        """Size, time, tag and retention of an object. Raises Missing."""
        answer = self._ask("head_object", Key=key, **({"VersionId": version} if version else {}))
        until = answer.get("ObjectLockRetainUntilDate")
        return Head(
            answer["ContentLength"],
            _ns(answer["LastModified"]),
            str(answer["ETag"]),
            str(answer.get("ObjectLockMode") or ""),
            0 if until is None else _ns(until),
        )

    def part_of_list(self, prefix: str, after: str) -> tuple[list[tuple[str, Head]], str]:
        """Objects whose keys begin with `prefix`, and what is passed for the next part, or ""."""
        more = {"ContinuationToken": after} if after else {}
        answer = self._ask("list_objects_v2", Prefix=prefix, **more)
        following = str(answer.get("NextContinuationToken") or "")
        if (answer.get("IsTruncated") and not following) or (after and following == after):
            # A prune that missed a snapshot would remove what it needs.
            raise self._cut_list()
        found = [
            (str(one["Key"]), Head(one["Size"], _ns(one["LastModified"]), str(one.get("ETag", ""))))
            for one in answer.get("Contents", ())
        ]
        return found, following

    def delete(self, key: str) -> str:
        """Remove an object; a missing one is not an error.

        The version of the mark that a bucket with versions lays over the object, else "".
        """
        try:
            answer = self._ask("delete_object", Key=key)
        except Missing:
            return ""
        return str(answer.get("VersionId") or "") if answer.get("DeleteMarker") else ""

    def keeps_versions(self) -> bool:
        """Whether the bucket keeps what is overwritten or deleted."""
        return bool(self._ask("get_bucket_versioning").get("Status") == "Enabled")

    def part_of_versions(
        self, prefix: str, after: tuple[str, str]
    ) -> tuple[list[KeyVersion], tuple[str, str]]:
        """Versions and marks of keys that begin with `prefix`, and what to pass for the next part.

        ("", "") begins and ends. Of each key the newest version is first; marks come apart.
        """
        words = {"KeyMarker": after[0], "VersionIdMarker": after[1]} if any(after) else {}
        if words and not after[1]:
            del words["VersionIdMarker"]
        answer = self._ask("list_object_versions", Prefix=prefix, **words)
        following = (
            str(answer.get("NextKeyMarker") or ""),
            str(answer.get("NextVersionIdMarker") or ""),
        )
        if not answer.get("IsTruncated"):
            following = ("", "")
        elif not following[0] or following == after:
            raise self._cut_list()
        found = [
            KeyVersion(
                str(one["Key"]),
                str(one["VersionId"]),
                int(one.get("Size") or 0),
                time_of_version(str(one["VersionId"]), _ns(one["LastModified"])),
                is_marker,
                bool(one.get("IsLatest")),
            )
            for what, is_marker in (("Versions", False), ("DeleteMarkers", True))
            for one in answer.get(what, ())
        ]
        return found, following

    def delete_version(self, key: str, version: str) -> None:
        """Remove one version for good. Raises RefusedError where it is locked."""
        with suppress(Missing):
            self._ask("delete_object", Key=key, VersionId=version)

    def delete_versions(self, versions: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
        """Remove versions (keys and ids) for good; those that the store did not remove."""
        left: set[tuple[str, str]] = set()
        for first in range(0, len(versions), _AT_ONCE):
            some = versions[first : first + _AT_ONCE]
            objects = [{"Key": key, "VersionId": version} for key, version in some]
            answer = self._ask("delete_objects", Delete={"Objects": objects, "Quiet": True})
            # Of a key without a version any may be left: a mark must not go before them.
            failed = {(one.get("Key"), one.get("VersionId")) for one in answer.get("Errors", ())}
            left.update(one for one in some if one in failed or (one[0], None) in failed)
        return left

    def retain(self, key: str, version: str, retention: Retention) -> None:
        """Set the retention of a version. Raises RefusedError where it would end earlier."""
        wanted = {
            "Mode": retention.mode,
            "RetainUntilDate": _date(retention.until_ns),
        }
        self._ask("put_object_retention", Key=key, VersionId=version, Retention=wanted)

    def make_bucket(self, *, can_lock: bool = False) -> None:
        """Make the bucket where there is none."""
        try:
            self._ask("head_bucket")
        except RepositoryNotFoundError:
            region = self._client.meta.region_name
            words: dict[str, Any] = {"ObjectLockEnabledForBucket": True} if can_lock else {}
            if region != "us-east-1":
                words["CreateBucketConfiguration"] = {"LocationConstraint": region}
            with suppress(Taken):
                self._ask("create_bucket", **words)

    def begun_uploads(self, prefix: str) -> list[tuple[str, str, int]]:
        """Uploads in parts that no one has finished: key, id, and when they began.

        The first thousand: once these are gone others follow.
        """
        answer = self._ask("list_multipart_uploads", Prefix=prefix)
        return [
            (str(one["Key"]), str(one["UploadId"]), _ns(one["Initiated"]))
            for one in answer.get("Uploads", ())
        ]

    def abort_upload(self, key: str, upload: str) -> None:
        """Remove what was sent of an upload in parts."""
        try:
            self._ask("abort_multipart_upload", Key=key, UploadId=upload)
        except Missing:
            return

    def close(self) -> None:
        """Close the connections of this process."""
        with self._lock:
            if self._client is not None and self._process == os.getpid():
                self._client.close()
            self._client = None

    def _ask(self, verb: str, **words: Any) -> dict[str, Any]:
        words["Bucket"] = self._place.bucket

        def ask(client: Any) -> dict[str, Any]:
            answer: dict[str, Any] = getattr(client, verb)(**words)
            return answer

        return self._repeat(verb, ask)

    def _cut_list(self) -> StoreError:
        return StoreError(
            f"{printable(self._place.text)}: the store sent a part of a list and does not say "
            "how to get the rest; update it, or use another"
        )

    def _repeat(self, verb: str, work: Callable[[Any], _Result]) -> _Result:
        client = self._client_of_this_process()
        from botocore.exceptions import BotoCoreError, ClientError

        patience, attempt = Patience(self._place.text), 0
        while True:
            attempt += 1
            with self._lock:
                self._requests[verb] = self._requests.get(verb, 0) + 1
            if self.traffic is not None:
                self.traffic.count(1)
            began_ns = clock.since_boot_ns()
            try:
                result = work(client)
            except ClientError as error:
                self._is_known = True
                if self.traffic is not None:
                    self.traffic.answered(began_ns)
                asked_seconds = _asked_pause(error)
                failure = self._of_answer(verb, error, was_repeated=attempt > 1)
                if _code(error) in _EXPIRED_CODES:
                    client = self._with_new_keys(client)
            except BotoCoreError as error:
                asked_seconds = 0.0
                failure = self._of_connection(error)
            else:
                self._is_known = True
                if self.traffic is not None:
                    self.traffic.answered(began_ns)
                return result
            if not isinstance(failure, _PassingError):
                raise failure from None
            most_seconds = PATIENCE_SECONDS if self._is_known else FIRST_PATIENCE_SECONDS
            patience.wait(failure, most_seconds, asked_seconds)

    def _of_answer(self, verb: str, error: Any, *, was_repeated: bool) -> Exception:
        """What a refusal means."""
        answer = error.response
        status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        code = _code(error)
        if status == 412 or code == "PreconditionFailed":
            return Taken(was_repeated=was_repeated)
        if code in ("BucketAlreadyOwnedByYou", "BucketAlreadyExists"):
            return Taken(was_repeated=was_repeated)
        if status in _PASSING_STATUSES or code in _PASSING_CODES:
            return _PassingError(f"the store answered {status} {printable(code, 80)}")
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
        message = printable(str(answer.get("Error", {}).get("Message", "")), 200)
        return RefusedError(
            f"{printable(self._place.text)} refused {verb.replace('_', ' ')}: {status} "
            f"{printable(code, 80)} {message}; {remedy}"
        )

    def _of_connection(self, error: Exception) -> Exception:
        from botocore import exceptions

        shown = printable(self._place.text)
        if isinstance(error, exceptions.NoCredentialsError | exceptions.PartialCredentialsError):
            return StoreError(
                f"{shown}: no access key was found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
                ", or write ~/.aws/credentials and name the profile in AWS_PROFILE"
            )
        if isinstance(error, exceptions.ProfileNotFound | exceptions.ConfigParseError):
            return StoreError(f"{shown}: {printable(str(error))}; see ~/.aws/config")
        if isinstance(error, exceptions.ParamValidationError | exceptions.SSLError):
            return StoreError(f"{shown}: {printable(str(error), 400)}; correct the place")
        return _PassingError(f"no answer ({type(error).__name__})")

    def _with_new_keys(self, expired: Any) -> Any:
        """A client that reads the access keys anew: another program may have renewed their file."""
        with self._lock:
            if self._client is expired:
                self._session = None
                self._client = self._new_client()
            return self._client

    def _client_of_this_process(self) -> Any:
        with self._lock:
            if self._client is None or self._process != os.getpid():
                self._client = self._new_client()
                self._process = os.getpid()
            return self._client

    def _new_client(self) -> Any:
        try:
            from botocore.config import Config
            from botocore.exceptions import BotoCoreError
            from botocore.session import Session

            from strongroom.engine.stores.s3_transport import SILENCE_SECONDS, bound
        except ModuleNotFoundError as error:
            from strongroom.base.parts import missing_library

            raise missing_library(error.name or "botocore") from error
        # Its debugging shows signatures and parts of what is sent.
        for name in ("botocore", "urllib3"):
            logging.getLogger(name).setLevel(logging.WARNING)
        configuration = Config(
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=SILENCE_SECONDS,
            max_pool_connections=_CONNECTIONS,
            retries={"total_max_attempts": 1},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            # The signature covers the content, so the store refuses what changed on its way.
            s3={"payload_signing_enabled": True, **self._addressing()},
        )
        try:
            # A session is kept over a fork: it has read the files and holds no connection.
            self._session = self._session or Session()
            region = self._place.region or self._session.get_config_variable("region")
            client = self._session.create_client(
                "s3",
                region_name=region or "us-east-1",
                endpoint_url=self._place.endpoint or None,
                config=configuration,
            )
        except BotoCoreError as error:
            failure = self._of_connection(error)
            raise StoreError(str(failure)) from error
        bound(client, self._place.text)
        return client

    def _addressing(self) -> dict[str, str]:
        # Servers of one's own have no name for each bucket.
        return {"addressing_style": "path"} if self._place.endpoint else {}


class _PassingError(StoreError):
    """A failure that may be gone at the next attempt."""


def _end(last: int | None) -> str:
    return "" if last is None else str(last)


def _ns(time_of_store: datetime) -> int:
    """Whole seconds: some stores have fractions in lists alone."""
    return int(time_of_store.timestamp()) * clock.SECOND_NS


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _date(time_ns: int) -> datetime:
    return datetime.fromtimestamp(time_ns // clock.SECOND_NS, UTC)


def time_of_version(version: str, modified_ns: int) -> int:
    """When a version was stored, in whole seconds.

    SeaweedFS changes the time of a version whose retention is extended. But it is also in the id,
    which the store alone gives: 16 hex digits, of the latest number less the nanoseconds.
    """
    if _COUNTING_VERSION.fullmatch(version):
        stored_ns = (1 << 63) - 1 - int(version[:16], 16)
        if _LEAST_STORED_NS < stored_ns <= modified_ns + clock.SECOND_NS:
            return stored_ns // clock.SECOND_NS * clock.SECOND_NS
    return modified_ns


def _asked_pause(error: Any) -> float:
    """How long the store asks us to wait."""
    headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    text = str(headers.get("retry-after", ""))
    return min(float(text), 60.0) if text.isdigit() else 0.0
