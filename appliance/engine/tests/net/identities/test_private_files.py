"""Files that are replaced as a whole."""

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
