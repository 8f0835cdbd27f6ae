"""Every knob changes what it says, and none changes what is restored."""

from __future__ import annotations

import hashlib
import os
import random
import time
from pathlib import Path

import pytest

from kit.user import User, children_of
from strongroom.engine.content.codecs import GZIP, LZ4, NONE, ZSTD
from strongroom.engine.repository.packs import KIND_DATA, read_footer
from strongroom.engine.repository.repository import Repository
from strongroom.engine.stores.local import LocalStore

FILES = 55
WORDS = [b"alpha", b"beta", b"gamma", b"delta", b"epsilon", b"zeta", b"eta", b"theta"]


@pytest.fixture
def tree(source: Path) -> Path:
    """Text, noise, a large file, links and attributes."""
    chance = random.Random(1)
    text = b" ".join(chance.choice(WORDS) for _ in range(300_000))
    (source / "text").write_bytes(text[:400_000])
    (source / "large").write_bytes(text)
    (source / "noise").write_bytes(chance.randbytes(200_000))
    (source / "empty").touch()
    for number in range(50):
        path = source / f"directory-{number % 7}" / f"file-{number}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(chance.randbytes(number * 100) + text[: number * 50])
    (source / "link").symlink_to("text")
    os.link(source / "text", source / "hard")
    time.sleep(0.1)  # longer than the kernel's clock ticks: all of it counts as settled
    return source


def codecs_used(user: User) -> dict[int, int]:
    """Codec -> blocks of data packs stored with it."""
    store = LocalStore(str(user.repository))
    repository = Repository.open(store, b"correct horse")
    used: dict[int, int] = {}
    for path in user.packs:
        footer = read_footer(store, repository.key, bytes.fromhex(path.name))
        if footer.kind == KIND_DATA:
            for codec in footer.columns.codecs:
                used[codec] = used.get(codec, 0) + 1
    repository.close()
    return used


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("none", NONE), ("gzip", GZIP), ("gzip9", GZIP), ("lz4", LZ4), ("lz4hc", LZ4),
        ("zstd", ZSTD), ("zstd19", ZSTD), ("auto", ZSTD),
    ],
)  # fmt: skip
def test_compression_decides_the_codec(user: User, tree: Path, name: str, codec: int) -> None:
    user.backup(tree, "--compression", name)
    used = codecs_used(user)
    assert set(used) <= {NONE, codec}
    assert used[codec] > 0
    user.assert_restores(tree)


def test_stronger_compression_stores_less(user: User, tree: Path) -> None:
    stored = [
        user.backup(tree, "--compression", name, "--dry-run").summary["stored_bytes"]
        for name in ("none", "lz4", "gzip1", "zstd19")
    ]
    assert stored == sorted(stored, reverse=True)


def test_unknown_codecs_and_signatures_are_told(user: User, tree: Path) -> None:
    for words in (
        ["--compression", "zip"], ["--compression", "zstd99"], ["--signature", "crc"],
        ["--workers", "-1"], ["--shards", "x"], ["--scan-threads=-2"], ["--lru-size", "-1"],
        ["--upload-queue-size", "-1"],
    ):  # fmt: skip
        assert user.backup(tree, *words, code=2).error == "usage"


def test_signatures_are_of_whole_files(user: User, tree: Path) -> None:
    for name in ("md5", "sha1", "sha256", "sha512", "xxh128", "blake3"):
        assert user.backup(tree, "--signature", name).summary["files_read"] == FILES
        listed = user.listed(below=tree)
        if name in hashlib.algorithms_available:
            for path in ("large", "empty", "hard", "directory-3/file-10"):
                expected = hashlib.new(name, (tree / path).read_bytes()).hexdigest()
                assert listed[path]["signature"] == expected
        else:
            assert len({item.get("signature") for item in listed.values()}) > 40
        assert "signature" not in listed["link"]
    assert user.backup(tree, "--signature", "blake3").summary["files_read"] == 0
    assert user.backup(tree).summary["files_read"] == FILES, "a parent with signatures is no use"
    assert all("signature" not in item for item in user.listed(below=tree).values())


