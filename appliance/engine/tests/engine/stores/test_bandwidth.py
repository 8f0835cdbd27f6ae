"""The limit of bytes a second: over processes, over threads, and while it changes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from pathlib import Path

from kit.killed_process import in_child
from strongroom.engine.stores.limited import LimitedStore, SharedBucket
from strongroom.engine.stores.local import LocalStore

NAME = "ab" * 32


class Counter:
    """A limiter that lets everything through and counts it."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def take(self, size_bytes: int) -> None:
        self.sizes.append(size_bytes)


def test_processes_and_threads_share_one_limit() -> None:
    bucket = SharedBucket(1_000_000)
    before = time.monotonic()

    def take() -> None:
        for _ in range(10):
            bucket.take(20_000)

    def be_child() -> None:
        threads = [threading.Thread(target=take) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    child = threading.Thread(target=lambda: in_child(be_child))
    child.start()
    take()
    child.join()
    # 600,000 bytes, of which a tenth of a second's worth is free.
    assert time.monotonic() - before > 0.4
    assert bucket.taken_bytes == 600_000


def test_who_waits_feels_a_new_limit() -> None:
    bucket = SharedBucket(1)
    bucket.take(1000)
    waiting = threading.Thread(target=bucket.take, args=(1000,))
    waiting.start()
    waiting.join(0.3)
    assert waiting.is_alive()
    bucket.set_limit(0)
    waiting.join(30)
    assert not waiting.is_alive()


def memory_files() -> set[int]:
    """The descriptors of this process that lead to memory of a limit."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        # One that is closed meanwhile, or leads to a path that is too long to be shown.
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}").startswith("/memfd:strongroom-limit"):
                found.add(int(name))
    return found


def test_a_process_that_dies_while_it_counts_stops_nobody() -> None:
    before = memory_files()
    bucket = SharedBucket(0)
    memory = min(memory_files() - before)

    def die() -> None:
        # As in the midst of `take`, which holds the lock for moments only.
        fcntl.lockf(memory, fcntl.LOCK_EX)
        os.kill(os.getpid(), 9)

    assert in_child(die) == -9
    bucket.take(5)
    assert bucket.taken_bytes == 5


def test_a_limited_store_counts_content_and_is_otherwise_the_store(tmp_path: Path) -> None:
    counter = Counter()
    store = LimitedStore(LocalStore(str(tmp_path / "repository")), counter)
    store.prepare()
    writer = store.writer("packs")
    writer.write(b"12")
    writer.write(memoryview(b"345"))
    writer.commit(NAME)
    store.put("index", NAME, b"1234")
    store.put_durable("snapshots", NAME, b"12345")
    assert store.put_new("tombstones", NAME, b"123456")
    store.replace("leases", "l", b"1234567")
    assert counter.sizes == [2, 3, 4, 5, 6]
    again = store.reopen()
    assert again.get("packs", NAME, 1, 3) == b"234"
    assert counter.sizes[5:] == [3]
    assert [info.name for info in again.list("index")] == [NAME]
    assert again.info("packs", NAME).size_bytes == 5
    again.delete("index", NAME)
    again.sync()
    assert again.remove_abandoned() == 0
    assert again.location == store.location
    assert counter.sizes[6:] == []
    store.writer("packs").abort()
