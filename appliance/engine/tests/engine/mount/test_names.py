"""The names above the snapshots of a mounted repository."""

from strongroom.engine.mount.names import Folder, Inside, Link, NameTree
from strongroom.engine.repository.snapshots import Snapshot

SECOND = 1_000_000_000


def snapshot(number, *, host="host", start=0, tags=()):
    return Snapshot(id=f"{number:064x}", host=host, start_ns=start * SECOND, tags=tags)


def names(tree, path):
    place = tree.place(path)
    assert isinstance(place, Folder)
    return sorted(place.names)


def test_an_empty_repository_has_empty_folders():
    tree = NameTree(())
    assert names(tree, b"") == [b"hosts", b"ids", b"tags"]
    assert names(tree, b"hosts") == names(tree, b"tags") == names(tree, b"ids") == []


def test_a_path_leads_into_a_snapshot():
    one = snapshot(1 << 224)
    tree = NameTree([one])
    assert tree.place(b"ids/00000001/etc/passwd") == Inside(one, b"etc/passwd")
    assert tree.place(b"hosts/host/1970-01-01_00.00.00") == Inside(one, b"")
    assert tree.place(b"hosts/nobody") is None
    assert tree.place(b"latest/etc") is None  # the kernel follows links, not we


def test_latest_is_the_newest():
    old, new = snapshot(1, start=1, tags=("a",)), snapshot(2, start=2, tags=("a", "b"))
    tree = NameTree([old, new])
    for path in (b"hosts/host/latest", b"tags/a/latest", b"tags/b/latest"):
        link = tree.place(path)
        assert isinstance(link, Link)
        assert tree.place(path.replace(b"latest", link.target)) == Inside(new, b"")
    link = tree.place(b"latest")
    assert isinstance(link, Link)
    assert tree.place(link.target) == Inside(new, b"")


def test_snapshots_of_one_second_have_names_of_their_own():
    twins = [snapshot(number << 224, start=5) for number in (1, 2, 3)]
    tree = NameTree(twins)
    found = names(tree, b"hosts/host")
    assert len(found) == 4
    times = [name for name in found if name != b"latest"]
    assert {tree.place(b"hosts/host/" + name).snapshot.id for name in times} == {
        twin.id for twin in twins
    }


def test_ids_that_begin_alike_are_told_apart():
    twins = [snapshot(number) for number in (1, 2)]  # both begin with zeros
    tree = NameTree(twins)
    assert {tree.place(b"ids/" + name).snapshot.id for name in names(tree, b"ids")} == {
        twin.id for twin in twins
    }


def test_hosts_and_tags_become_names_whatever_they_are():
    strange = ["a/b", "..", ".", "", "100%", "caf\udce9", "nul\0"]
    tree = NameTree([snapshot(number, host=host) for number, host in enumerate(strange)])
    found = names(tree, b"hosts")
    assert len(found) == len(strange)
    assert all(name not in (b"", b".", b"..") for name in found)
    assert not any(b"/" in name or b"\0" in name for name in found)
    assert b"caf\xe9" in found
