"""`strongroom copy` sends each chunk once, keeps what snapshots are, and may be cut off."""

import os
import random
import signal
import subprocess

import pytest

from kit.command import Command
from kit.tiny_backup import back_up, new_repository
from kit.tree_compare import compare_trees
from strongroom.base.errors import KeyRightError, SetAsideError, UsageError
from strongroom.base.progress import NullProgress
from strongroom.engine.copy.copy import CopyOptions, copy_snapshots, to_be_copied
from strongroom.engine.repository.set_aside import SetAside
from strongroom.engine.stores.local import LocalStore


@pytest.fixture
def source(command, tmp_path):
    """A repository with three snapshots of a tree of 6 MB, most of it incompressible."""
    tree = tmp_path / "tree"
    tree.mkdir()
    chance = random.Random(7)
    (tree / "large").write_bytes(chance.randbytes(4_000_000))
    for number in range(300):
        (tree / f"small{number}").write_bytes(chance.randbytes(5_000))
    os.link(tree / "small1", tree / "linked")
    with open(tree / "sparse", "wb") as file:
        file.truncate(50_000_000)
        file.seek(20_000_000)
        file.write(chance.randbytes(100_000))
    command.back_up(str(tree), "--host", "web1", "--tag", "daily")
    (tree / "small2").write_bytes(b"changed")
    command.back_up(str(tree), "--host", "web1", "--tag", "weekly")
    (tree / "copy of large").write_bytes((tree / "large").read_bytes())
    command.back_up(str(tree), "--host", "web1")
    return command


@pytest.fixture
def target(tmp_path):
    (tmp_path / "target").mkdir()
    made = Command(tmp_path / "target")
    made.make_repository()
    return made


def copy_words(source, *words):
    return ("copy", "--from-repo", str(source.repository), "--from-key-file",
            str(source.restore_key), *words)  # fmt: skip


def content_of(snapshot):
    differ = ("id", "parent", "original", "server_time")
    return {name: value for name, value in snapshot.items() if name not in differ}


def test_copies_are_the_same_snapshots(source, target, tmp_path):
    target(*copy_words(source))
    originals, copies = source.objects("snapshots"), target.objects("snapshots")
    assert [content_of(copy) for copy in copies] == [content_of(item) for item in originals]
    (stats,) = source.objects("stats")
    for original, copy in zip(originals, copies, strict=True):
        assert copy["original"].endswith(":" + original["id"])
    assert [copy["parent"] for copy in copies] == [None, copies[0]["id"], copies[1]["id"]]
    assert target.objects("check", "--read-data")[-1]["clean"]
    places = {}
    for name, repository, snapshot in (
        ("ours", source, originals[-1]["id"]), ("theirs", target, copies[-1]["id"])
    ):  # fmt: skip
        places[name] = tmp_path / name
        repository("restore", snapshot, "--target", str(places[name]))
    assert compare_trees(os.fsencode(places["ours"]), os.fsencode(places["theirs"])) == []
    (copied,) = target.objects("stats")
    assert copied["chunks"] == stats["chunks"]
    assert copied["raw_bytes"] == stats["raw_bytes"]


def test_a_second_copy_copies_nothing(source, target):
    target(*copy_words(source))
    before = target.stored_objects()
    answers = target.objects(*copy_words(source))
    assert [answer["type"] for answer in answers] == ["skipped"] * 3
    assert target.stored_objects() == before


def test_a_chunk_is_sent_once(source, target):
    first, second, third = target.objects(*copy_words(source))
    assert first["new_bytes"] == first["read_bytes"] > 5_500_000
    assert second["new_bytes"] == second["read_bytes"] == len(b"changed")
    assert third["new_bytes"] == third["read_bytes"] == 0


def test_a_later_copy_reads_only_what_is_new(source, target):
    oldest = source.objects("snapshots")[0]["id"]
    target(*copy_words(source, oldest))
    second, third = [
        answer for answer in target.objects(*copy_words(source)) if answer["type"] == "copied"
    ]
    assert second["read_bytes"] == len(b"changed")
    assert third["read_bytes"] == 0


def test_the_put_key_of_the_client_is_enough_for_the_target(source, target, tmp_path):
    key = tmp_path / "web1.key"
    target("key", "export-put", "--client", "web1", str(key))
    answer = target.run(*copy_words(source), key_file=key)
    assert answer.stdout.endswith("3 copied, 0 there already\n")
    assert target.objects("check", "--read-data")[-1]["clean"]


def test_snapshots_of_several_clients_stay_theirs(source, target, tmp_path):
    tree = tmp_path / "tree"
    other = source.back_up(str(tree), "--host", "mail")
    answer = target.run(*copy_words(source), key_file=target.restore_key)
    assert answer.stdout.endswith("4 copied, 0 there already\n")
    copies = {copy["original"].partition(":")[2]: copy for copy in target.objects("snapshots")}
    assert sorted(copy["host"] for copy in copies.values()) == ["mail", "web1", "web1", "web1"]
    assert copies[other]["host"] == "mail"
    assert target.objects("check", "--read-data")[-1]["clean"]
    target("restore", "latest", "--host", "mail", "--target", str(tmp_path / "restored"))
    restored = tmp_path / "restored" / str(tree).lstrip("/")
    assert not list(compare_trees(os.fsencode(tree), os.fsencode(restored)))


