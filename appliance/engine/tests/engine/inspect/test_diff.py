"""`strongroom diff` finds exactly what changed, and reads no page that both snapshots have."""

import os
import random
import shutil
import stat

import pytest

from kit.command import Command
from strongroom.base.errors import SnapshotNotFoundError
from strongroom.engine.inspect.diff import SnapshotComparison
from strongroom.engine.repository.client_readers import ClientReaders
from strongroom.engine.repository.repository import Repository
from strongroom.engine.stores.local import LocalStore


def changes(command, *words):
    """Path -> (change, what) of each difference, and the summary."""
    *differences, summary = command.objects("diff", *words)
    found = {
        difference["path"]: (difference["change"], difference["what"]) for difference in differences
    }
    assert len(found) == len(differences)
    return found, summary


def test_every_kind_of_change_is_told(site):
    found, summary = changes(site.command, site.before, site.after, str(site.tree))
    root = str(site.tree)
    assert found == {
        f"{root}/etc": ("metadata", ["mtime"]),
        f"{root}/etc/fstab": ("removed", []),
        f"{root}/etc/motd": ("retyped", ["kind"]),
        f"{root}/etc/passwd": ("metadata", ["mode"]),
        f"{root}/home/ann": ("metadata", ["mtime"]),
        f"{root}/home/ann/new": ("added", []),
        f"{root}/home/ann/notes.txt": ("modified", ["content", "size", "mtime"]),
    }
    assert {kind: summary[kind] for kind in ("added", "removed", "modified", "retyped")} == {
        "added": 1, "removed": 1, "modified": 1, "retyped": 1
    }  # fmt: skip
    assert summary["removed_bytes"] == len("/dev/sda1 /\n")


def test_people_see_what_changed_and_how(site):
    lines = site.command("diff", site.before, site.after, str(site.tree))
    assert lines[0].startswith(f"--- {site.before[:8]}")
    assert f"U  {site.tree}/etc/passwd  (mode 0600 -> 0640)" in lines
    assert f"M  {site.tree}/home/ann/notes.txt  (content +9 B, mtime)" in lines
    assert f"T  {site.tree}/etc/motd  (symlink -> directory)" in lines
    assert f"-  {site.tree}/etc/fstab  (12 B)" in lines
    assert lines[-1].startswith("1 added (4 B), 1 removed (12 B), 1 modified (15 B)")


def test_content_only_leaves_metadata_out(site):
    found, summary = changes(
        site.command, site.before, site.after, str(site.tree), "--content-only"
    )
    assert {change for change, _ in found.values()} == {"added", "removed", "modified", "retyped"}
    assert summary["metadata"] == 0


def test_the_other_way_round_it_is_the_opposite(site):
    there, _ = changes(site.command, site.before, site.after, str(site.tree))
    back, _ = changes(site.command, site.after, site.before, str(site.tree))
    assert there.keys() == back.keys()
    opposite = {"added": "removed", "removed": "added"}
    assert {path: opposite.get(change, change) for path, (change, _) in there.items()} == {
        path: change for path, (change, _) in back.items()
    }


def test_a_snapshot_does_not_differ_from_itself(site):
    assert changes(site.command, site.after, site.after)[0] == {}
    site.command("diff", site.after, "ffff", exit_code=SnapshotNotFoundError.exit_code)


def test_a_folder_narrows_it_down(site):
    below = str(site.tree / "home")
    found, _ = changes(site.command, site.before, site.after, below)
    assert set(found) == {f"{below}/ann", f"{below}/ann/new", f"{below}/ann/notes.txt"}


def picture(root):
    """Path -> what a diff compares, by the operating system's own account."""
    seen = {}
    for folder, names, files in os.walk(root):
        for name in names + files:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            content = b""
            if stat.S_ISREG(status.st_mode):
                with open(path, "rb") as file:
                    content = file.read()
            elif stat.S_ISLNK(status.st_mode):
                content = os.fsencode(os.readlink(path))
            seen[path] = (stat.S_IFMT(status.st_mode), content, status.st_mode, status.st_mtime_ns)
    return seen


def expected_change(before, after):
    if before is None or after is None:
        return "added" if before is None else "removed"
    if before[0] != after[0]:
        return "retyped"
    return "modified" if before[1] != after[1] else "metadata"


def scramble(root, chance):
    """Make some random changes below `root`."""
    folders = [folder for folder, _, _ in os.walk(root)]
    for number in range(40):
        folder = chance.choice(folders)
        if not os.path.isdir(folder):
            continue
        path = os.path.join(folder, f"n{chance.randrange(30)}")
        there = os.path.lexists(path)
        is_folder = os.path.isdir(path) and not os.path.islink(path)
        match chance.choice(["write", "remove", "mode", "time", "folder", "link"]):
            case "write" if not is_folder and not os.path.islink(path):
                with open(path, "ab") as file:
                    file.write(bytes([number]))
            case "remove" if there:
                shutil.rmtree(path) if is_folder else os.unlink(path)
            case "mode" if there and not os.path.islink(path):
                os.chmod(path, 0o755 if chance.random() < 0.5 else 0o700)
            case "time" if there:
                os.utime(path, ns=(number, number), follow_symlinks=False)
            case "folder" if not there:
                os.mkdir(path)
                folders.append(path)
            case "link" if not there:
                os.symlink(f"target {number}", path)
            case _:
                continue


@pytest.mark.parametrize("seed", range(3))
def test_whatever_changes_is_found(command, tmp_path, seed):
    chance = random.Random(seed)
    tree = tmp_path / "tree"
    tree.mkdir()
    snapshots, pictures = [], []
    for _ in range(3):
        scramble(tree, chance)
        snapshots.append(command.back_up(str(tree)))
        pictures.append(picture(tree))
    for one, other in ((0, 1), (1, 2), (0, 2)):
        expected = {
            path: expected_change(pictures[one].get(path), pictures[other].get(path))
            for path in pictures[one].keys() | pictures[other].keys()
            if pictures[one].get(path) != pictures[other].get(path)
        }
        found, _ = changes(command, snapshots[one], snapshots[other], str(tree))
        assert {
            path: change for path, (change, _) in found.items() if path != str(tree)
        } == expected


def test_pages_that_both_snapshots_have_are_skipped(command, tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    for number in range(30_000):
        os.mknod(tree / f"{number:05}")
    before = command.back_up(str(tree))
    (tree / "29999").write_text("changed")
    after = command.back_up(str(tree))
    repository = Repository.open(LocalStore(str(command.repository)), restore_key_of(command))
    one, other = repository.snapshot(before), repository.snapshot(after)
    shared = {page.block_id for page in one.pages} & {page.block_id for page in other.pages}
    comparison = SnapshotComparison(ClientReaders(repository, repository.load_index()), one, other)
    found = [difference.path for difference in comparison.differences()]
    assert os.fsencode(tree / "29999").strip(b"/") in found
    assert len(shared) >= 2
    assert comparison.pages_skipped == len(shared)


def restore_key_of(command: Command):
    from strongroom.cli.access import read_key_file

    return read_key_file(str(command.restore_key))
