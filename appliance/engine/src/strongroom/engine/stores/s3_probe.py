"""Proves that an object store keeps what repositories rest on, by trying it.

Some servers answer 200 to every condition and overwrite what is there. Two writers would then take
each other's names, and a prune the packs of a backup that runs. So each promise is tried with
objects of random names, when a repository is made and by `check`; they are removed again.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Final

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import StoreError
from strongroom.base.printable import printable
from strongroom.engine.stores.object_lock import LockRule
from strongroom.engine.stores.s3_client import (
    BeyondEnd,
    Missing,
    RefusedError,
    Retention,
    S3Client,
    Taken,
)

# An hour off is somebody's error; seconds are the way there.
_CLOCKS_DIFFER_NS: Final = 600 * SECOND_NS
_CONTENT: Final = b"a promise that is being tried\n"
_NEW: Final = b"a newer object\n"
# How long the object is locked with which locks are tried: for the few requests in between.
_PROBE_NS: Final = 20 * SECOND_NS
_A_SECOND: Final = 1.1
_LOCKED: Final = b"an object that is locked\n"
_HOW: Final = (
    "object lock must be turned on for the bucket: name a bucket that does not exist yet, so that "
    "init makes it, or turn on versioning and object lock where the provider allows it"
)


def prove(client: S3Client, prefix: str, location: str, rule: LockRule | None = None) -> None:
    """Raise StoreError that names the first promise that the store breaks.

    rule: how it must lock objects. What was locked for that is removed by the next probe that is
    an hour later or more.
    """
    key = prefix + clock.random_bytes(12).hex()
    try:
        broken = _broken(client, key) or ("" if rule is None else _broken_lock(client, key, rule))
    finally:
        with suppress(Taken, StoreError):
            client.delete(key)
            if rule is not None:
                # All but what is locked for some seconds, which stays hidden by its mark.
                found, _ = client.part_of_versions(key, ("", ""))
                client.delete_versions([(key, one.version) for one in found if not one.is_marker])
    if broken:
        raise StoreError(
            f"the store at {printable(location)} cannot keep a repository: {broken}. Use another "
            "server or a newer version of this one, or put a storage daemon or ssh before a folder"
        )


def _broken(client: S3Client, key: str) -> str:
    try:
        first = client.put(key, _CONTENT, is_new=True).tag
    except Taken as taken:
        first = _tag_of_lost_answer(client, key, _CONTENT, taken)
        if not first:
            return "it does not create an object that is not there (If-None-Match: *)"
    try:
        client.put(key, b"another", is_new=True)
    except Taken:
        pass
    else:
        return (
            "it overwrites an object although the request says to create a new one only "
            "(If-None-Match: *), so one job would overwrite what another has stored"
        )
    if client.get(key) != _CONTENT:
        return "it refused to overwrite an object, and changed it all the same"
    second = _replaced(client, key, first)
    if not second:
        return (
            "it does not replace an object whose tag is given (If-Match), so leases could not be "
            "renewed"
        )
    try:
        client.put(key, b"stale", tag=first)
    except (Taken, Missing):
        pass
    else:
        return (
            "it replaces an object although its tag is not the one that is given (If-Match), so a "
            "job whose lease was ended could take it again"
        )
    if client.get(key, 2, 4) != _NEW[2:5]:
        return "it does not return the part of an object that is asked for"
    with suppress(BeyondEnd):
        if client.get(key, 1 << 20, (1 << 20) + 1):
            return "it returns something beyond the end of an object"
    listed, _ = client.part_of_list(key, "")
    if [found for found, _ in listed] != [key]:
        return "it does not list an object that was stored just now"
    ahead_ns = client.head(key).modified_ns - clock.now_ns()
    if abs(ahead_ns) > _CLOCKS_DIFFER_NS:
        return (
            f"its clock differs from this machine's by {abs(ahead_ns) / SECOND_NS:.0f} s; correct "
            "the one that is wrong"
        )
    client.delete(key)
    try:
        client.head(key)
    except Missing:
        return ""
    return "it still has an object that was deleted"


def _replaced(client: S3Client, key: str, tag: str) -> str:
    """The tag of what replaced the object, "" where neither spelling of its tag is accepted."""
    for spelling in (tag, tag.strip('"')):
        try:
            return client.put(key, _NEW, tag=spelling).tag
        except Taken as taken:
            if replaced := _tag_of_lost_answer(client, key, _NEW, taken):
                return replaced
        except Missing:
            pass
    return ""


def _tag_of_lost_answer(client: S3Client, key: str, content: bytes, taken: Taken) -> str:
    """The tag of what an attempt stored whose answer was lost, "" where none did."""
    with suppress(Missing):
        if taken.was_repeated and client.get(key) == content:
            return client.head(key).tag
    return ""


def _broken_lock(client: S3Client, key: str, rule: LockRule) -> str:
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
