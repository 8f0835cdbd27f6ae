"""Extended attributes and flags are read whole and encoded in one way only."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom.base.errors import DamageError
from strongroom.engine.scan.attributes import (
    decode_xattrs,
    encode_xattrs,
    read_flags,
    read_flags_of,
    read_xattrs,
    supports_xattrs,
)

NODUMP, NOATIME = 0x40, 0x80
SET_FLAGS = 0x40086602
# Without those that a file system derives from others, which are not decoded.
NAMES = st.binary(min_size=1, max_size=40).filter(
    lambda name: b"\0" not in name and not name.startswith((b"trusted.SGI_ACL_", b"security.evm"))
)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@given(st.dictionaries(NAMES, st.binary(max_size=300), max_size=6))
def test_attributes_come_back_sorted(pairs):
    encoded = encode_xattrs(pairs.items())
    assert decode_xattrs(encoded) == sorted(pairs.items())
    assert encoded == encode_xattrs(sorted(pairs.items(), reverse=True))


@given(st.dictionaries(NAMES, st.binary(max_size=30), min_size=1, max_size=4), st.data())
def test_cut_attributes_are_damage_or_fewer(pairs, data):
    encoded = encode_xattrs(pairs.items())
    cut = encoded[: data.draw(st.integers(1, len(encoded) - 1))]
    with contextlib.suppress(DamageError):
        assert len(decode_xattrs(cut)) < len(pairs)


@pytest.mark.parametrize("name", [b"", b"a\0b"])
def test_names_that_no_attribute_has_are_damage(name):
    with pytest.raises(DamageError):
        decode_xattrs(struct.pack("<HI", len(name), 1) + name + b"v")


def test_only_rows_with_attributes_are_in_the_result(here):
    for name in ("plain", "tagged", "big"):
        (here / name).touch()
    os.setxattr("tagged", "user.colour", b"red")
    os.setxattr("tagged", "user.empty", b"")
    os.setxattr("big", "user.big", bytes(range(256)) * 8)
    names = [b"big", b"plain", b"tagged"]
    found, failures = read_xattrs(names, range(3))
    assert failures == []
    assert set(found) == {0, 2}
    assert dict(decode_xattrs(found[2])) == {b"user.colour": b"red", b"user.empty": b""}
    assert read_xattrs(names, [1])[0] == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="trusted attributes need root")
def test_attributes_of_links_are_the_links_own(here):
    (here / "file").touch()
    os.setxattr("file", "user.of", b"file")
    os.symlink("file", "link")
    os.setxattr("link", "trusted.of", b"link", follow_symlinks=False)
    found, _ = read_xattrs([b"link"], [0])
    assert decode_xattrs(found[0]) == [(b"trusted.of", b"link")]


def test_acls_and_other_attributes_can_be_left_out_separately(here):
    (here / "file").touch()
    os.setxattr("file", "user.a", b"1")
    acl = struct.pack("<I", 2) + b"".join(
        struct.pack("<HHI", *entry)
        for entry in [(1, 6, 2**32 - 1), (2, 4, 1234), (4, 4, 2**32 - 1), (16, 4, 2**32 - 1),
                      (32, 0, 2**32 - 1)]
    )  # fmt: skip
    os.setxattr("file", "system.posix_acl_access", acl)
    both, only_acls, only_others = (
        read_xattrs([b"file"], [0], acls=acls, others=others)[0]
        for acls, others in ((True, True), (True, False), (False, True))
    )
    assert decode_xattrs(only_acls[0]) == [(b"system.posix_acl_access", acl)]
    assert decode_xattrs(only_others[0]) == [(b"user.a", b"1")]
    assert both[0] == encode_xattrs(decode_xattrs(only_acls[0]) + decode_xattrs(only_others[0]))
    assert read_xattrs([b"file"], [0], acls=False, others=False)[0] == {}


def test_a_name_that_vanished_is_a_failure(here):
    found, failures = read_xattrs([b"gone"], [0])
    assert found == {}
    assert [(failure.name, failure.error.errno) for failure in failures] == [
        (b"gone", errno.ENOENT)
    ]


def test_file_systems_without_attributes_are_told(here):
    fd = os.open(here, os.O_RDONLY)
    assert supports_xattrs(fd)
    os.close(fd)


def test_flags_that_chattr_set_are_read(here):
    (here / "file").touch()
    fd = os.open("file", os.O_RDONLY)
    try:
        fcntl.ioctl(fd, SET_FLAGS, struct.pack("l", NODUMP | NOATIME))
    except OSError as error:
        pytest.skip(f"this file system has no flags: {error}")
    assert read_flags(fd) == NODUMP | NOATIME
    os.close(fd)
    assert read_flags_of(b"file", os.lstat("file").st_mode) == NODUMP | NOATIME
    listed = subprocess.run(["lsattr", "file"], capture_output=True, text=True, check=True).stdout
    assert "d" in listed.split()[0]
    assert "A" in listed.split()[0]


def test_special_files_are_never_opened_for_their_flags(here):
    os.mkfifo("fifo")
    os.symlink("nowhere", "link")
    assert read_flags_of(b"fifo", os.lstat("fifo").st_mode) == 0
    assert read_flags_of(b"link", os.lstat("link").st_mode) == 0


def test_a_file_that_became_a_fifo_does_not_block(here):
    (here / "file").touch()
    mode = os.lstat("file").st_mode
    os.unlink("file")
    os.mkfifo("file")
    assert read_flags_of(b"file", mode) == 0


def test_extents_and_other_inner_flags_are_not_settable_ones(here):
    (here / "file").write_bytes(b"x" * 100_000)
    fd = os.open("file", os.O_RDONLY)
    assert read_flags(fd) == 0
    os.close(fd)
