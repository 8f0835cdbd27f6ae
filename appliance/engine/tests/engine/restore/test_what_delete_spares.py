"""`restore --delete` removes only what the backup would have stored, and says what it leaves."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kit.command import Command
from kit.hand_backup import back_up
from kit.observed_restore import run_restore
from strongroom.base.progress import NullProgress
from strongroom.engine.repair.repair import RepairOptions, repair
from strongroom.engine.restore.options import EntryKind
from strongroom.engine.restore.scope import Spared

CACHE_TAG = "Signature: 8a477f597d28d172789f06886806bc55\n"


@contextmanager
def mounted(place: Path, *words: str) -> Iterator[None]:
    """A file system of its own at `place`, or what the words of mount(8) say."""
    line = ["mount", *(words or ("-t", "tmpfs", "none")), str(place)]
    if subprocess.run(line, capture_output=True, check=False).returncode:
        pytest.skip("this sandbox does not let us mount")
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)


def restored(command: Command, what: str, *words: str, exit_code: int = 0) -> dict[str, Any]:
    """The summary of a restore in place with --delete."""
    ended = command.run(
        "--json", "restore", what, "--in-place", "--delete", *words,
        key_file=command.restore_key, exit_code=exit_code,
    )  # fmt: skip
    found = list(map(json.loads, ended.stdout.splitlines()))
    (summary,) = (one for one in found if one["type"] == "summary")
    assert isinstance(summary, dict)
    return summary


def test_what_the_backup_left_out_stays_and_what_it_would_have_stored_goes(
    command: Command, tree: Path
) -> None:
    for folder in ("cache", "keep", "plain", "mnt"):
        (tree / folder).mkdir()
    (tree / "cache" / "CACHEDIR.TAG").write_text(CACHE_TAG)
    (tree / "keep" / ".nobackup").touch()
    left_out = ["one.iso", "plain/two.iso", "big", "cache/object", "keep/letter", "socket", "mnt/p"]
    stored = ["plain/file", "shrunk"]
    with mounted(tree / "mnt"):
        for name in (*left_out, *stored):
            (tree / name).write_text(name)
        (tree / "socket").unlink()
        (tree / "big").write_bytes(bytes(2000))
        (tree / "grown-less").write_bytes(bytes(2000))
        with socket.socket(socket.AF_UNIX) as listening:
            os.chdir(tree)
            listening.bind("socket")
        command.run(
            "backup", str(tree), "--one-file-system", "--exclude", "*.iso", "--exclude-caches",
            "--exclude-if-present", ".nobackup", "--exclude-larger-than", "1000",
            key_file=command.put_key,
        )  # fmt: skip
        # Since then: names that the rules leave out, and others; one that fits the rules now.
        (tree / "plain" / "late.iso").touch()
        (tree / "grown-less").write_bytes(b"short")
        (tree / "new" / "deep").mkdir(parents=True)
        (tree / "new" / "deep" / "late.iso").touch()
        (tree / "new" / "file").touch()
        (tree / "old" / "deep").mkdir(parents=True)
        (tree / "old" / "deep" / "file").touch()
        (tree / "plain" / "extra").touch()
        (tree / "plain" / "file").unlink()
        seen = restored(command, f"latest:{tree}", "--verify")
        for name in (*left_out, *stored, "plain/late.iso", "grown-less", "new/deep/late.iso"):
            assert os.path.lexists(tree / name), name
        for name in ("new/file", "old", "plain/extra"):
            assert not os.path.lexists(tree / name), name
    assert seen["actions"]["deleted"] == 2
    assert not seen["problems"]
    assert not seen["differences"]
    assert set(seen["not_deleted"]) == {"excluded", "special", "not-entered"}


def test_nothing_is_deleted_on_another_mount_than_the_path_that_is_restored(
    command: Command, tree: Path
) -> None:
    for folder in ("disk", "bound", "elsewhere"):
        (tree / folder).mkdir()
    (tree / "elsewhere" / "file").touch()
    command.run("backup", str(tree), key_file=command.put_key)
    with mounted(tree / "disk"), mounted(tree / "bound", "--bind", str(tree / "elsewhere")):
        (tree / "disk" / "precious").touch()
        (tree / "extra" / "mount").mkdir(parents=True)
        (tree / "extra" / "bound").touch()
        with (
            mounted(tree / "extra" / "mount"),
            mounted(tree / "extra" / "bound", "--bind", str(tree / "elsewhere" / "file")),
        ):
            (tree / "extra" / "mount" / "precious").touch()
            (tree / "extra" / "file").touch()
            seen = restored(command, f"latest:{tree}")
            assert (tree / "extra" / "mount" / "precious").exists()
            assert not (tree / "extra" / "file").exists()
        assert (tree / "disk" / "precious").exists()
        assert (tree / "elsewhere" / "file").exists()
        assert set(seen["not_deleted"]) == {"mount"}
        # The path itself is not crossed into but named; it was not a mount when it was backed up.
        restored(command, f"latest:{tree}/disk")
        assert (tree / "disk" / "precious").exists()


def test_a_folder_that_equals_its_parent_snapshot_is_recorded_anew(
    command: Command, tree: Path
) -> None:
    (tree / "file").touch()
    (tree / "big").write_bytes(bytes(2000))
    for _ in range(3):  # the third finds what the second had already compared
        command.run(
            "backup", str(tree), "--exclude-larger-than", "1000", key_file=command.restore_key
        )
    (tree / "big").write_bytes(b"small")
    (tree / "extra").touch()
    seen = restored(command, f"latest:{tree}")
    assert sorted(os.listdir(tree)) == ["big", "file"]
    assert seen["not_deleted"] == {"excluded": 1}


@pytest.mark.parametrize("stays", [False, True])
def test_verify_finds_extra_entries_on_mounts_that_the_backup_entered(
    command: Command, tree: Path, stays: bool
) -> None:
    (tree / "disk").mkdir()
    with mounted(tree / "disk"):
        (tree / "disk" / "file").touch()
        words = ("--one-file-system",) if stays else ()
        command.run("backup", str(tree), *words, key_file=command.put_key)
        (tree / "disk" / "extra").touch()
        ended = command.run(
            "--json", "verify", f"latest:{tree}/disk", key_file=command.restore_key,
            exit_code=21,  # the folder has another time in any case
        )  # fmt: skip
        found = list(map(json.loads, ended.stdout.splitlines()))
        extra = [one["path"] for one in found if one.get("kind") == "extra"]
        assert extra == ([] if stays else [str(tree / "disk" / "extra")])


def test_a_named_path_that_is_a_mount_as_it_was_is_cleared(command: Command, tree: Path) -> None:
    (tree / "disk").mkdir()
    with mounted(tree / "disk"):
        (tree / "disk" / "file").touch()
        command.run("backup", str(tree / "disk"), key_file=command.put_key)
        (tree / "disk" / "extra").touch()
        seen = restored(command, "latest")
        assert os.listdir(tree / "disk") == ["file"]
        assert seen["actions"]["deleted"] == 1


def test_the_repository_and_its_cache_are_never_deleted(command: Command, tree: Path) -> None:
    (tree / "file").touch()
    top = tree.parent
    assert command.repository.parent == top
    command.run("backup", str(top), "--exclude", str(top / "nothing"), key_file=command.put_key)
    # The repository and the home have new names since then, which the snapshot does not have.
    restored(command, f"latest:{top}")
    for inside in ("snapshots", "packs"):
        place = command.repository / inside
        command.run(
            "restore", f"latest:{tree}", "--target", str(place), "--delete",
            key_file=command.restore_key,
        )  # fmt: skip
        (place / "file").unlink()
    command.run("check", key_file=command.restore_key)
    command.run("backup", str(tree), key_file=command.put_key)


def test_a_repository_that_somebody_else_serves_is_never_deleted(
    command: Command, tree: Path
) -> None:
    command.run("backup", str(tree), key_file=command.put_key)
    (tree / "second").mkdir()
    second = Command(tree / "second")
    second.make_repository()
    seen = restored(command, f"latest:{tree}")
    assert second.repository.is_dir()
    assert os.listdir(tree / "second") == ["repository"]
    assert seen["not_deleted"] == {"in-use": 1}


@pytest.mark.parametrize("what", ["latest", "latest:{tree}", "latest:{tree}/hollow"])
def test_a_folder_that_is_empty_in_the_snapshot_is_emptied(
    command: Command, tree: Path, what: str
) -> None:
    (tree / "hollow").mkdir()
    command.run("backup", str(tree / "hollow"), key_file=command.put_key)
    (tree / "beside").touch()
    (tree / "hollow" / "extra").touch()
    seen = restored(command, what.format(tree=tree), "--verify")
    assert seen["actions"]["deleted"] == 1
    assert os.listdir(tree / "hollow") == []
    assert (tree / "beside").exists()


def test_one_file_deletes_nothing_beside_it(command: Command, tree: Path) -> None:
    (tree / "file").write_text("then")
    (tree / "beside").touch()
    command.run("backup", str(tree), key_file=command.put_key)
    (tree / "file").write_text("changed")
    (tree / "new").touch()
    restored(command, f"latest:{tree}/file")
    assert (tree / "file").read_text() == "then"
    assert sorted(os.listdir(tree)) == ["beside", "file", "new"]


def test_a_directory_with_left_out_entries_is_not_replaced(command: Command, tree: Path) -> None:
    (tree / "name").write_text("a file")
    command.run("backup", str(tree), "--exclude", "*.iso", key_file=command.put_key)
    (tree / "name").unlink()
    (tree / "name").mkdir()
    (tree / "name" / "image.iso").touch()
    (tree / "name" / "other").touch()
    seen = restored(command, f"latest:{tree}", exit_code=3)
    assert seen["problems"] == {"entry": 1}
    assert sorted(os.listdir(tree / "name")) == ["image.iso", "other"]
    (tree / "name" / "image.iso").unlink()
    restored(command, f"latest:{tree}")
    assert (tree / "name").read_text() == "a file"


def test_a_fileset_of_a_job_spares_what_it_leaves_out(command: Command, tree: Path) -> None:
    for folder in ("marked", "flat", "sub"):
        (tree / folder).mkdir()
    (tree / "marked" / ".skip").touch()
    for name in ("marked/letter", "a.tmp", "sub/b.tmp", "sub/c.log", "big", "sub/file"):
        (tree / name).write_text(name)
    (tree / "big").write_bytes(bytes(5000))
    config = tree.parent / "fileset.conf"
    config.write_text(
        f"""FileSet {{ Name = Set
          Include {{
            Options {{ Wild File = "*.tmp"; Exclude = yes }}
            Options {{ Regex = "/sub/.*[.]log$"; Exclude = yes }}
            Options {{ Size = "<1000" }}
            Exclude Dir Containing = .skip
            File = {tree}
          }}
          Exclude {{ File = {tree}/flat }}
        }}"""
    )
    command.run("backup", "--fileset-config", str(config), key_file=command.put_key)
    (tree / "flat" / "inside").touch()
    (tree / "sub" / "late.tmp").touch()
    (tree / "big").write_bytes(b"small now")
    (tree / "sub" / "extra").touch()
    seen = restored(command, f"latest:{tree}", "--verify")
    for name in ("marked/letter", "a.tmp", "sub/b.tmp", "sub/c.log", "sub/late.tmp", "big",
                 "flat/inside", "sub/file"):  # fmt: skip
        assert (tree / name).exists(), name
    assert not (tree / "sub" / "extra").exists()
    assert not seen["differences"]
    assert set(seen["not_deleted"]) == {"excluded"}


def test_a_copy_of_a_snapshot_spares_the_same(command: Command, tree: Path) -> None:
    (tree / "one.iso").touch()
    command.run("backup", str(tree), "--exclude", "*.iso", key_file=command.put_key)
    (tree.parent / "second").mkdir()
    second = Command(tree.parent / "second")
    second.make_repository()
    second.run(
        "copy", "--from-repo", str(command.repository), "--from-key-file",
        str(command.restore_key), key_file=second.restore_key,
    )  # fmt: skip
    (tree / "extra").touch()
    seen = restored(second, f"latest:{tree}")
    assert os.listdir(tree) == ["one.iso"]
    assert seen["not_deleted"] == {"excluded": 1}


def test_a_snapshot_without_the_record_deletes_nothing_and_says_so(
    repository: Any, tree: Path, tmp_path: Path
) -> None:
    (tree / "file").touch()
    snapshot = back_up(repository, os.fsencode(tree), records=False)
    out = tmp_path / "out"
    (out / "extra").mkdir(parents=True)
    seen = run_restore(repository, snapshot, out, delete=True)
    assert (out / "extra").exists()
    assert [problem.kind for problem in seen.problems] == [EntryKind.DELETE]
    assert seen.report.not_deleted == {Spared.UNKNOWN: 1}
    assert seen.report.exit_code == 3


@pytest.mark.slow
def test_after_a_repair_that_lost_names_nothing_is_deleted(
    repository: Any, tree: Path, tmp_path: Path
) -> None:
    """Their listing page is damaged, so they are not in the snapshot, and were in the backup."""
    for number in range(17_000):
        os.mknod(tree / f"{number:05}", 0o644)
    pages: list[bytes] = []

    def spoil_all_but_the_first(page: bytes) -> bytes:
        pages.append(page)
        return page if len(pages) == 1 else b"?" * len(page)

    back_up(repository, os.fsencode(tree), forge=spoil_all_but_the_first)
    assert len(pages) > 1
    report = repair(repository, RepairOptions(processes=1), NullProgress())
    assert report.losses[0].ranges
    (left,) = repository.snapshots()
    out = tmp_path / "out"
    out.mkdir()
    (out / "16999").touch()
    seen = run_restore(repository, repository.snapshot(left.id), out, delete=True)
    assert (out / "00000").exists()
    assert (out / "16999").exists()
    assert seen.report.not_deleted == {Spared.UNKNOWN: 1}
