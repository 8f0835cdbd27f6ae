"""`dump` gives a file as it is, and a folder as an archive that tar restores."""

from __future__ import annotations

import os
import pty
import subprocess
import tarfile
from pathlib import Path

import pytest

from kit.command import Command
from kit.tree_compare import compare_trees


@pytest.fixture
def filled(tree: Path) -> Path:
    (tree / "sub" / "deep").mkdir(parents=True)
    (tree / "large").write_bytes(os.urandom(5 << 20))
    (tree / "text").write_text("first line\nsecond\x1b[31m line\n")
    os.link(tree / "large", tree / "sub" / "deep" / "again")
    (tree / "sub" / "link").symlink_to("../text")
    os.mkfifo(tree / "sub" / "fifo")
    (tree / "sub").chmod(0o2750)
    with (tree / "sparse").open("wb") as file:
        file.write(b"begin")
        file.truncate(3 << 20)
    (tree / os.fsdecode(b"caf\xe9")).write_bytes(b"not UTF-8")
    os.utime(tree / "text", ns=(1_600_000_000_123_456_789, 1_600_000_000_123_456_789))
    return tree


def dumped(command: Command, *words: str, exit_code: int = 0) -> bytes:
    ended = subprocess.run(
        command.words("dump", *words, key_file=command.restore_key),
        env=command.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert ended.returncode == exit_code, ended.stderr
    return ended.stdout


def on_a_terminal(command: Command, *words: str) -> tuple[int, bytes]:
    """Exit code and what a user sees on standard output."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command.words("dump", *words, key_file=command.restore_key),
        env=command.environment,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,
    )
    os.close(theirs)
    process.communicate()
    shown = b""
    try:
        while piece := os.read(ours, 4096):
            shown += piece
    except OSError:  # what a terminal says at its end
        pass
    os.close(ours)
    return process.returncode, shown


def test_a_file_comes_as_it_is(command, filled):
    command.back_up(str(filled))
    for name in ("large", "text", "sparse", "sub/deep/again"):
        assert dumped(command, "latest", f"{filled}/{name}") == (filled / name).read_bytes()
    assert dumped(command, f"latest:{filled}/text") == (filled / "text").read_bytes()


def test_a_folder_comes_as_an_archive(command, filled, tmp_path):
    command.back_up(str(filled))
    archive = tmp_path / "archive.tar"
    archive.write_bytes(dumped(command, "latest", str(filled)))
    with tarfile.open(archive) as read:
        assert read.getmember("sub/deep/again").islnk()
        assert abs(read.getmember("text").mtime - 1_600_000_000.123456789) < 1e-6
    out = tmp_path / "out"
    out.mkdir()
    subprocess.run(["tar", "-xp", "-f", str(archive), "-C", str(out)], check=True)
    out.chmod(filled.stat().st_mode & 0o7777)
    os.utime(out, ns=(filled.stat().st_mtime_ns, filled.stat().st_mtime_ns))
    # An archive has zeros where a file had holes.
    found = compare_trees(os.fsencode(filled), os.fsencode(out))
    assert [one for one in found if not one.path.endswith(b"sparse")] == []


def test_attributes_come_with_an_archive_whatever_their_names(command, tree, tmp_path):
    (tree / "file").write_bytes(b"content")
    os.setxattr(tree / "file", b"user.a=b%c", b"=\xff")
    os.setxattr(tree / "file", b"user.\xff", b"value")
    command.back_up(str(tree))
    archive = tmp_path / "archive.tar"
    # An archive has no place for the second, which is said.
    archive.write_bytes(dumped(command, "latest", str(tree), exit_code=3))
    out = tmp_path / "out"
    out.mkdir()
    subprocess.run(["tar", "-x", "--xattrs", "-f", str(archive), "-C", str(out)], check=True)
    assert os.listxattr(out / "file") == ["user.a=b%c"]
    assert os.getxattr(out / "file", "user.a=b%c") == b"=\xff"


def test_what_is_not_there_has_its_code(command, filled):
    command.back_up(str(filled))
    dumped(command, "latest", "/no/such/path", exit_code=15)
    dumped(command, "ffffffff", "/", exit_code=5)
    dumped(command, "latest", f"{filled}/sub/link", exit_code=2)
    dumped(command, "latest", exit_code=2)
    dumped(command, "latest:/etc", "/etc", exit_code=2)
    dumped(command, "latest", "/", "--json", exit_code=2)


def test_a_terminal_gets_text_only(command, filled):
    command.back_up(str(filled))
    assert on_a_terminal(command, "latest", f"{filled}/large") == (2, b"")
    assert on_a_terminal(command, "latest", str(filled)) == (2, b"")
    code, shown = on_a_terminal(command, "latest", f"{filled}/text")
    assert code == 0
    assert shown.splitlines() == [b"first line", rb"second\x1b[31m line"]


def test_damage_ends_it_with_its_code(command, filled):
    command.back_up(str(filled))
    for pack in command.repository.rglob("*"):
        if pack.is_file() and pack.stat().st_size > 1 << 20:
            pack.chmod(0o600)
            with pack.open("r+b") as file:
                file.seek(pack.stat().st_size // 2)
                file.write(bytes(1000))
    whole = (filled / "large").read_bytes()
    assert whole.startswith(dumped(command, "latest", f"{filled}/large", exit_code=20))
    dumped(command, "latest", str(filled), exit_code=20)


@pytest.mark.parametrize("words", [("ls", "latest:/none"), ("dump", "latest:/none"),
                                   ("verify", "latest:/none"),
                                   ("restore", "latest:/none", "--target", "TARGET")])  # fmt: skip
def test_all_agree_on_the_code_of_a_path_that_is_not_there(command, filled, tmp_path, words):
    command.back_up(str(filled))
    target = str(tmp_path / "target")
    answer = command.run(
        *(target if word == "TARGET" else word for word in words),
        exit_code=15,
        key_file=command.restore_key,
    )
    assert "[path-not-found]" in answer.stderr
    assert not os.path.exists(target)


@pytest.mark.parametrize("words", [("verify", "latest"), ("restore", "latest", "-t", "TARGET"),
                                   ("restore", "latest", "-n", "-t", "TARGET")])  # fmt: skip
def test_all_agree_on_the_code_of_patterns_that_match_nothing(command, filled, tmp_path, words):
    command.back_up(str(filled))
    target = str(tmp_path / "target")
    answer = command.run(
        *(target if word == "TARGET" else word for word in words), "--include", "nowhere",
        exit_code=16, key_file=command.restore_key,
    )  # fmt: skip
    assert "[nothing-matched]" in answer.stderr
    assert not os.path.exists(target)
