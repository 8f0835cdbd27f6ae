"""Lists and passphrases as editors of other systems write them."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest

from kit.command import PASSPHRASE

MARK = codecs.BOM_UTF8


@pytest.fixture
def tree(tree: Path) -> Path:
    for name in ("a", "b", "c.tmp"):
        (tree / name).write_text(name)
    return tree


def held(command, tree: Path) -> set[str]:
    return set(command("ls", f"latest:{tree}"))


def test_a_byte_order_mark_is_no_part_of_a_path_or_pattern(command, tree, tmp_path):
    listed, patterns = tmp_path / "list", tmp_path / "patterns"
    listed.write_bytes(MARK + f"{tree}/a\n{tree}/c.tmp\n".encode())
    patterns.write_bytes(MARK + b"*.tmp\n")
    command("backup", "--files-from", str(listed))
    assert held(command, tree) == {"a", "c.tmp"}
    command("backup", str(tree), "--exclude-file", str(patterns))
    assert held(command, tree) == {"a", "b"}
    fileset = tmp_path / "fileset.conf"
    fileset.write_text(f'FileSet {{ Name = L\n Include {{ File = "<{listed}" }} }}')
    command("backup", "--fileset-config", str(fileset))
    assert held(command, tree) == {"a", "c.tmp"}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_named_before_anything_is_read(command, tree, tmp_path, encoding):
    text = tmp_path / "text"
    text.write_bytes(f"{tree}/a\n".encode(encoding))
    text.chmod(0o600)
    for words in (
        ("backup", "--files-from", str(text)),
        ("backup", str(tree), "--exclude-file", str(text)),
    ):
        ended = command.run(*words, key_file=command.restore_key, exit_code=2)
        assert "UTF-16" in ended.stderr
    ended = command.run("snapshots", "--password-file", str(text), exit_code=2)
    assert "UTF-16" in ended.stderr
    assert command.objects("snapshots") == []


def test_other_quotes_are_named(command, tree, tmp_path):
    listed = tmp_path / "list"
    quoted = "\u201c{}\u201d"
    listed.write_text(f"{tree}/a\n{quoted.format(tree / 'b')}\n", "utf-8")
    ended = command.run(
        "backup", "--files-from", str(listed), key_file=command.restore_key, exit_code=3
    )
    assert "without quotes" in ended.stderr
    # Also where nothing else is named.
    alone = tmp_path / "alone"
    alone.write_text(f"\u201c{tree}\u201d\n", "utf-8")
    ended = command.run("backup", "--files-from", str(alone), exit_code=4)
    assert ended.stderr.count("without quotes") == 1
    words = ("backup", str(tree), "--exclude", quoted.format("*.tmp"))
    command.run(*words, key_file=command.restore_key, exit_code=2)
    (tree / quoted.format("name")).touch()
    command("backup", str(tree), "--exclude", "[\u201c]name\u201d")
    assert held(command, tree) == {"a", "b", "c.tmp"}


def test_a_marked_passphrase_is_the_same_without_the_mark(command):
    command.passphrase_file.write_bytes(MARK + PASSPHRASE.encode() + b"\r\n")
    command.run("snapshots", "--password-file", str(command.passphrase_file))


def test_a_repository_whose_passphrase_once_took_the_mark_still_opens(command, tmp_path):
    marked = MARK + PASSPHRASE.encode()
    old = tmp_path / "old"
    words = ("init", "--repo", str(old))
    command.run(*words, STRONGROOM_PASSWORD=(marked + b"").decode())
    command.passphrase_file.write_bytes(marked + b"\n")
    command.run("snapshots", "--repo", str(old), "--password-file", str(command.passphrase_file))


def test_quotes_around_a_passphrase_are_said(command):
    command.passphrase_file.write_text("\u201csecret\u201d\n", "utf-8")
    words = ("snapshots", "--password-file", str(command.passphrase_file))
    assert "quotes" in command.run(*words, exit_code=12).stderr
