"""A mount of listings that no backup makes: reading them gives errors, and the mount stays."""

import os
import subprocess
from array import array
from contextlib import closing

from engine.mount.conftest import mounted
from kit.command import PASSPHRASE
from kit.forged_snapshot import NO_BLOCK, stored_page
from kit.sealed_by_hand import snapshot_object, store
from strongroom.engine.repository.listing.page import encode_page
from strongroom.engine.repository.repository import Repository
from strongroom.engine.rows.rows import CHANGED, UNREADABLE, new_rows
from strongroom.engine.rows.views import path_key
from strongroom.engine.scan.attributes import encode_xattrs
from strongroom.engine.stores.local import LocalStore

MOST = (1 << 63) - 1
MODES = (0, 0o100644, 0o40755, 0o120777, 0o20600, 0o60600, 0o140755, 0o170777, 0o106777, 0o30000)
NAMES = (b"a", b"b\n\x1b[2J", b"\xff\xfe", b"n" * 255, b"n" * 300, "\u202e".encode(), b"-rf", b"~")


def rows_of(directory, names):
    """Rows of every mode, with the greatest numbers that decode."""
    listed = sorted({b"%s%d" % (name, mode) for name in names for mode in range(len(MODES))})
    stats = array("q")
    for number, name in enumerate(listed):
        mode = MODES[int(name[-1:])]
        size = (0, 10, MOST)[number % 3]
        time_ns = (0, -MOST, MOST, 10**18)[number % 4]
        inode = (1, MOST, -MOST, number)[number % 4]
        stats.extend((mode, 0xFFFFFFFF, 0xFFFFFFFF, size, time_ns, time_ns, inode))
        stats.extend((number % 2, (0, 2, MOST)[number % 3], MOST))
    rows = new_rows(directory, listed, stats)
    for number in range(len(listed)):
        match number % 5:
            case 0:
                rows.part_counts[number] = 1
                rows.part_blocks += NO_BLOCK
                rows.part_slots.append(65535)
            case 1:
                rows.targets[number] = (b"", b"/", b"../" * 2000, b"x\0y")[number % 4]
            case 2:
                rows.xattrs[number] = encode_xattrs([(b"user.\xff", b"1"), (b"x" * 255, b"")])
            case 3:
                rows.extents[number] = [(0, MOST), (MOST, MOST), (5, 0)]
            case _:
                rows.states[number] = (UNREADABLE, CHANGED)[number % 2]
    return rows


def test_whoever_walks_it_gets_errors_and_the_mount_stays(command, tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "file").write_text("sound")
    command.back_up(str(tree), "--host", "web2")
    with closing(
        Repository.open(LocalStore(str(command.repository)), PASSPHRASE.encode())
    ) as repository:
        attacker = repository.for_client("web1")
        # What is below a file, below itself, and below what is not listed.
        places = (b"", b"a1", b"a1/a1", b"deep/er/and/deeper", b"n" * 255 + b"/x")
        groups = [rows_of(place, NAMES) for place in places]
        names = {"job": "/", "tags": ("", ".", "..", "a/b", "x" * 999, "\0")}
        pages = [
            (rows.directory, rows.names.partition(b"\0")[0], stored_page(attacker, page), n, 0)
            for rows in sorted(groups, key=lambda one: path_key(one.directory))
            for page, n in ((encode_page([rows]), rows.row_count),)
        ]
        for fields in ({"start_ns": MOST, **names}, {"start_ns": -MOST, "tags": ("gone",)}):
            data = snapshot_object(attacker.writer, {**names, **fields}, pages)
            store(attacker, "snapshots", data)
            pages = [(b"data", b"one", NO_BLOCK, 1, 10)]
    place = tmp_path / "place"
    with mounted(command, place) as process:
        seen = _walk(os.fsencode(place))
        assert seen > len(NAMES) * len(MODES)
        # As programs do it, which give up on nothing.
        for words in (["find", place, "-ls"], ["du", "-a", place], ["ls", "-lR", place]):
            subprocess.run(words, capture_output=True, check=False, timeout=60)
        assert process.poll() is None
        sound = place / "hosts" / "web2" / "latest" / str(tree).strip("/") / "file"
        assert sound.read_text() == "sound"


def _walk(root):
    seen = 0
    for folder, folders, files in os.walk(root, onerror=lambda _: None):
        if folder.count(b"/") - root.count(b"/") > 8:
            folders.clear()
        for name in files + folders:
            path = os.path.join(folder, name)
            seen += 1
            for act in (os.lstat, os.readlink, os.listxattr, _read):
                try:
                    act(path)
                except OSError:
                    continue
    return seen


def _read(path):
    if not os.path.isfile(path) or os.path.islink(path):
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        for offset in (0, 9, MOST - 4096):
            os.pread(descriptor, 4096, offset)
        for whence in (os.SEEK_DATA, os.SEEK_HOLE):
            os.lseek(descriptor, 0, whence)
    finally:
        os.close(descriptor)