def test_the_put_key_of_another_client_copies_nothing(source, target, tmp_path):
    source.back_up(str(tmp_path / "tree"), "--host", "mail")
    key = tmp_path / "web1.key"
    target("key", "export-put", "--client", "web1", str(key))
    answer = target.run(*copy_words(source), key_file=key, exit_code=KeyRightError.exit_code)
    assert "web1, not of mail" in answer.stderr
    assert target.objects("snapshots") == []


def test_filters_and_dry_run(source, target):
    planned = target.objects(*copy_words(source, "--tag", "daily", "--dry-run"))
    assert [answer["type"] for answer in planned] == ["planned"]
    assert target.objects("snapshots") == []
    target(*copy_words(source, "latest", "--tag", "weekly"))
    assert [copy["tags"] for copy in target.objects("snapshots")] == [["weekly"]]


def test_a_copy_of_a_copy_is_still_the_same_snapshot(source, target, tmp_path):
    target(*copy_words(source))
    (tmp_path / "third").mkdir()
    third = Command(tmp_path / "third")
    third.make_repository()
    third(*copy_words(target))
    assert [snapshot["original"] for snapshot in third.objects("snapshots")] == [
        snapshot["original"] for snapshot in target.objects("snapshots")
    ]
    parents = [snapshot["parent"] for snapshot in third.objects("snapshots")]
    assert parents == [None, *[snapshot["id"] for snapshot in third.objects("snapshots")][:2]]
    # And what comes home is known there.
    before = source.stored_objects()
    assert "0 copied, 3 there already" in source(*copy_words(third))
    assert source.stored_objects() == before


def test_what_a_repair_took_from_a_copy_is_copied_again(source, target, tmp_path):
    target(*copy_words(source))
    largest = max(target.repository.glob("packs/*/*"), key=lambda path: path.stat().st_size)
    largest.unlink()
    target("repair")
    lacking = {one["id"] for one in target.objects("snapshots") if one["errors"]}
    assert lacking
    copied = [one for one in target.objects(*copy_words(source)) if one["type"] == "copied"]
    assert len(copied) == len(lacking)
    assert not {one["id"] for one in copied} & lacking
    target("restore", copied[-1]["id"], "--target", str(tmp_path / "out"), "--verify")
    assert [one["type"] for one in target.objects(*copy_words(source))] == ["skipped"] * 3


def test_the_same_repository_is_refused(source):
    source(*copy_words(source), exit_code=UsageError.exit_code)


def test_the_passphrase_of_the_target_is_tried_for_the_source(source, target):
    words = ("copy", "--from-repo", str(source.repository))
    answer = target.run(*words, "--password-file", str(target.passphrase_file))
    assert "3 copied" in answer.stdout


def test_damaged_snapshots_of_the_source_are_named_and_not_copied(source, target):
    for pack in (source.repository / "packs").rglob("*"):
        if pack.is_file():
            data = bytearray(pack.read_bytes())
            data[len(data) // 3] ^= 1
            pack.chmod(0o600)
            pack.write_bytes(data)
    answer = target.run(
        *copy_words(source), key_file=target.restore_key, exit_code=SetAsideError.exit_code
    )
    names = [one["id"] for one in source.objects("snapshots")]
    assert len(names) == 3
    assert all(name in answer.stderr for name in names)
    assert target.objects("snapshots") == []


def test_a_copy_that_is_killed_goes_on_where_it_was(source, target):
    """Killed again and again, a little later each time; nothing half-copied is ever listed."""
    delay = 0.05
    for _ in range(40):
        process = subprocess.Popen(
            target.words(*copy_words(source), key_file=target.restore_key),
            env=target.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            process.wait(timeout=delay)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            delay += 0.05
        else:
            assert process.returncode == 0
            break
    else:
        pytest.fail("never came to its end")
    assert target.objects("check", "--read-data")[-1]["clean"]
    assert len(target.objects("snapshots")) == 3
    (ours,), (theirs,) = source.objects("stats"), target.objects("stats")
    assert theirs["chunks"] == ours["chunks"]


def test_blocks_of_the_source_are_read_together(tmp_path, monkeypatch):
    appliance = new_repository(LocalStore(str(tmp_path / "source")))
    chance = random.Random(9)
    files = {f"{number}".encode(): chance.randbytes(400_000) for number in range(60)}
    back_up(appliance, files, "web1")
    reads = []
    get = LocalStore.get

    def counted(store, kind, name, *rest):
        reads.append(kind)
        return get(store, kind, name, *rest)

    target = new_repository(LocalStore(str(tmp_path / "target")))
    missing, _ = to_be_copied(appliance, target, appliance.snapshots())
    monkeypatch.setattr(LocalStore, "get", counted)
    options, nothing = CopyOptions("here"), NullProgress()
    (copied,) = copy_snapshots(appliance, target, missing, options, nothing, SetAside())
    assert copied.read_bytes == 60 * 400_000
    # Of about 1 MB each there are 24.
    assert 0 < reads.count("packs") < 16
