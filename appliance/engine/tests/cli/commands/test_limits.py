"""`--limit-upload` and `--limit-download` hold for a command with all its processes."""

import os
import time


def seconds(command, *words):
    before = time.monotonic()
    command(*words)
    return time.monotonic() - before


def test_backup_and_restore_keep_to_the_limits(command, tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    for number in range(4):
        (tree / f"file{number}").write_bytes(os.urandom(500_000))
    limited = ("backup", str(tree), "--shards", "2", "--limit-upload", "1mb")
    assert seconds(command, *limited) > 1.5
    target = tmp_path / "target"
    words = ("restore", f"latest:{tree}", "--target", str(target), "--limit-download", "1mb/s")
    # Nothing waits for the last block, which is about half of it.
    assert seconds(command, *words) > 0.8
    restored = [(target / f"file{number}").read_bytes() for number in range(4)]
    assert restored == [(tree / f"file{number}").read_bytes() for number in range(4)]
