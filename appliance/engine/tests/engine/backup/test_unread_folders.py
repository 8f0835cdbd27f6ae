"""A folder that could not be listed is marked as such wherever a snapshot is shown or used."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from kit.user import User


@pytest.fixture
def source(folder: Path) -> Path:
    made = folder / "source"
    (made / "closed" / "deep").mkdir(parents=True)
    (made / "closed" / "inside").write_text("inside")
    (made / "closed" / "deep" / "file").write_text("file")
    (made / "open").mkdir()
    (made / "open" / "file").write_text("file")
    return made


@pytest.fixture
def user(user: User, source: Path) -> User:
    """Two snapshots: of everything, and of all but a folder that may not be listed any more."""
    if os.geteuid() != 0:
        pytest.skip("becomes somebody else")
    for path in (user.folder, *user.folder.rglob("*")):
        os.chown(path, 65534, 65534)
    user.prefix = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--")
    user.backup(source)
    (source / "closed").chmod(0)
    outcome = user.backup(source, code=3)
    assert list(outcome.problems) == [str(source / "closed")]
    user.prefix = ()
    return user


def test_it_is_shown_as_unreadable(user: User, source: Path) -> None:
    closed = str(source / "closed")
    assert user.listed(below=source)["closed"]["state"] == "unreadable"
    assert user.run("ls", "latest", closed).warnings
    first, second = (one["id"] for one in user.snapshots())
    found = {one["snapshot"]: one for one in user.run("find", "closed").of_type("match")}
    assert "state" not in found[first]
    assert found[second]["state"] == "unreadable"
    seen = user.run("diff", first, second).of_type("difference")
    assert [(one["path"], one["what"]) for one in seen if one["path"].startswith(closed)] == [
        (closed, ["mode", "state"])
    ]
    words = [sys.executable, "-m", "strongroom", "dump", "latest", str(source)]
    with (user.folder / "archive").open("wb") as output:
        ended = subprocess.run(words, env=user.environment, stdout=output, check=False)
    assert ended.returncode == 3
    with tarfile.open(user.folder / "archive") as archive:
        assert "closed" in archive.getnames()


def test_a_folder_whose_names_cannot_be_examined_is_one_of_them(user: User, source: Path) -> None:
    (source / "closed").chmod(0o444)
    user.prefix = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--")
    user.backup(source, code=3)
    user.prefix = ()
    (source / "closed").chmod(0o755)
    assert user.listed(below=source)["closed"]["state"] == "unreadable"
    outcome = user.run("restore", f"latest:{source}", "--in-place", "--delete")
    assert outcome.code == 3
    assert outcome.summary["problems"] == {"unread": 1}
    assert (source / "closed" / "deep" / "file").exists()


def test_a_restore_says_so_names_the_snapshot_that_has_it_and_deletes_nothing_there(
    user: User, source: Path
) -> None:
    first, _ = (one["id"] for one in user.snapshots())
    (source / "closed").chmod(0o755)
    (source / "open" / "extra").touch()
    words = ("--in-place", "--delete", "--verify")
    outcome = user.run("restore", f"latest:{source}", *words)
    assert outcome.code == 3
    assert outcome.summary["problems"] == {"unread": 1}
    assert outcome.summary["differences"] == {"unread": 1}
    assert outcome.summary["not_deleted"] == {"unread": 2}
    assert (source / "closed" / "deep" / "file").exists()
    assert not (source / "open" / "extra").exists()
    closed = str(source / "closed")
    assert outcome.of_type("unread") == [{"type": "unread", "path": closed, "newest": first}]
    # The folder itself, and what is in it.
    outcome = user.run("restore", f"latest:{closed}", "--target", user.folder / "new")
    assert (outcome.code, outcome.summary["problems"]) == (3, {"unread": 1})
    assert outcome.of_type("unread")[0]["newest"] == first
    outcome = user.run("restore", f"latest:{closed}/inside", "--target", user.folder / "new")
    assert (outcome.code, outcome.error) == (15, "path-not-found")
    assert first[:8] in outcome.messages


def test_it_is_read_again_as_soon_as_it_can_be(user: User, source: Path) -> None:
    user.backup(source)
    assert "state" not in user.listed(below=source)["closed"]
    assert "closed/deep/file" in user.names(source)


def test_the_newest_snapshot_that_has_it_is_not_forgotten(user: User, source: Path) -> None:
    first, second = (one["id"] for one in user.snapshots())
    user.prefix = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--")
    (source / "open" / "new").touch()
    user.backup(source, code=3)
    third = user.snapshots()[-1]["id"]
    assert user.run("forget", "--keep-last", "1").code == 0
    assert [one["id"] for one in user.snapshots()] == [first, third] != [first, second]
    (source / "closed").chmod(0o755)
    user.backup(source)
    assert user.run("forget", "--keep-last", "1").code == 0
    assert len(user.snapshots()) == 1
