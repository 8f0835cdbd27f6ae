"""Proves that an object store keeps what repositories rest on, by trying it.

Some servers answer 200 to every condition and overwrite what is there. Two writers would then take
each other's names, and a prune the packs of a backup that runs. So each promise is tried with
objects of random names, when a repository is made and by `check`; they are removed again.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import StoreError
from strongroom.base.printable import printable
from strongroom.engine.stores.object_lock import LockRule
from strongroom.engine.stores.s3_client import BeyondEnd, Missing, S3Client, Taken
from strongroom.engine.stores.s3_lock_probe import broken_lock

# An hour off is somebody's error; seconds are the way there.
_CLOCKS_DIFFER_NS: Final = 600 * SECOND_NS
_CONTENT: Final = b"a promise that is being tried\n"
_NEW: Final = b"a newer object\n"


def prove(client: S3Client, prefix: str, location: str, rule: LockRule | None = None) -> None:
    """Raise StoreError that names the first promise that the store breaks.

    rule: how it must lock objects. What was locked for that is removed by the next probe that is
    an hour later or more.
    """
    key = prefix + clock.random_bytes(12).hex()
    try:
        broken = _broken(client, key) or ("" if rule is None else broken_lock(client, key, rule))
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
