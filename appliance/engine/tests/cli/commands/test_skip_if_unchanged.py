"""`backup --skip-if-unchanged` makes no snapshot that would hold just what its parent holds."""

import os
import time

import pytest
from msgspec.structs import replace

from strongroom.base.errors import EXIT_INCOMPLETE, UsageError
from strongroom.engine.repository.keys.files import import_key
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import write_snapshot
from strongroom.engine.stores.local import LocalStore

SKIP = "--skip-if-unchanged"


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "tree"
    (folder / "etc").mkdir(parents=True)
    (folder / "etc" / "fstab").write_text("/dev/sda1 /\n")
    (folder / "big").write_bytes(os.urandom(2 << 20))
    # What changed in the moment of a backup is read again by the next one.
    time.sleep(0.05)
    return folder


def snapshots(command):
    return [found["id"] for found in command.objects("snapshots")]


def skipped(command, *words):
    """The parent, where no snapshot was made."""
    summary = command.objects("backup", *words, SKIP)[-1]
    assert (summary["snapshot"], summary["unchanged"]) == (None, True)
    return summary["parent"]


def test_without_a_parent_or_without_the_option_a_snapshot_is_made(command, tree):
    first = command.back_up(str(tree), SKIP)
    second = command.back_up(str(tree))
    assert snapshots(command) == [first, second]


def test_where_nothing_changed_nothing_is_stored(command, tree):
    parent = command.back_up(str(tree))
    before = command.stored_objects()
    lines = command("backup", str(tree), SKIP)
    assert lines[0] == f"nothing changed since {parent[:8]}: no snapshot was made"
    assert skipped(command, str(tree)) == parent
    assert command.stored_objects() == before


def test_what_was_only_read_again_did_not_change(command, tree):
    parent = command.back_up(str(tree))
    (tree / "big").read_bytes()
    assert skipped(command, str(tree)) == parent


@pytest.mark.parametrize("change", ["content", "mode", "time", "new", "gone"])
def test_every_change_makes_a_snapshot(command, tree, change):
    parent = command.back_up(str(tree))
    if change == "content":
        (tree / "etc" / "fstab").write_text("/dev/sdb1 /\n")
    elif change == "mode":
        (tree / "big").chmod(0o600)
    elif change == "time":
        os.utime(tree / "big", ns=(1, 1))
    elif change == "new":
        (tree / "etc" / "motd").touch()
    else:
        (tree / "etc" / "fstab").unlink()
    made = command.back_up(str(tree), SKIP)
    assert snapshots(command) == [parent, made]


def test_what_lies_beside_the_named_paths_does_not_count(command, tree):
    paths = (str(tree / "etc"), str(tree / "etc" / "fstab"), str(tree / "big"))
    parent = command.back_up(*paths)
    (tree / "beside").touch()
    tree.chmod(0o700)
    assert skipped(command, *paths) == parent
    (tree / "etc").chmod(0o700)
    assert command.back_up(*paths, SKIP) != "None"


def test_other_paths_make_a_snapshot(command, tree):
    command.back_up(str(tree))
    command.back_up(str(tree / "etc"), SKIP)
    command.back_up(str(tree / "etc"), str(tree / "big"), SKIP)
    assert len(snapshots(command)) == 3


def test_a_put_key_compares_by_its_cache(command, tree):
    def backed_up(*words):
        return command.run("backup", str(tree), *words, key_file=command.put_key).stdout

    backed_up()
    assert "nothing changed since" in backed_up(SKIP)
    assert len(snapshots(command)) == 1
    assert "nothing changed since" not in backed_up(SKIP, "--no-cache")
    assert len(snapshots(command)) == 2


def test_the_restore_key_takes_no_snapshot_of_a_put_key_for_its_own(command, tree):
    command.run("backup", str(tree), key_file=command.put_key)
    made = command.back_up(str(tree), SKIP)
    assert snapshots(command)[1:] == [made]
    assert skipped(command, str(tree)) == made


def test_who_forges_the_mark_of_the_restore_key_gains_nothing(command, tree):
    first = command.back_up(str(tree))
    key = import_key(command.restore_key.read_text())
    repository = Repository.open(LocalStore(str(command.repository)), key)
    host = repository.snapshot(first).host
    repository = repository.for_client(host, 0)
    stored = repository.snapshot(first)
    forged = replace(stored, witness=bytes(32), start_ns=stored.start_ns + 1)
    write_snapshot(repository.store, repository.writer, forged, repository.cipher)
    made = command.back_up(str(tree), SKIP)
    assert len(snapshots(command)) == 3
    assert skipped(command, str(tree)) == made


def test_what_cannot_be_read_is_still_told(command, tree):
    words = ("backup", str(tree), str(tree / "absent"), SKIP)
    command(*words, exit_code=EXIT_INCOMPLETE)
    lines = command(*words, exit_code=EXIT_INCOMPLETE)
    assert lines[0].startswith("nothing changed since")
    assert len(snapshots(command)) == 1
    # The next one is complete, and the snapshot that is there says that it is not.
    command.back_up(str(tree), SKIP)
    assert len(snapshots(command)) == 2


def test_what_was_lost_is_stored_again_with_a_snapshot(command, tree):
    command.back_up(str(tree))
    for pack in command.repository.glob("packs/*/*"):
        if pack.stat().st_size > 1 << 20:
            pack.unlink()
    command("repair")
    made = command.back_up(str(tree), SKIP)
    assert snapshots(command)[-1] == made
    command("check", "--read-data")


def test_a_dry_run_says_what_would_be_done(command, tree):
    parent = command.back_up(str(tree))
    lines = command("backup", str(tree), SKIP, "--dry-run")
    assert lines[0] == f"nothing changed since {parent[:8]}: no snapshot would be made"
    (tree / "etc" / "motd").touch()
    lines = command("backup", str(tree), SKIP, "--dry-run")
    assert lines[0] == "dry run: nothing was stored"


def test_a_full_backup_compares_with_nothing(command, tree):
    command("backup", str(tree), SKIP, "--level", "full", exit_code=UsageError.exit_code)
