"""`strongroom find` finds by every criterion, in every snapshot."""

import pytest

from strongroom.base.errors import UsageError


def found(site, *words):
    """(snapshot, name) of each match."""
    return {
        (match["snapshot"], match["path"].rsplit("/", 1)[-1])
        for match in site.command.objects("find", *words)
        if isinstance(match["path"], str)
    }


def everywhere(site, *names):
    return {(snapshot, name) for snapshot in (site.before, site.after) for name in names}


def test_by_pattern(site):
    assert found(site, "*.txt") == everywhere(site, "notes.txt")
    assert found(site, "photo.jpg") == set()
    assert found(site, "-i", "photo.jpg") == everywhere(site, "Photo.JPG")
    assert found(site, "home/**/n*") == everywhere(site, "notes.txt") | {(site.after, "new")}


def test_by_regular_expression(site):
    assert found(site, "--regex", r"/ann/[a-z]+$") == everywhere(site, "big", "pipe") | {
        (site.after, "new")
    }


def test_by_type_size_and_time(site):
    assert found(site, "--type", "fifo") == everywhere(site, "pipe")
    assert found(site, "--larger-than", "1M") == everywhere(site, "big")
    assert found(site, "--larger-than", "2M") == set()
    assert found(site, "--larger-than", "2097151", "--smaller-than", "2097153") == everywhere(
        site, "big"
    )
    assert found(site, "--type", "file", "--older-than", "2002-01-01") == {(site.before, "fstab")}
    assert (site.after, "new") in found(site, "--newer-than", "1h", "n*")


def test_in_one_snapshot_or_below_one_folder(site):
    assert found(site, "notes.txt", "--in", site.after[:10]) == {(site.after, "notes.txt")}
    below = str(site.tree / "etc")
    assert found(site, "p*", "--below", below, "--host", "web1") == everywhere(site, "passwd")


def test_versions_are_listed_with_the_snapshots_that_have_them(site):
    versions = site.command.objects("find", "notes.txt", "big", "--show-snapshots")
    held = {
        (version["path"].rsplit("/", 1)[-1], version["size_bytes"]): [
            snapshot["id"] for snapshot in version["snapshots"]
        ]
        for version in versions
    }
    assert held == {
        ("big", 2 << 20): [site.after, site.before],
        ("notes.txt", 15): [site.after],
        ("notes.txt", 6): [site.before],
    }


def test_people_get_the_newest_snapshot_first(site):
    lines = site.command("find", "notes.txt")
    assert [line.split()[0] for line in lines if line and not line.startswith("/")] == [
        site.after[:8], site.before[:8]
    ]  # fmt: skip
    assert site.command("find", "no such name") == ["no match"]


@pytest.mark.parametrize(
    "words",
    [
        ("--regex", "("),
        ("--type", "door"),
        ("--larger-than", "big"),
        ("--newer-than", "soon"),
        ("/",),
    ],
)
def test_nonsense_is_refused(site, words):
    site.command("find", *words, exit_code=UsageError.exit_code)
