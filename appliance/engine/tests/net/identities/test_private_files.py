"""Files that are replaced as a whole."""

import errno
import os
import stat

import pytest

from strongroom.net.identities.private_files import write_file


def test_a_file_is_replaced_and_what_is_no_file_stays(tmp_path):
    place = os.fsencode(tmp_path / "place")
    for data in (b"one", b"two"):
        write_file(place, data, 0o600)
        assert (tmp_path / "place").read_bytes() == data
    # As /dev/null is for root.
    os.mkfifo(tmp_path / "device")
    with pytest.raises(OSError, match="not a file"):
        write_file(os.fsencode(tmp_path / "device"), b"three", 0o600)
    assert stat.S_ISFIFO(os.stat(tmp_path / "device").st_mode)
    assert sorted(os.listdir(tmp_path)) == ["device", "place"]


def test_no_owner_is_changed_where_none_has_to_be(tmp_path, monkeypatch):
    """A unit whose system calls are filtered may not."""

    def refused(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "fchown", refused)
    for data in (b"one", b"two"):
        write_file(os.fsencode(tmp_path / "place"), data, 0o600)
        assert (tmp_path / "place").read_bytes() == data


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_root_writes_gets_the_owner_of_the_file_or_of_its_folder(tmp_path):
    os.chown(tmp_path, 1234, 1235)
    for data in (b"one", b"two"):
        write_file(os.fsencode(tmp_path / "place"), data, 0o600)
        found = os.stat(tmp_path / "place")
        assert (found.st_uid, found.st_gid) == (1234, 1235)
