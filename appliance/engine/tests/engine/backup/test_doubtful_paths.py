"""Named paths of which a backup would hold only the name are reported, and how to read them."""

from __future__ import annotations

import os
import socket
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from kit.restless_mount import mounted_unsized_file
from kit.user import User


@pytest.fixture
def data(source: Path) -> Path:
    """A folder beside the source."""
    made = source.with_name("data")
    made.mkdir()
    (made / "file").write_text("content")
    return made


def test_a_link_is_told_unless_what_it_leads_to_is_backed_up_too(
    user: User, source: Path, data: Path
) -> None:
    (source / "link").symlink_to("../data")
    (source / "to-file").symlink_to(data / "file")
    (source / "dangling").symlink_to("nowhere")
    for name in ("link", "to-file", "dangling"):
        assert set(user.backup(source / name, code=3).problems) == {f"{source}/{name}"}
    summary = user.backup(source / "link", code=3).summary
    assert (summary["others"], summary["missing_paths"]) == (1, 0)
    user.backup(f"{source}/link/")
    user.backup(source / "link", data)
    # In a tree they are what they are, and a list names what a program found.
    user.backup(source)
    listed = source.with_name("list")
    listed.write_text(f"{source}/link\n")
    user.backup("--files-from", listed)


def test_pipes_sockets_and_devices_are_told(user: User, source: Path) -> None:
    os.mkfifo(source / "pipe")
    assert set(user.backup(source / "pipe", code=3).problems) == {f"{source}/pipe"}
    with closing(socket.socket(socket.AF_UNIX)) as bound:
        os.chdir(source)
        bound.bind("socket")
    outcome = user.backup(source / "socket", source / "pipe", code=3)
    assert set(outcome.problems) == {f"{source}/pipe", f"{source}/socket"}
    assert set(user.backup("/dev/null", code=3).problems) == {"/dev/null"}
    user.backup(source)


def test_the_pipe_of_a_shell_s_substitution_is_told(user: User) -> None:
    words = [os.fsdecode(word) for word in user.command("backup")]
    script = '"$@" <(echo dump)'
    ended = subprocess.run(
        ["bash", "-c", script, "bash", *words],
        env=user.environment,
        capture_output=True,
        check=False,
    )
    assert ended.returncode == 3, ended.stderr


def test_a_file_of_the_kernel_that_says_it_is_empty_is_told(user: User) -> None:
    assert set(user.backup("/proc/version", code=3).problems) >= {"/proc/version"}
    assert set(user.backup("/proc/sys/kernel/random", code=3).problems) == {"/proc"}


@pytest.mark.parametrize("threads", ["1", "4"])
def test_a_fuse_file_that_says_it_is_empty_is_read_to_its_end(
    user: User, source: Path, threads: str
) -> None:
    with mounted_unsized_file(source):
        first = user.backup(source, "--scan-threads", threads).summary
        assert first["bytes_read"] == first["size_bytes"] > 3 << 20
        target = user.restore()
        restored = target / str(source).lstrip("/") / "unsized"
        assert restored.read_bytes() == (source / "unsized").read_bytes()
        again = user.backup(source / "unsized").summary
        assert again["new_bytes"] == 0
