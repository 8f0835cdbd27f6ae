"""`strongroom tag` and `rewrite` replace snapshots: the content stays, the old one goes last."""

import os
import time

import pytest
from msgspec.structs import replace

from kit.command import Command
from strongroom.base.errors import EXIT_INCOMPLETE, KeyRightError, UsageError
from strongroom.base.progress import NullProgress
from strongroom.engine.copy import rewrite
from strongroom.engine.repository.keys.files import import_key
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import write_snapshot
from strongroom.engine.scan.patterns import Patterns
from strongroom.engine.stores.local import LocalStore


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "tree"
    (folder / "etc").mkdir(parents=True)
    (folder / "etc" / "fstab").write_text("/dev/sda1 /\n")
    (folder / "secret" / "deep").mkdir(parents=True)
    (folder / "secret" / "deep" / "key").write_text("hush")
    (folder / "secret" / "key").write_bytes(os.urandom(100_000))
    (folder / "big").write_bytes(os.urandom(2 << 20))
    os.link(folder / "secret" / "key", folder / "other name")
    time.sleep(0.05)
    return folder


def snapshots(command):
    return command.objects("snapshots")


def tags(command):
    return [one["tags"] for one in snapshots(command)]


def paths(command, wanted="latest", *words):
    listed = command.objects("ls", wanted, "--recursive", *words)
    return {one["path"].rpartition("/tree")[2] for one in listed if "/tree" in one["path"]}


def opened(command):
    return Repository.open(
        LocalStore(str(command.repository)), import_key(command.restore_key.read_text())
    )


def packs(command):
    return {path.name for path in command.repository.glob("packs/*/*")}


def test_tags_are_added_removed_and_set(command, tree):
    first = command.back_up(str(tree), "--tag", "daily")
    before = packs(command)
    lines = command("tag", "latest", "--add", "release,2026", "--remove", "daily")
    assert lines[0].endswith("tags: release, 2026")
    assert lines[-1] == "1 snapshot replaced, 0 unchanged"
    (found,) = snapshots(command)
    assert found["tags"] == ["release", "2026"]
    assert found["original"].endswith(":" + first)
    assert found["id"] != first
    command("tag", "--set", "kept")
    assert tags(command) == [["kept"]]
    assert snapshots(command)[0]["original"] == found["original"]
    command("tag", "--set", "")
    assert tags(command) == [[]]
    # The pages are the same objects, and nothing was stored but snapshots.
    assert packs(command) == before
    assert command.objects("check", "--read-data")[-1]["clean"]


def test_all_but_the_tags_stays(command, tree):
    command.back_up(str(tree), "--job", "nightly", "--level", "full")
    (before,) = snapshots(command)
    command("tag", "--add", "a")
    (after,) = snapshots(command)
    for name in ("id", "tags", "original", "server_time"):
        del before[name], after[name]
    assert before == after


def test_only_those_that_are_chosen_and_change_are_replaced(command, tree):
    first = command.back_up(str(tree), "--host", "web1", "--tag", "daily")
    second = command.back_up(str(tree), "--host", "web2", "--tag", "daily")
    command("tag", "--host", "web1", "--add", "daily,weekly")
    assert {one["host"]: one["tags"] for one in snapshots(command)} == {
        "web1": ["daily", "weekly"],
        "web2": ["daily"],
    }
    assert second in {one["id"] for one in snapshots(command)}
    assert first not in {one["id"] for one in snapshots(command)}
    lines = command("tag", "--add", "daily")
    assert lines == ["0 snapshots replaced, 2 unchanged"]


def test_a_dry_run_changes_nothing(command, tree):
    made = command.back_up(str(tree))
    before = command.stored_objects()
    (said,) = command.objects("tag", "latest", "--add", "a", "--dry-run")
    assert (said["replaces"], said["id"], said["tags"]) == (made, None, ["a"])
    lines = command("rewrite", "--exclude", "secret", "--dry-run")
    assert "dropped 2 files" in lines[0]
    assert lines[-1] == "1 snapshot would be written, 0 unchanged"
    lines = command("rewrite", "--exclude", "secret", "--dry-run", "--forget")
    assert lines[-1] == "1 snapshot would be replaced, 0 unchanged"
    assert command.stored_objects() == before


