"""A store is set back to the state of an earlier day: every object of that state is authentic."""

import os
import shutil
from contextlib import nullcontext

import pytest

from kit.tiny_backup import new_repository
from kit.user import User
from strongroom.base.progress import NullProgress
from strongroom.engine.backup.backup import back_up
from strongroom.engine.backup.options import BackupOptions
from strongroom.engine.repository.repository import Repository
from strongroom.engine.sources.registry import open_source
from strongroom.sources.source import SourceRequest


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "file").write_text("first")
    return folder


@pytest.fixture
def user(tmp_path):
    user = User(tmp_path)
    user.make_repository()
    return user


def backed_up(user, source, text, *words):
    (source / "file").write_text(text)
    return user.backup(source, *words).summary["snapshot"]


def restored(user, snapshot, source, code=0):
    user.restored += 1
    target = user.folder / f"restored-{user.restored}"
    outcome = user.run("restore", snapshot, "--target", target)
    assert outcome.code == code, outcome.messages
    return outcome if code else (target / str(source).lstrip("/") / "file").read_text()


def set_back(user, way):
    """Two backups of which the store shows only the first; their ids."""
    first = backed_up(user, user.folder / "source", "first")
    earlier = user.folder / "earlier"
    shutil.copytree(user.repository, earlier)
    second = backed_up(user, user.folder / "source", "second")
    if way == "seen by another":
        shutil.rmtree(user.folder / "home")
        assert len(user.snapshots()) == 2
    shutil.rmtree(user.repository)
    shutil.copytree(earlier, user.repository)
    return first, second


@pytest.mark.parametrize("way", ["by who backed up", "seen by another"])
def test_latest_of_a_folder_that_was_set_back_is_refused(user, source, way):
    first, second = set_back(user, way)
    outcome = restored(user, "latest", source, 22)
    assert outcome.error == "set-back"
    assert second[:8] in outcome.messages
    assert "by its id" in outcome.messages
    listing = user.run("snapshots")
    assert [one["id"] for one in listing.of_type("snapshot")] == [first]
    assert second[:8] in listing.messages
    assert user.run("ls", "latest", "/").code == 22
    assert restored(user, first, source) == "first"
    # Of another client nothing is missing.
    other = backed_up(user, source, "other", "--host", "other")
    assert user.run("restore", "latest", "--host", "other", "-t", user.folder / "o").code == 0
    assert user.run("restore", "latest", "-t", user.folder / "p").code == 22
    assert restored(user, other, source) == "other"


@pytest.mark.parametrize("level", ["incremental", "full"])
def test_a_backup_goes_on_in_a_store_that_was_set_back(user, source, level):
    _, second = set_back(user, "by who backed up")
    (source / "file").write_text("third")
    outcome = user.backup(source, "--level", level)
    assert any(second[:8] in text for text in outcome.warnings)
    # With a newer one there, nothing is behind any more.
    assert restored(user, "latest", source) == "third"
    assert user.backup(source).warnings == []


def test_what_was_forgotten_on_purpose_is_not_missed(user, source):
    backed_up(user, source, "first")
    second = backed_up(user, source, "second")
    assert user.run("forget", second).code == 0
    assert restored(user, "latest", source) == "first"
    assert user.backup(source).warnings == []


def test_without_a_memory_or_with_a_damaged_one_nothing_is_said(user, source):
    first, _ = set_back(user, "by who backed up")
    assert user.run("restore", "latest", "-t", user.folder / "a", "--no-cache").code == 0
    (memory,) = (user.folder / "home").rglob("newest/*")
    memory.write_bytes(b"damaged")
    assert restored(user, "latest", source) == "first"
    assert first in {one["id"] for one in user.snapshots()}


def make(repository, source, cache):
    request = SourceRequest((os.fsencode(source),), b"", {})
    options = BackupOptions(host="web1", cache_folder=os.fsencode(cache))
    return back_up(
        repository, open_source("files", request), options, lambda: nullcontext(NullProgress())
    )


def test_an_agent_and_the_appliance_notice_a_storage_daemon_that_was_set_back(
    make_daemon, tmp_path, source
):
    daemon = make_daemon()
    whole = new_repository(daemon.local())
    key = whole.key.put_key("web1")
    state = tmp_path / "state"
    operator = daemon.operator(tmp_path)

    def backup(text):
        (source / "file").write_text(text)
        agent = Repository.open(daemon.agent("web1"), key)
        try:
            return make(agent, source, state)
        finally:
            agent.close()

    first = backup("first").snapshot
    whole.close()
    daemon.server.stop()
    shutil.copytree(daemon.repository, tmp_path / "earlier")
    daemon.restart()
    second = backup("second").snapshot
    assert len(operator.snapshots()) == 2
    daemon.server.stop()
    shutil.rmtree(daemon.repository)
    shutil.copytree(tmp_path / "earlier", daemon.repository)
    daemon.restart()
    assert operator.run("restore", "latest", "-t", tmp_path / "r").error == "set-back"
    assert operator.run("restore", first.id, "-t", tmp_path / "r").code == 0
    report = backup("third")
    assert report.snapshot is not None
    assert any(second.short_id in text for text in report.warnings)
    assert backup("fourth").warnings == ()
    assert operator.run("restore", "latest", "-t", tmp_path / "s").code == 0


def test_whoever_sees_one_client_only_misses_nothing_of_the_others(user, source):
    backed_up(user, source, "first", "--host", "web1")
    backed_up(user, source, "second", "--host", "web2")
    assert len(user.snapshots()) == 2
    key = user.folder / "put.key"
    assert user.run("key", "export-put", key, "--client", "web1").code == 0
    agent = User(user.folder, credentials=("--key-file", str(key)))
    listing = agent.run("snapshots")
    assert [one["host"] for one in listing.of_type("snapshot")] == ["web1"]
    assert "the newest known here" not in listing.messages