def test_attributes_can_be_left_out(user: User, tree: Path) -> None:
    os.setxattr(tree / "text", "user.color", b"blue")
    acl = bytes.fromhex(
        "0200000001000600ffffffff02000400e803000004000400ffffffff10000400ffffffff20000400ffffffff"
    )
    os.setxattr(tree / "text", "system.posix_acl_access", acl)
    names = {"user.color", "system.posix_acl_access"}
    for words, expected in (
        ([], names),
        (["--no-acls"], {"user.color"}),
        (["--no-xattrs"], {"system.posix_acl_access"}),
        (["--no-acls", "--no-xattrs"], set()),
    ):
        user.backup(tree, "--level", "full", *words)
        assert set(user.listed(below=tree)["text"].get("xattrs", [])) == expected


def test_flags_can_be_left_out(user: User, tree: Path) -> None:
    if os.system(f"chattr +d {tree}/text {tree}/empty {tree}/directory-1 2>/dev/null"):
        pytest.skip("this file system has no chattr flags")
    user.backup(tree)
    assert all(user.listed(below=tree)[name]["flags"] for name in ("text", "empty", "directory-1"))
    user.backup(tree, "--level", "full", "--no-flags")
    assert "flags" not in user.listed(below=tree)["text"]


@pytest.mark.parametrize(
    "words",
    [
        ["--workers", "3"],
        ["--workers", "4", "--shards", "1", "--upload-queue-size", "1"],
        ["--workers", "1", "--shards", "5"],
        ["--workers", "5", "--shards", "3", "--upload-queue-size", "2"],
        ["--shards", "1"],
        ["--shards", "5", "--lru-size", "1"],
        ["--scan-threads", "1"],
        ["--scan-threads", "16", "--shards", "2"],
        ["--scan-threads", "3", "--shards", "1", "--workers", "2", "--signature", "md5"],
    ],
    ids=" ".join,
)
def test_processes_and_threads_change_nothing_in_the_result(
    user: User, tree: Path, words: list[str]
) -> None:
    first = user.backup(tree, *words).summary
    assert (first["files"], first["problems"]) == (FILES, 0)
    user.assert_restores(tree)
    time.sleep(0.1)
    (tree / "text").write_bytes(b"changed")
    (tree / "directory-2/file-2").unlink()
    second = user.backup(tree, *words).summary
    assert second["parent"] == first["snapshot"]
    assert second["new_bytes"] == 7
    user.assert_restores(tree)


def threads_of_shards(user: User, enough: int, *words: str) -> list[int]:
    """The most threads that each shard had while a backup of endless input continued.

    Looks until one of them has had `enough`, for threads come when there is work for them.
    """
    process = user.start(
        "backup", *words, "--source", "command", "--", "sh", "-c", "cat /dev/urandom",
        start_new_session=True,
    )  # fmt: skip
    most: dict[int, int] = {}
    try:
        deadline = time.monotonic() + 30
        while not user.packs or max(most.values(), default=0) < enough:
            assert time.monotonic() < deadline, most
            time.sleep(0.02)
            for shard in children_of(process.pid):
                most[shard] = max(most.get(shard, 0), len(os.listdir(f"/proc/{shard}/task")))
    finally:
        process.terminate()
        user.end(process)
    return sorted(most.values())


def test_workers_and_shards_are_threads_and_processes(user: User) -> None:
    # Each open pack has a thread that writes; without workers there are two packs. Up to four more
    # threads finish packs.
    (inline,) = threads_of_shards(user, 1, "--shards", "1")
    assert inline <= 1 + 2 + 4
    *idle, busy = threads_of_shards(user, 1 + 4, "--shards", "3", "--workers", "12")
    assert idle == [1, 1]
    assert busy <= 1 + 4 + 4 + 4


def test_scan_threads_are_threads(user: User, source: Path) -> None:
    for number in range(300):
        (source / f"{number}").mkdir()
        (source / f"{number}" / "fifo").touch()
    most = 0
    for words, expected in ((["--scan-threads", "9"], 10), (["--scan-threads", "1"], 1)):
        most = 0
        process = user.start("backup", source, "--shards", "1", "--level", "full", *words)
        while process.poll() is None:
            try:
                for shard in children_of(process.pid):
                    most = max(most, len(os.listdir(f"/proc/{shard}/task")))
            except (FileNotFoundError, ProcessLookupError):
                continue
        assert user.end(process).code == 0
        assert most == expected