def test_the_directors_tags_stay_and_cannot_be_stated(command, tree):
    command.back_up(str(tree), "--tag", f"run={'a' * 32},pool=Full,daily")
    command("tag", "--set", "mine")
    assert sorted(tags(command)[0]) == ["mine", "pool=Full", f"run={'a' * 32}"]
    command("tag", "--add", "run=x", exit_code=UsageError.exit_code)
    command("tag", "--remove", "pool=Full", exit_code=UsageError.exit_code)


def test_the_next_backup_compares_with_a_tagged_snapshot(command, tree):
    command.run("backup", str(tree), key_file=command.put_key)
    command("tag", "--add", "a")
    answer = command.run("backup", str(tree), "--skip-if-unchanged", key_file=command.put_key)
    # A put key cannot read listings: its cache knows that one by the id of its original.
    assert "nothing" in answer.stdout


def test_no_key_of_a_client_replaces_anything(command, tree):
    command.run("backup", str(tree), key_file=command.put_key)
    before = command.stored_objects()
    for words in (("tag", "--add", "a"), ("rewrite", "--exclude", "x", "--forget")):
        answer = command.run(*words, key_file=command.put_key, exit_code=KeyRightError.exit_code)
        assert "not read it" in answer.stderr
    assert command.stored_objects() == before


def test_a_snapshot_of_a_put_key_does_not_become_one_of_the_restore_key(command, tree):
    command.run("backup", str(tree), key_file=command.put_key)
    command("tag", "--add", "a")
    command("rewrite", "--exclude", "secret", "--forget")
    made = command.back_up(str(tree), "--exclude", "secret", "--skip-if-unchanged")
    assert made != "None"


def test_dropped_paths_are_gone_after_forget_and_prune(command, tree):
    old = command.back_up(str(tree))
    lines = command("rewrite", "--exclude", "/**/secret", "--exclude", "[bo]*", "--forget")
    assert "dropped 4 files" in lines[0]
    (found,) = snapshots(command)
    assert found["original"].endswith(":" + old)
    assert paths(command) == {"", "/etc", "/etc/fstab"}
    assert (found["files"], found["size_bytes"]) == (1, 12)
    command("prune", "--max-unused", "0")
    assert command.objects("check", "--read-data")[-1]["clean"]
    (stats,) = command.objects("stats")
    assert stats["raw_bytes"] == 12


def test_a_dropped_name_of_a_file_leaves_the_others(command, tree, tmp_path):
    command.back_up(str(tree))
    command("rewrite", "--exclude", "secret", "--forget")
    command("restore", "latest", "--target", str(tmp_path / "out"), "--verify")
    restored = tmp_path / "out" / str(tree / "other name").lstrip("/")
    assert restored.read_bytes() == (tree / "other name").read_bytes()


def test_without_forget_the_old_one_stays_and_the_new_one_is_the_latest(command, tree):
    old = command.back_up(str(tree))
    command("rewrite", "--exclude", "secret")
    assert {one["id"] == old: one["tags"] for one in snapshots(command)} == {
        True: [],
        False: ["rewrite"],
    }
    assert "/secret" not in paths(command)
    assert "/secret" in paths(command, old)
    # Nothing more to do for the new one; the old one is answered with what is there.
    command("rewrite", "--exclude", "secret")
    assert len(snapshots(command)) == 2


def test_what_was_rewritten_once_does_not_stand_for_itself(command, tree):
    """A second rewrite that drops no file, only links, keeps the number of files."""
    (tree / "link").symlink_to("nowhere")
    command.back_up(str(tree))
    command("rewrite", "--exclude", "secret", "--forget")
    (first,) = snapshots(command)
    command("rewrite", "--exclude", "link", "--forget")
    (second,) = snapshots(command)
    assert second["id"] != first["id"]
    assert paths(command) == {"", "/etc", "/etc/fstab", "/big", "/other name"}
    assert command.objects("check", "--read-data")[-1]["clean"]


def test_what_dropped_something_else_does_not_stand_for_it(command, tree):
    old = command.back_up(str(tree))
    command("rewrite", "--exclude", "fstab", old)
    (answer,) = command.objects("rewrite", "--exclude", "big", old)
    assert len(snapshots(command)) == 3
    assert "/big" not in paths(command, answer["id"])
    assert "/etc/fstab" in paths(command, answer["id"])


