"""Directories are read as they are, whatever their names, depth and numbers."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import stat
import sys
import threading
from array import array
from pathlib import Path

import pytest

from strongroom.engine.rows.rows import STAT_COLUMNS
from strongroom.engine.scan import directory
from strongroom.engine.scan.directory import open_beneath, read_names, stat_rows, without_failures


@pytest.fixture
def folder(tmp_path):
    """A descriptor of an empty directory; the working directory is put back."""
    before = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.fchdir(before)
    os.close(before)
    os.close(fd)


@pytest.fixture(params=["at once", "by steps"])
def way(request, monkeypatch):
    """Directories are opened by either way of `open_beneath`."""
    if request.param == "by steps":
        # A kernel older than openat2(2), or a sandbox that forbids it.
        monkeypatch.setattr(directory, "open_at_once", lambda *_: -1)


def make(fd: int, name: bytes, content: bytes = b"") -> None:
    file = os.open(name, os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=fd)
    os.write(file, content)
    os.close(file)


def test_names_of_any_bytes_come_sorted(folder):
    names = [b"\xff\xfe", b"b\nnewline", b"a", b"\x01", "é".encode(), b" ", b"-rf", b"n" * 255]
    for name in names:
        make(folder, name)
    assert read_names(folder) == sorted(names)


def test_columns_are_what_lstat_says(folder):
    make(folder, b"file", b"hello")
    os.symlink(b"nowhere", b"link", dir_fd=folder)
    os.mkdir(b"sub", dir_fd=folder)
    os.mkfifo(b"fifo", dir_fd=folder)
    os.utime(b"link", ns=(5, -1_000_000_001), dir_fd=folder, follow_symlinks=False)
    names = read_names(folder)
    flat, failures = stat_rows(names)
    assert failures == []
    expected = array("q")
    for name in names:
        status = os.lstat(name)
        expected.extend(getattr(status, column) for column in STAT_COLUMNS)
    assert flat == expected
    assert flat[names.index(b"link") * len(STAT_COLUMNS) + 4] == -1_000_000_001


def test_names_that_vanished_are_failures_and_the_others_stay(folder):
    for number in range(10):
        make(folder, b"f%d" % number)
    names = read_names(folder)
    gone = [0, 3, 4, 9]
    for row in gone:
        os.unlink(names[row])
    flat, failures = stat_rows(names)
    assert [failure.row for failure in failures] == gone
    assert [failure.name for failure in failures] == [names[row] for row in gone]
    assert {failure.error.errno for failure in failures} == {errno.ENOENT}
    kept = without_failures(names, failures)
    assert kept == [name for row, name in enumerate(names) if row not in gone]
    assert flat == stat_rows(kept)[0]


def test_nothing_there_is_no_rows(folder):
    assert stat_rows(read_names(folder)) == (array("q"), [])


def test_times_beyond_64_bits_become_the_nearest_that_fit(folder):
    make(folder, b"ancient")
    make(folder, b"between")
    make(folder, b"future")
    os.utime(b"future", ns=(0, 9_300_000_000 * 10**9), dir_fd=folder)
    names = read_names(folder)
    kept_ns = os.lstat(b"future").st_mtime_ns
    flat, failures = stat_rows(names)
    assert failures == []
    assert len(flat) == 3 * len(STAT_COLUMNS)
    assert flat[2 * len(STAT_COLUMNS) + 4] == min(kept_ns, 2**63 - 1)
    assert flat[len(STAT_COLUMNS)] == os.lstat(b"between").st_mode


@pytest.mark.usefixtures("way")
def test_a_path_longer_than_path_max_can_be_opened(folder):
    name = b"d" * 200
    current = os.dup(folder)
    for _ in range(30):
        os.mkdir(name, dir_fd=current)
        below = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=current)
        os.close(current)
        current = below
    make(current, b"bottom")
    os.close(current)
    fd = open_beneath(folder, b"/".join([name] * 30))
    assert os.listdir(fd) == ["bottom"]
    os.close(fd)


@pytest.mark.usefixtures("way")
def test_the_empty_path_is_the_root_itself(folder):
    fd = open_beneath(folder, b"")
    assert os.fstat(fd).st_ino == os.fstat(folder).st_ino
    os.close(fd)


@pytest.mark.usefixtures("way")
def test_a_link_on_the_way_is_not_followed(folder):
    os.mkdir(b"real", dir_fd=folder)
    os.mkdir(b"real/sub", dir_fd=folder)
    os.symlink(b"real", b"link", dir_fd=folder)
    open_descriptors = len(os.listdir("/proc/self/fd"))
    for path in (b"link", b"link/sub", b"real/missing", b"real/missing/sub"):
        with pytest.raises(OSError, match=r"Not a directory|symbolic links|No such file"):
            open_beneath(folder, path)
    assert len(os.listdir("/proc/self/fd")) == open_descriptors


@pytest.mark.usefixtures("way")
def test_a_directory_that_is_exchanged_for_a_link_meanwhile_never_leads_elsewhere(folder):
    for name in (b"real", b"real/sub", b"elsewhere", b"elsewhere/sub"):
        os.mkdir(name, dir_fd=folder)
    os.symlink(b"elsewhere", b"link", dir_fd=folder)
    elsewhere = os.stat(b"elsewhere/sub", dir_fd=folder).st_ino
    exchanging = os.fork()
    if not exchanging:
        exchange = ctypes.CDLL(None).renameat2
        while os.getppid() != 1:
            exchange(folder, b"real", folder, b"link", 2)  # RENAME_EXCHANGE
    opened, refused = 0, 0
    try:
        for _ in range(2_000_000):
            try:
                fd = open_beneath(folder, b"real/sub")
            except OSError:
                refused += 1
            else:
                opened += 1
                assert os.fstat(fd).st_ino != elsewhere
                os.close(fd)
            if min(opened, refused) >= 2000:
                break
    finally:
        os.kill(exchanging, signal.SIGKILL)
        os.waitpid(exchanging, 0)
    assert opened
    assert refused


def test_modes_tell_kinds_apart(folder):
    os.mkfifo(b"fifo", dir_fd=folder)
    flat, _ = stat_rows(read_names(folder))
    assert stat.S_ISFIFO(flat[0])


def test_one_system_call_opens_a_directory_and_nothing_beyond_links_or_the_root(folder):
    os.mkdir(b"real", dir_fd=folder)
    os.mkdir(b"real/sub", dir_fd=folder)
    os.symlink(b"real", b"link", dir_fd=folder)
    open_descriptors = len(os.listdir("/proc/self/fd"))
    opened = directory.open_at_once(folder, b"real/sub")
    assert opened >= 0
    assert os.path.samestat(os.fstat(opened), os.stat(b"real/sub", dir_fd=folder))
    assert not os.get_inheritable(opened)
    os.close(opened)
    for path in (b"link", b"link/sub", b"..", b"/", b"real/../..", b"real\0", b"missing"):
        assert directory.open_at_once(folder, path) == -1
    assert len(os.listdir("/proc/self/fd")) == open_descriptors


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.usefixtures("way")
def test_directories_that_may_only_be_passed_do_not_bar_the_way(tmp_path: Path) -> None:
    goal = tmp_path / "passage" / "goal"
    goal.mkdir(parents=True)
    (goal / "file").touch()
    goal.parent.chmod(0o711)
    tmp_path.chmod(0o711)  # pytest keeps its folders to itself
    root_fd = os.open(tmp_path, os.O_RDONLY)
    before = os.getcwd()
    child = os.fork()
    if not child:
        status = 1
        try:
            os.setegid(65534)
            os.seteuid(65534)
            passed = open_beneath(root_fd, b"passage/goal")
            status = 0 if read_names(passed) == [b"file"] else 2
            os.fchdir(open_beneath(root_fd, b"passage"))
            os.lstat(b"goal")
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    os.close(root_fd)
    assert os.waitstatus_to_exitcode(status) == 0
    assert os.getcwd() == before


def test_a_deep_directory_takes_few_calls(folder, tmp_path):
    """With a call for each step a tree would take the square of its depth."""
    depth = 4000
    here = os.open(".", os.O_PATH)
    os.chdir(tmp_path)
    for _ in range(depth):
        os.mkdir("dd")
        os.chdir("dd")
    os.fchdir(here)
    os.close(here)
    path = b"/".join([b"dd"] * depth)
    opened: list[object] = []
    _OPENED.append(opened)
    try:
        fd = open_beneath(folder, path)
    finally:
        _OPENED.clear()
    os.fchdir(fd)
    os.close(fd)
    assert os.listdir(".") == []
    assert len(opened) < 10
    for _ in range(depth):
        os.chdir("..")
        os.rmdir("dd")


@pytest.fixture
def deep(tmp_path):
    """The path of a directory below `tmp_path`, deep enough that the way to it is remembered."""
    here = os.open(".", os.O_PATH)
    path = [b"%03d" % number + b"d" * 200 for number in range(60)]
    os.chdir(tmp_path)
    for step in path:
        os.mkdir(step)
        os.chdir(step)
    make(os.open(".", os.O_RDONLY), b"file")
    os.fchdir(here)
    os.close(here)
    yield b"/".join(path)
    os.system(f"rm -rf {tmp_path}/0*")


@pytest.mark.usefixtures("way")
def test_the_remembered_way_to_a_deep_directory_is_one_of_its_root_alone(folder, deep, tmp_path):
    descriptors = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        for depth in (60, 59, 30, 58, 1):
            fd = open_beneath(folder, b"/".join(deep.split(b"/")[:depth]))
            names = os.listdir(fd)
            os.close(fd)
            assert names == (["file"] if depth == 60 else [os.fsdecode(deep.split(b"/")[depth])])
    assert len(os.listdir("/proc/self/fd")) <= descriptors + 1
    # Another root with the same number, in which there is no such path.
    other = tmp_path / "other"
    other.mkdir()
    number = os.dup(folder)
    os.close(open_beneath(number, deep))
    os.dup2(os.open(other, os.O_RDONLY), number)
    with pytest.raises(FileNotFoundError):
        open_beneath(number, deep)
    os.close(number)
    with pytest.raises(FileNotFoundError):
        open_beneath(folder, deep + b"/missing")


@pytest.mark.usefixtures("way")
def test_the_remembered_way_is_gone_anew_after_a_second(folder, deep, tmp_path, monkeypatch):
    os.close(open_beneath(folder, deep))
    (first, rest) = deep.split(b"/", 1)
    os.rename(first, b"elsewhere", src_dir_fd=folder, dst_dir_fd=folder)
    os.symlink(b"elsewhere", first, dir_fd=folder)
    monkeypatch.setattr(directory, "_KEPT_SECONDS", 0.0)
    directory._long_way._until = 0.0  # noqa: SLF001 - a second has gone by
    for _ in range(2):
        with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
            open_beneath(folder, deep)
    os.close(open_beneath(folder, b"elsewhere/" + rest))
    os.unlink(first, dir_fd=folder)
    os.rename(b"elsewhere", first, src_dir_fd=folder, dst_dir_fd=folder)
    os.close(open_beneath(folder, deep))


@pytest.mark.usefixtures("way")
def test_a_deep_directory_that_was_just_put_in_place_of_another_is_found(folder, deep, tmp_path):
    other = deep.replace(b"059", b"new")
    os.close(open_beneath(folder, deep))
    first = os.fsdecode(deep.split(b"/")[0])
    os.rename(tmp_path / first, tmp_path / "0elsewhere")
    here = os.open(".", os.O_PATH)
    os.chdir(tmp_path)
    for step in other.split(b"/"):
        os.mkdir(step)
        os.chdir(step)
    os.fchdir(here)
    os.close(here)
    os.close(open_beneath(folder, other))
    with pytest.raises(FileNotFoundError):
        open_beneath(folder, deep)


@pytest.mark.usefixtures("way")
def test_without_a_descriptor_to_remember_the_way_it_is_gone_all_the_same(
    folder, deep, monkeypatch
):
    def refuses(_):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    directory._long_way.forget()  # noqa: SLF001 - as in a new thread
    descriptors = os.listdir("/proc/self/fd")
    monkeypatch.setattr(os, "dup", refuses)
    for _ in range(2):
        os.close(open_beneath(folder, deep))
    assert os.listdir("/proc/self/fd") == descriptors


@pytest.mark.usefixtures("way")
def test_the_way_to_a_deep_directory_is_not_held_open_for_long(folder, deep):
    directory._long_way.forget()  # noqa: SLF001 - as in a new thread
    descriptors = len(os.listdir("/proc/self/fd"))
    os.close(open_beneath(folder, deep))
    directory._long_way._until = 0.0  # noqa: SLF001 - a second has gone by
    os.close(open_beneath(folder, b""))
    assert len(os.listdir("/proc/self/fd")) == descriptors
    thread = threading.Thread(target=lambda: os.close(open_beneath(folder, deep)))
    thread.start()
    thread.join()
    assert len(os.listdir("/proc/self/fd")) == descriptors


_OPENED: list[list[object]] = []


def _count(event: str, arguments: object) -> None:
    if _OPENED and event == "open":
        _OPENED[0].append(arguments)


sys.addaudithook(_count)
