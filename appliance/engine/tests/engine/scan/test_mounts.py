"""Which places count as far away."""

from __future__ import annotations

from strongroom.engine.scan.mounts import far_places, lies_below, mounts_of

MOUNTINFO = rb"""22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / /home rw - nfs4 server:/home rw,vers=4.2
31 30 0:41 / /home/local rw - xfs /dev/sdb1 rw
32 22 0:42 / /mnt/with\040blank rw master:3 - fuse.sshfs host: rw
33 22 0:43 / /srv rw - nfs server:/srv rw
34 33 8:2 / /srv rw - ext4 /dev/sda2 rw
35 22 0:44 / /proc rw - proc proc rw
36 22 0:45 / /data rw - fuseblk /dev/sdc1 rw
37 22 0:46 / /homes rw - cifs //server/homes rw
damaged line
"""


def test_places_that_hold_a_path_or_lie_below_it_are_found() -> None:
    assert far_places((b"home/ann",), MOUNTINFO) == (b"home",)
    assert far_places((b"home",), MOUNTINFO) == (b"home",)
    assert far_places((b"",), MOUNTINFO) == (b"home", b"homes", b"mnt/with blank")
    assert far_places((b"etc", b"mnt"), MOUNTINFO) == (b"mnt/with blank",)


def test_local_places_are_not_far() -> None:
    assert far_places((b"etc", b"var/lib"), MOUNTINFO) == ()
    assert far_places((b"home/local/x",), MOUNTINFO) == ()
    assert far_places((b"srv/x",), MOUNTINFO) == (), "a later mount hides the one below it"
    assert far_places((b"data",), MOUNTINFO) == ()
    assert far_places((b"",), b"") == ()


def test_every_mount_is_known_with_whether_it_is_far() -> None:
    assert mounts_of((b"home/ann", b"srv"), MOUNTINFO) == {b"home": True, b"srv": False}
    assert mounts_of((b"home",), MOUNTINFO) == {b"home": True, b"home/local": False}
    assert mounts_of((b"etc",), MOUNTINFO) == {b"": False}
    assert mounts_of((b"etc",), b"") == {b"": False}


def test_names_that_begin_alike_are_not_below() -> None:
    assert lies_below(b"home/a", (b"home",))
    assert lies_below(b"home", (b"home",))
    assert not lies_below(b"homes", (b"home",))
    assert lies_below(b"anything", (b"",))
    assert not lies_below(b"anything", ())
