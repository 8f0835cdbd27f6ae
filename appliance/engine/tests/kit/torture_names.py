"""Names and links: every byte, every length, paths past PATH_MAX, symlinks, hard links."""

from __future__ import annotations

import os
import random
import socket
import stat

from kit.directory_descriptors import make_directory, new_directory, write_file
from kit.torture_feature import Feature

NAME_MAX_BYTES = 255
SYMLINK_MAX_BYTES = 4095
LONG_PATH_LEVELS = 40
DEEP_LEVELS = 2_500
MANY_ENTRIES = 20_000
MANY_DIRECTORIES = 2_000
MANY_LINKS = 300

AWKWARD_NAMES = (
    b" ", b" leading", b"trailing ", b"-", b"--", b"-rf", b"...", b". ", b".. ", b"..a", b"~",
    b"#", b"a\nb", b"\n", b"\r", b"\t", b"\x1b[31mred", b"\x7f", b"\xff", b"\xff\xfe", b"\x80",
    b"\xc0\xaf", b"caf\xc3\xa9", b"cafe\xcc\x81", b"caf\xe9", b"\xed\xa0\x80", b"\xed\xb2\x80",
    b"\xef\xbb\xbf", b"\xf4\x90\x80\x80", b"\xe2\x80\xae", b"*", b"?", b"[a-z]", b"{a,b}",
    b"$(reboot)", b"`id`", b"%s%n%d", b"\\", b"\\x41", b"\\n", b"a\\", b"'", b'"', b"|", b";",
    b"&", b"<", b">", b"a:b", b"c:", b"con", b"name", b"NAME", b"Name", b"lost+found", b".git",
    b".nobackup-not", b"!", b"@", b"=", b"+", b"0", b"00", b"1e9", b"null", b"None", b"true",
    b"{}", b"[]", b"latest",
)  # fmt: skip

# Around the byte of the slash, where comparing whole paths and comparing components disagree.
AROUND_SLASH = (b"a", b"a!", b"a-", b"a.", b"a..", b"a0", b"a\x01", b"a\xff", b"aa", b"a ")


def _every_byte(directory: int) -> None:
    usable = [bytes([value]) for value in range(1, 256) if value != ord("/")]
    for byte in usable:
        for name in (b"in" + byte + b"side", b"end" + byte, byte + b"begin", byte + byte + byte):
            write_file(name, directory, name)
        if byte != b".":
            write_file(byte, directory)
    write_file(b"".join(usable), directory, b"all bytes in one name")


def _awkward_names(directory: int) -> None:
    for number, name in enumerate(AWKWARD_NAMES):
        if number % 3 == 2:
            with new_directory(name, directory) as below:
                write_file(name, below, name)
                os.symlink(name, b"link", dir_fd=below)
        else:
            write_file(name, directory, name)


def _around_slash(directory: int) -> None:
    for name in AROUND_SLASH:
        with new_directory(name, directory) as below:
            for inner in AROUND_SLASH:
                with new_directory(inner, below) as innermost:
                    write_file(b"z", innermost, name + inner)
            write_file(b"\x01", below)
            write_file(b"\xfe", below)


def _longest_names(directory: int) -> None:
    for filling in (b"x", b"\xff", b"\x01", b"\xc3\xa9", b" ", b"."):
        name = (filling * NAME_MAX_BYTES)[:NAME_MAX_BYTES]
        write_file(name, directory, b"long")
        with new_directory(b"d" + name[1:], directory) as below:
            os.symlink(name, name, dir_fd=below)
            os.mkfifo(name[:-1], dir_fd=below)
    for length in range(1, NAME_MAX_BYTES):
        write_file(b"n" * length, directory)


def _path_past_path_max(directory: int) -> None:
    write_file(b"top", directory, b"reached from the bottom")
    current = os.dup(directory)
    for level in range(LONG_PATH_LEVELS):
        name = (b"%02d-" % level + b"\xe9long" * 60)[:NAME_MAX_BYTES]
        below = make_directory(name, current)
        os.close(current)
        current = below
        write_file(b"file", current, b"level %d" % level)
        os.link(b"top", b"hard link", src_dir_fd=directory, dst_dir_fd=current)
        os.symlink(b"../" * level + b"top", b"symlink", dir_fd=current)
        os.mkfifo(b"fifo", dir_fd=current)
    os.mkdir(b"empty", dir_fd=current)
    os.close(current)


def _deep_nesting(directory: int) -> None:
    current = os.dup(directory)
    for level in range(DEEP_LEVELS):
        below = make_directory(b"d", current)
        os.close(current)
        current = below
        if level % 100 == 99:
            write_file(b"c", current, b"%d" % level)
            write_file(b"e", current)
    os.close(current)


def _many_entries(directory: int) -> None:
    for number in range(MANY_ENTRIES):
        name = b"%x-%d" % (number * 2_654_435_761 % 2**32, number)
        if number % 997 == 0:
            with new_directory(name, directory) as below:
                write_file(b"inside", below, name)
        elif number % 101 == 0:
            os.symlink(name, name, dir_fd=directory)
        else:
            write_file(name, directory, name if number % 7 == 0 else b"")


