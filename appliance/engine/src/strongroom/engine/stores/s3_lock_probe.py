"""Proves that an object store locks objects, by trying it with one that is locked for seconds."""

from __future__ import annotations

import time
from typing import Final

from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import StoreError
from strongroom.engine.stores.object_lock import LockRule
from strongroom.engine.stores.s3_client import (
    Missing,
    RefusedError,
    Retention,
    S3Client,
)

# Long enough for the few requests in between.
_PROBE_NS: Final = 20 * SECOND_NS
_A_SECOND: Final = 1.1
_LOCKED: Final = b"an object that is locked\n"
_HOW: Final = (
    "object lock must be turned on for the bucket: name a bucket that does not exist yet, so that "
    "init makes it, or turn on versioning and object lock where the provider allows it"
)


def broken_lock(client: S3Client, key: str, rule: LockRule) -> str:
    """What the store does not keep of object lock; "" where it keeps all of it.

    What it leaves is a version of `key` that is locked for some seconds.
    """
    if not client.keeps_versions():
        return (
            "its bucket keeps no versions, so anyone who has the access key could overwrite "
            f"what is locked; {_HOW}"
        )
    client.put(key, b"the time of the store\n")
    before = client.head(key)
    if before.locked_until_ns:
        return (
            "its bucket has a default retention, which would also lock leases; remove it: "
            "Strongroom sets a retention for each object that needs one"
        )
    mode, until_ns = rule.mode.upper(), before.modified_ns + _PROBE_NS
    try:
        version = client.put(key, _LOCKED, retention=Retention(mode, until_ns)).version
    except RefusedError as error:
        return f"it does not store an object with a retention ({error}); {_HOW}"
    head = client.head(key)
    if not version or head.lock_mode != mode or head.locked_until_ns != until_ns:
        return f"it does not keep the retention that an object was stored with; {_HOW}"
    if _removes(client, key, version):
        return "it removes a version of an object that is locked"
    if _changes(client, key, version, Retention(mode, until_ns - _PROBE_NS // 2)):
        return "it lets a retention be shortened"
    stored_ns = _stored_ns(client, key, version)
    # Times are whole seconds.
    time.sleep(_A_SECOND)
    if not _changes(client, key, version, Retention(mode, until_ns + SECOND_NS)):
        return (
            "it does not let a retention be extended, or this access key may not "
            "(s3:PutObjectRetention)"
        )
    if _stored_ns(client, key, version) != stored_ns:
        return (
            "it forgets when an object was stored once its retention is extended, so the "
            "repository could not be read as of an earlier time"
        )
    client.delete(key)
    try:
        if client.get(key, version=version) == _LOCKED:
            return ""
    except Missing:
        pass
    return "it does not return a version of an object that was deleted after it"


def _stored_ns(client: S3Client, key: str, version: str) -> int:
    found, _ = client.part_of_versions(key, ("", ""))
    return next((one.stored_ns for one in found if one.version == version), 0)


def _removes(client: S3Client, key: str, version: str) -> bool:
    """Whether a version goes, by either of the two requests that remove one."""
    client.delete_versions([(key, version)])
    try:
        client.delete_version(key, version)
    except StoreError:
        return False
    return True


def _changes(client: S3Client, key: str, version: str, retention: Retention) -> bool:
    try:
        client.retain(key, version, retention)
    except RefusedError:
        return False
    return client.head(key, version).locked_until_ns == retention.until_ns