def test_what_no_one_verified_does_not_stand_for_what_is_removed(command, tree, monkeypatch):
    """Its client may have made it to have its older snapshot removed."""
    old = command.back_up(str(tree))
    command("rewrite", "--exclude", "fstab", old)
    (other,) = {one["id"] for one in snapshots(command)} - {old}
    repository = opened(command)
    (wanted,) = [one for one in repository.snapshots() if one.id == old]
    monkeypatch.setattr(
        LocalStore, "unverified", lambda _, kind: frozenset([other] * (kind == "snapshots"))
    )
    changes = rewrite.Changes(excludes=Patterns([(b"fstab", False)]), forget=False)
    (found,) = rewrite.replace_snapshots(repository, [wanted], changes, NullProgress())
    assert found.new is not None
    assert found.new.id not in (old, other)


def test_restore_deletes_nothing_for_want_of_what_was_dropped(command, tree):
    command.back_up(str(tree))
    command("rewrite", "--exclude", "secret", "--forget")
    command("restore", "latest", "--in-place", "--delete", exit_code=EXIT_INCOMPLETE)
    assert (tree / "secret" / "key").exists()


def test_what_is_protected_is_not_dropped(command, tree):
    first = command.back_up(str(tree))
    repository = opened(command)
    stored = repository.snapshot(first)
    client = repository.for_client(stored.host)
    write_snapshot(client.store, client.writer, replace(stored, protected=True), client.cipher)
    command("forget", first)
    command("rewrite", "-e", "secret", "--forget", exit_code=UsageError.exit_code)
    command("tag", "--add", "a")
    assert snapshots(command)[0]["protected"]
    command("rewrite", "-e", "secret")
    assert len(snapshots(command)) == 2


def test_another_client_gets_its_own_copy(command, tree, tmp_path):
    command.back_up(str(tree), "--host", "old")
    command.back_up(str(tree), "--host", "new")
    command("rewrite", "--host", "old", "--new-host", "new", "-e", "secret", "--forget")
    assert [one["host"] for one in snapshots(command)] == ["new", "new"]
    oldest = snapshots(command)[0]
    assert "/secret" not in paths(command, oldest["id"])
    command("prune", "--max-unused", "0")
    assert command.objects("check", "--read-data")[-1]["clean"]
    command("restore", oldest["id"], "--target", str(tmp_path / "out"), "--verify")
    repository = opened(command)
    key = repository.key
    owners = {key.client_id(name): name for name in ("old", "new")}
    stored = [(command.repository / "packs" / n[:2] / n).read_bytes() for n in packs(command)]
    assert not any(owner in pack for pack in stored for owner in owners if owners[owner] == "old")


@pytest.mark.parametrize("words", [("tag", "--add", "a"), ("rewrite", "-e", "secret", "--forget")])
def test_after_an_interruption_the_same_command_ends_the_work(command, tree, words, monkeypatch):
    command.back_up(str(tree))
    repository = opened(command)
    changes = (
        rewrite.Changes(rewrite.TagChanges(add=("a",)))
        if words[0] == "tag"
        else rewrite.Changes(excludes=Patterns([(b"secret", False)]))
    )

    def cut(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalStore, "delete", cut_snapshots(cut, LocalStore.delete))
    with pytest.raises(KeyboardInterrupt):
        list(rewrite.replace_snapshots(repository, repository.snapshots(), changes, NullProgress()))
    monkeypatch.undo()
    assert len(snapshots(command)) == 2
    command(*words)
    assert len(snapshots(command)) == 1
    assert command.objects("check")[-1]["clean"]


def cut_snapshots(cut, real):
    def delete(store, kind, name):
        return cut() if kind == "snapshots" else real(store, kind, name)

    return delete


def test_a_copy_job_takes_tagged_snapshots_as_well(command, tree, tmp_path):
    command.back_up(str(tree))
    (tmp_path / "target").mkdir()
    target = Command(tmp_path / "target")
    target.make_repository()
    words = ("copy", "--from-repo", str(command.repository), "--from-key-file",
             str(command.restore_key))  # fmt: skip
    target(*words)
    assert [one["type"] for one in target.objects(*words)] == ["skipped"]
    command("tag", "--add", "a")
    target(*words)
    assert [one["type"] for one in target.objects(*words)] == ["skipped"]
    assert [one["tags"] for one in snapshots(target)] in ([[], ["a"]], [["a"], []])