def _many_directories(directory: int) -> None:
    for number in range(MANY_DIRECTORIES):
        with new_directory(b"%d" % number, directory) as below:
            if number % 3:
                write_file(b"file", below, b"%d" % number)
            if number % 5 == 0:
                os.mkdir(b"empty", dir_fd=below)


def _empty_directories(directory: int) -> None:
    for name in (b"one", b"two", b"\xff"):
        with new_directory(name, directory) as below, new_directory(b"nested", below) as nested:
            os.mkdir(b"innermost", dir_fd=nested)


def _symlinks(directory: int) -> None:
    targets = {
        b"dangling": b"no such thing",
        b"self": b"self",
        b"loop-a": b"loop-b",
        b"loop-b": b"loop-a",
        b"absolute": b"/etc/passwd",
        b"root": b"/",
        b"escape": b"../" * 30 + b"etc/shadow",
        b"dot": b".",
        b"dot-dot": b"..",
        b"slashes": b"//a///b//",
        b"trailing": b"real/",
        b"to-directory": b"real",
        b"newline": b"a\nb\n",
        b"proc": b"/proc/self/fd/0",
        b"one": b"x",
        b"every-byte": bytes(range(1, 256)),
        b"not-utf-8": b"\xff\xfe\x80",
        b"longest": b"l" * SYMLINK_MAX_BYTES,
        b"longest-high": b"\xff" * SYMLINK_MAX_BYTES,
        b"longest-path": (b"component/" * 410)[:SYMLINK_MAX_BYTES],
    }
    os.mkdir(b"real", dir_fd=directory)
    for name, target in targets.items():
        os.symlink(target, name, dir_fd=directory)
    # Inline and out-of-line storage of targets meet at 59 and 60 bytes on ext4, others elsewhere.
    for length in (2, 58, 59, 60, 61, 127, 128, 255, 256, 1023, 1024, 4094):
        os.symlink(b"t" * length, b"length-%d" % length, dir_fd=directory)


def _hard_links(directory: int) -> None:
    write_file(b"file", directory, b"linked" * 1000)
    write_file(b"same bytes, other inode", directory, b"linked" * 1000)
    write_file(b"empty", directory)
    write_file(b"large", directory, random.Random("hard links").randbytes(3 << 20))
    os.symlink(b"nowhere", b"symlink", dir_fd=directory)
    os.mkfifo(b"fifo", dir_fd=directory)
    for sub in (b"0 before", b"zz after", b"file.d"):
        with new_directory(sub, directory) as below:
            for name in (b"file", b"empty", b"large", b"symlink", b"fifo"):
                os.link(name, name, src_dir_fd=directory, dst_dir_fd=below, follow_symlinks=False)
            os.link(b"same bytes, other inode", b"other", src_dir_fd=directory, dst_dir_fd=below)
    with new_directory(b"many", directory) as below:
        for number in range(MANY_LINKS):
            os.link(b"file", b"%d" % number, src_dir_fd=directory, dst_dir_fd=below)


def _device_hard_links(directory: int) -> None:
    for name, kind in ((b"char", stat.S_IFCHR), (b"block", stat.S_IFBLK)):
        os.mknod(name, kind | 0o640, os.makedev(250, 77), dir_fd=directory)
        for number in range(3):
            os.link(name, name + b"%d" % number, src_dir_fd=directory, dst_dir_fd=directory)


def _fifos(directory: int) -> None:
    for number, mode in enumerate((0o000, 0o600, 0o644, 0o777)):
        os.mknod(b"fifo-%d" % number, stat.S_IFIFO | mode, dir_fd=directory)
        os.chmod(b"fifo-%d" % number, mode, dir_fd=directory)


def _sockets(directory: int) -> None:
    os.mknod(b"made", stat.S_IFSOCK | 0o666, dir_fd=directory)
    os.link(b"made", b"linked", src_dir_fd=directory, dst_dir_fd=directory)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(b"/proc/self/fd/%d/bound" % directory)
    write_file(b"beside", directory, b"kept though its neighbours are not")


def _devices(directory: int) -> None:
    numbers = (
        (0, 0), (1, 3), (1, 5), (4, 64), (8, 0), (255, 255), (256, 256), (257, 65_535),
        (511, 65_536), (4_095, 0), (0, 1_048_575), (4_095, 1_048_575),
    )  # fmt: skip
    for major, minor in numbers:
        for letter, kind in ((b"c", stat.S_IFCHR), (b"b", stat.S_IFBLK)):
            name = letter + b"-%d-%d" % (major, minor)
            os.mknod(name, kind | 0o600, os.makedev(major, minor), dir_fd=directory)


FEATURES = (
    Feature("names-every-byte", _every_byte),
    Feature("names-awkward", _awkward_names),
    Feature("names-around-slash", _around_slash),
    Feature("names-longest", _longest_names),
    Feature("path-past-path-max", _path_past_path_max),
    Feature("deep-nesting", _deep_nesting),
    Feature("many-entries", _many_entries),
    Feature("many-directories", _many_directories),
    Feature("empty-directories", _empty_directories),
    Feature("symlinks", _symlinks),
    Feature("hard-links", _hard_links),
    Feature("hard-links-of-devices", _device_hard_links),
    Feature("fifos", _fifos),
    Feature("sockets", _sockets),
    Feature("devices", _devices),
)
