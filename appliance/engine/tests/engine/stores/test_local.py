"""What is special about a store in a directory."""

import errno
import os
import subprocess
import time

import pytest

from strongroom.base.errors import StoreError
from strongroom.engine.stores.local import LocalStore

NAME = "ab" * 32
PATIENCE_SECONDS = 60.0


@pytest.fixture
def small_file_system(tmp_path):
    """A tmpfs of 1 MiB; skipped where this user can't mount."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting needs root")
    yield place
    subprocess.run(["umount", place], check=True)


def test_objects_are_where_the_format_says(tmp_path):
    store = LocalStore(tmp_path / "r")
    store.prepare()
    store.put_new("config", "config", b"c")
    store.put("packs", NAME, b"p")
    store.put("index", NAME, b"i")
    files = sorted(str(p.relative_to(tmp_path / "r")) for p in (tmp_path / "r").rglob("*"))
    empty = ("keys", "leases", "snapshots", "tickets", "tombstones")
    assert [name for name in files if name not in empty] == [
        "config",
        "index",
        f"index/{NAME}",
        "packs",
        "packs/ab",
        f"packs/ab/{NAME}",
    ]


def test_nobody_else_can_read_the_files(tmp_path):
    store = LocalStore(tmp_path / "r")
    store.prepare()
    store.put("packs", NAME, b"p")
    for path in [tmp_path / "r", *(tmp_path / "r").rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0


def test_a_path_of_any_bytes_can_hold_a_repository(tmp_path):
    path = os.fsencode(tmp_path) + b"/\xff\n repository"
    store = LocalStore(path)
    store.prepare()
    store.put("packs", NAME, b"p")
    assert store.get("packs", NAME) == b"p"


def test_a_full_disk_is_a_clear_error_and_leaves_nothing(small_file_system):
    store = LocalStore(small_file_system)
    store.prepare()
    store.put("index", NAME, b"small")
    writer = store.writer("packs")
    with pytest.raises(StoreError, match="free space") as caught:
        writer.write(bytes(4 << 20))
    assert caught.value.__cause__.errno == errno.ENOSPC
    writer.abort()
    with pytest.raises(StoreError, match="free space"):
        store.put("snapshots", NAME, bytes(4 << 20))
    assert list(store.list("packs")) == []
    assert list(store.list("snapshots")) == []
    assert store.remove_abandoned() == 0
    store.put("snapshots", NAME, bytes(1 << 19))
    assert store.get("index", NAME) == b"small"
    store.close()


def test_a_read_only_file_system_is_a_clear_error(small_file_system):
    store = LocalStore(small_file_system)
    store.prepare()
    store.put("index", NAME, b"small")
    subprocess.run(["mount", "-o", "remount,ro", small_file_system], check=True)
    for attempt in (
        lambda: store.put("packs", NAME, b"x"),
        lambda: store.put_durable("snapshots", NAME, b"x"),
        lambda: store.replace("leases", NAME, b"x"),
        lambda: store.delete("index", NAME),
        lambda: store.writer("packs"),
    ):
        with pytest.raises(StoreError, match="read-only"):
            attempt()
    assert store.get("index", NAME) == b"small"
    store.close()


def test_a_symlink_in_the_place_of_an_object_is_not_followed(tmp_path):
    (tmp_path / "secret").write_bytes(b"secret")
    store = LocalStore(tmp_path / "r")
    store.prepare()
    (tmp_path / "r" / "index" / NAME).symlink_to(tmp_path / "secret")
    with pytest.raises(StoreError):
        store.get("index", NAME)
    assert list(store.list("index")) == []


def is_in_memory(path):
    """Whether the first page of a file can be read without waiting for the disk."""
    with path.open("rb") as file:
        try:
            return os.preadv(file.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT) == 1
        except BlockingIOError:
            return False


def test_what_is_read_ahead_comes_into_memory_while_nobody_waits(tmp_path):
    store = LocalStore(tmp_path)
    store.prepare()
    store.put_durable("packs", NAME, bytes(1 << 20))
    path = tmp_path / "packs" / NAME[:2] / NAME
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if is_in_memory(path):
        pytest.skip("this file system keeps its files in memory")
    store.read_ahead("packs", NAME, 0, 1 << 20)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_in_memory(path):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_store_writes_where_it_was_opened_when_the_path_is_moved(tmp_path):
    store = LocalStore(tmp_path / "r")
    store.prepare()
    (tmp_path / "r").rename(tmp_path / "moved")
    (tmp_path / "r").mkdir()
    store.put("index", NAME, b"data")
    assert (tmp_path / "moved" / "index" / NAME).read_bytes() == b"data"
    assert list((tmp_path / "r").iterdir()) == []


def test_a_store_that_nobody_has_any_more_leaves_nothing_open(tmp_path):
    LocalStore(tmp_path / "r").prepare()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        assert list(LocalStore(tmp_path / "r").list("packs")) == []
    assert len(os.listdir("/proc/self/fd")) < before + 10


def test_closing_removes_what_a_signal_made_a_writer_leave(tmp_path, monkeypatch):
    store = LocalStore(tmp_path / "r")
    store.prepare()
    published = store.writer("packs")
    published.write(b"whole")
    published.commit(NAME)
    store.writer("packs").write(b"nobody has this writer")

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("fcntl.flock", interrupt)
    with pytest.raises(KeyboardInterrupt):
        store.writer("index")
    store.close()
    assert [path.name for path in (tmp_path / "r").rglob("*") if path.is_file()] == [NAME]
