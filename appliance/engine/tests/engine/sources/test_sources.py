"""Sources give their content whole, or an error and no snapshot."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from kit.project import DOCUMENTS
from strongroom.base.errors import SourceError, UsageError
from strongroom.engine.sources.files import settled_path
from strongroom.engine.sources.registry import open_source, source_names
from strongroom.sources.source import SourceRequest
from strongroom.sources.stream import DescriptorStream

DOCUMENTATION = DOCUMENTS / "reference" / "filesets.md"


def read_all(stream, size: int = 1000) -> bytes:
    buffer = bytearray(size)
    parts = []
    while count := stream.readinto(memoryview(buffer)):
        parts.append(bytes(buffer[:count]))
    return b"".join(parts)


def command(*words: str):
    request = SourceRequest(tuple(word.encode() for word in words), b"dump.sql")
    (stream,) = open_source("command", request).streams()
    return stream


def test_a_command_gives_its_output():
    stream = command("seq", "1", "5000")
    content = read_all(stream)
    stream.finish()
    stream.close()
    assert stream.name == b"dump.sql"
    assert content == "".join(f"{n}\n" for n in range(1, 5001)).encode()


def test_reads_are_full_until_the_end():
    stream = command("sh", "-c", "printf 12; sleep 0.1; printf 345")
    buffer = bytearray(4)
    assert stream.readinto(memoryview(buffer)) == 4
    assert stream.readinto(memoryview(buffer)) == 1
    assert stream.readinto(memoryview(buffer)) == 0
    stream.finish()


@pytest.mark.parametrize(
    ("script", "text"),
    [("echo partial; exit 3", "status 3"), ("echo partial; kill -9 $$", "signal 9")],
)
def test_a_command_that_fails_is_an_error(script, text):
    stream = command("sh", "-c", script)
    assert read_all(stream) == b"partial\n"
    with pytest.raises(SourceError, match=text):
        stream.finish()


def test_a_command_that_cannot_start_is_an_error():
    with pytest.raises(SourceError, match="No such file"):
        command("/nonexistent/command")


def test_a_command_has_no_standard_input():
    stream = command("cat")
    assert read_all(stream) == b""
    stream.finish()


def test_a_stream_broken_off_ends_its_command(tmp_path):
    ended = tmp_path / "ended"
    words = f"trap 'kill $!; touch {ended}; exit' TERM; sleep 600 & echo x; wait"
    stream = command("sh", "-c", words)
    buffer = bytearray(3)
    stream.readinto(memoryview(buffer)[:2])
    started = time.monotonic()
    stream.close()
    # It was not waited for, and it could end in its own way.
    assert time.monotonic() - started < 60
    assert ended.exists()


def test_standard_input_becomes_a_file():
    code = textwrap.dedent("""
        from strongroom.sources.source import SourceRequest
        from strongroom.engine.sources.registry import open_source
        source = open_source("stdin", SourceRequest(stream_name=b"dump"))
        assert source.paths() == ()
        for stream in source.streams():
            buffer = bytearray(1 << 16)
            total = 0
            while count := stream.readinto(memoryview(buffer)):
                total += count
            stream.finish()
            stream.close()
            print(stream.name, total)
    """)
    done = subprocess.run(
        [sys.executable, "-c", code], input=b"x" * 300_000, capture_output=True, check=True
    )
    assert done.stdout == b"b'dump' 300000\n"


def test_a_descriptor_that_cannot_be_read_is_an_error(tmp_path):
    fd = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(SourceError, match="Is a directory"):
        DescriptorStream(fd, b"x", "the thing").readinto(memoryview(bytearray(10)))
    os.close(fd)


@pytest.mark.parametrize("name", [b"", b"a/b", b".", b"..", b"a\0b"])
@pytest.mark.parametrize("source", ["stdin", "command"])
def test_a_stream_needs_a_name_that_a_file_can_have(source, name):
    with pytest.raises(UsageError):
        open_source(source, SourceRequest((b"true",), name))


@pytest.mark.parametrize("source", ["files", "command"])
def test_nothing_to_back_up_is_an_error(source):
    with pytest.raises(UsageError):
        open_source(source, SourceRequest())


def test_an_unknown_source_is_an_error_that_names_the_known_ones():
    with pytest.raises(UsageError, match="command, files, stdin"):
        open_source("tape", SourceRequest())


def test_paths_are_settled_sorted_and_without_those_below_others(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("b", "b/inner", "a", "b-c"):
        (tmp_path / name).mkdir()
    base = bytes(tmp_path).strip(b"/")
    request = SourceRequest((b"b", b"./b/inner", bytes(tmp_path / "a"), b"b-c", b"b/"))
    source = open_source("files", request)
    assert source.paths() == (base + b"/a", base + b"/b", base + b"/b-c")
    assert list(source.streams()) == []
    assert open_source("files", SourceRequest((b"/", b"."))).paths() == (b"",)


def test_links_on_the_way_are_resolved_and_one_at_the_end_is_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "real" / "sub").mkdir(parents=True)
    os.symlink("real", "link")
    os.symlink("nowhere", "dangling")
    base = bytes(tmp_path).strip(b"/")
    assert settled_path(b"link/sub") == base + b"/real/sub"
    assert settled_path(b"link") == base + b"/link"
    assert settled_path(b"link/") == base + b"/real"
    assert settled_path(b"link/.") == base + b"/real"
    assert settled_path(b"link/sub/..") == base + b"/real"
    assert settled_path(b"dangling") == base + b"/dangling"
    assert settled_path(b".") == base


@pytest.mark.parametrize("path", [b"missing", b"missing/x", b"nul\0", b""])
def test_a_path_with_nothing_there_is_an_error(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    if not path:
        tmp_path.rmdir()
    with pytest.raises(SourceError, match="back up"):
        settled_path(path)


def install_plugin(folder: Path, code: str) -> None:
    (folder / "plugin_module.py").write_text(code)
    metadata = folder / "plugin-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[strongroom.sources]\ndevice = plugin_module:DeviceSource\nbroken = plugin_module:gone\n"
    )


def test_the_documented_plugin_works(tmp_path, monkeypatch):
    """The plugin that docs/reference/filesets.md shows is installed and used on a plain file."""
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENTATION.read_text(), re.DOTALL)
    assert len(blocks) == 1
    install_plugin(tmp_path, blocks[0])
    monkeypatch.syspath_prepend(tmp_path)
    device = tmp_path / "sda1"
    device.write_bytes(b"blocks" * 1000)
    assert "device" in source_names()
    (stream,) = open_source("device", SourceRequest((bytes(device),))).streams()
    assert stream.name == b"sda1"
    assert read_all(stream) == device.read_bytes()
    stream.finish()
    stream.close()
    with pytest.raises(SourceError, match="unmount"):
        list(open_source("device", SourceRequest((bytes(tmp_path / "missing"),))).streams())
    with pytest.raises(SourceError, match="loaded"):
        open_source("broken", SourceRequest())


def test_a_command_whose_starter_is_dead_already_is_not_begun():
    """Killed between starting the command's process and its word to the kernel, say."""
    script = textwrap.dedent(
        """
        import os, time
        from strongroom.engine.sources import registry as command

        starter = os.getpid()
        if os.fork() == 0:
            while os.getppid() == starter:
                time.sleep(0.01)
            command.end_with_parent(starter)
            print("begun", flush=True)
        """
    )
    # It reads to the end of the output, which the child holds too.
    ended = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=True)
    assert ended.stdout == b""
