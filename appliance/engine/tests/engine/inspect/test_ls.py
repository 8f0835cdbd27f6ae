"""`strongroom ls` shows what a snapshot holds, every name of it."""

import base64
import os
import stat

import pytest

from strongroom.base.errors import PathNotFoundError, SnapshotNotFoundError


def in_snapshot(site, path=""):
    return f"{site.tree}/{path}".rstrip("/")


def test_a_folder_lists_its_names(site):
    assert site.command("ls", site.before, in_snapshot(site, "home/ann")) == [
        "Photo.JPG", "big", "notes.txt", "pipe"
    ]  # fmt: skip


def test_a_path_may_be_written_as_restore_takes_it(site):
    place = in_snapshot(site, "home/ann")
    assert site.command("ls", f"{site.before}:{place}") == site.command("ls", site.before, place)


def test_the_newest_snapshot_is_the_default_and_filters_choose(site):
    assert "new" in site.command("ls", "latest", in_snapshot(site, "home/ann"), "--host", "web1")
    assert site.command("ls", "--host", "web1") == [in_snapshot(site).split("/")[1]]


def test_recursion_gives_whole_paths_of_everything_below(site):
    found = site.command("ls", site.after, in_snapshot(site, "etc"), "-R")
    assert found == [in_snapshot(site, "etc/motd"), in_snapshot(site, "etc/passwd")]
    everything = site.command("ls", site.after, "/", "-R")
    assert len(everything) == len(set(everything))
    assert in_snapshot(site, "home/ann/new") in everything


def test_a_file_lists_itself(site):
    path = in_snapshot(site, "etc/passwd")
    assert site.command("ls", site.after, path) == [path]


def test_long_lines_say_what_ls_says(site):
    lines = site.command("ls", site.before, in_snapshot(site, "etc"), "-l")
    by_name = {line.split(" -> ")[0].split()[-1]: line for line in lines}
    assert by_name["fstab"].startswith("-rw-r--r--")
    assert "2001-09-09 01:46:40" in by_name["fstab"]
    assert by_name["passwd"].split()[:5] == [
        "-rw-------", "1", str(os.getuid()), str(os.getgid()), "11"
    ]  # fmt: skip
    assert by_name["motd"].startswith("lrwxrwxrwx")
    assert by_name["motd"].endswith("motd -> ../run/motd")


def test_json_says_everything_about_a_row(site):
    status = os.lstat(site.tree / "home" / "ann" / "Photo.JPG")
    path = in_snapshot(site, "home/ann/Photo.JPG")
    (entry,) = site.command.objects("ls", site.after, path)
    assert entry["path"] == path
    assert entry["snapshot"] == site.after
    assert entry["kind"] == "file"
    assert int(entry["mode"], 8) == stat.S_IMODE(status.st_mode)
    assert (entry["uid"], entry["gid"]) == (status.st_uid, status.st_gid)
    assert entry["size_bytes"] == status.st_size == 300_000
    assert entry["inode"] == status.st_ino
    assert entry["modified"].endswith(f"{status.st_mtime_ns % 10**9:09}Z")


def test_a_name_that_is_not_utf8_is_lost_neither_way(site):
    names = site.command("ls", site.after, in_snapshot(site))
    assert r"caf\xe9" in names
    entries = site.command.objects("ls", site.after, in_snapshot(site))
    coded = [entry["path"]["base64"] for entry in entries if isinstance(entry["path"], dict)]
    assert [base64.b64decode(text) for text in coded] == [
        os.fsencode(in_snapshot(site)) + b"/caf\xe9"
    ]


def test_what_is_not_there_is_an_error(site):
    site.command("ls", site.after, "/no/such/thing", exit_code=PathNotFoundError.exit_code)
    site.command("ls", "ffffffff", exit_code=SnapshotNotFoundError.exit_code)
    site.command("ls", "latest", "--host", "x", exit_code=SnapshotNotFoundError.exit_code)


@pytest.mark.parametrize("option", ["-l", "--json"])
def test_several_folders(site, option):
    paths = [in_snapshot(site, "etc"), in_snapshot(site, "home")]
    assert len(site.command("ls", site.after, *paths, option)) == (3 if option == "--json" else 6)
