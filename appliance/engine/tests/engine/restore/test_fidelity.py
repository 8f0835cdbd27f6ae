"""The torture tree, backed up and restored by the real commands, comes back without a difference.

One bound is the format's: a row holds an mtime in 64 bits of nanoseconds, so a time after the year
2262 comes back as the last one that fits.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.prepared_commands import run_for_text
from kit.torture_tree import Made, make_tree
from kit.tree_compare import compare_trees
from kit.tree_removal import remove_tree
from strongroom.base.errors import EXIT_DONE, EXIT_INCOMPLETE

LAST_TIME_NS = (1 << 63) - 1
NOBODY = 65534
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
# What only root can restore: owners, and what goes with them or needs its own rights.
ROOTS_BUSINESS = {"owner", "mode", "xattr", "flags", "entry", "acl"}


def public_place() -> Iterator[Path]:
    """A directory that any user may enter, which pytest's own are not."""
    place = Path(tempfile.mkdtemp(prefix="strongroom-"))
    place.chmod(0o755)
    yield place
    remove_tree(os.fsencode(place))


place = pytest.fixture(scope="module")(public_place)
fresh_place = pytest.fixture(public_place)


@pytest.fixture(scope="module")
def made(place: Path) -> Made:
    made = make_tree(os.fsencode(place / "tree"))
    assert run(place, "init").returncode == EXIT_DONE
    answer = run(place, "backup", str(place / "tree"))
    assert answer.returncode == EXIT_DONE, answer.stderr
    return made


def run(place: Path, *words: str, as_nobody: bool = False) -> subprocess.CompletedProcess[str]:
    words += ("--repo", str(place / "repository"), "--no-cache")
    environment = {**os.environ, "STRONGROOM_PASSWORD": "pass", "HOME": str(place)}
    if not as_nobody:
        return run_for_text(words, environment)
    command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    command += [sys.executable, "-m", "strongroom", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def differences(place: Path, out: str, ignored: frozenset[str] = frozenset()) -> list[object]:
    expected, actual = os.fsencode(place / "tree"), os.fsencode(place / out)
    return [
        found
        for found in compare_trees(expected, actual, ignored_kinds=ignored)
        if not (found.kind == "mtime" and int(found.expected) > LAST_TIME_NS)
    ]


def restore(place: Path, out: str, *more: str) -> subprocess.CompletedProcess[str]:
    words = ("restore", f"latest:{place}/tree", "--target", str(place / out), "--keep-privileges")
    return run(place, *words, *more)


def objects_of(answer):
    """What a command with --json said, without its progress: a slow machine gets some."""
    objects = [json.loads(line) for line in answer.stdout.splitlines()]
    return [thing for thing in objects if thing["type"] != "progress"]


def test_nothing_differs_into_an_empty_place_and_over_itself(place, made):
    answer = restore(place, "out", "--verify", "--json")
    assert answer.returncode == EXIT_DONE, answer.stderr
    assert not differences(place, "out")
    for policy in ("if-changed", "always"):
        answer = restore(place, "out", "--json", "--delete", "--overwrite", policy)
        assert answer.returncode == EXIT_DONE, answer.stderr
        summary = json.loads(answer.stdout.splitlines()[-1])
        assert set(summary["actions"]) == {"unchanged"}
        assert not differences(place, "out")


def test_a_disarranged_tree_is_put_right(place, made):
    restore(place, "disarranged")
    top = place / "disarranged"
    names = sorted(os.listdir(top))
    for name in names[::3]:
        remove_tree(os.fsencode(top / name))
        (top / name).write_text("something else")
    for name in names[1::3]:
        (top / name).chmod(0o700)
        (top / name / "surplus").mkdir()
        os.utime(top / name, (1, 1))
    answer = restore(place, "disarranged", "--delete")
    assert answer.returncode == EXIT_DONE, answer.stderr
    # The target itself keeps what it has, its time included.
    os.utime(top, ns=(0, (place / "tree").stat().st_mtime_ns))
    assert not differences(place, "disarranged")


def test_verify_finds_no_difference_in_the_live_tree(place, made):
    answer = run(place, "verify", f"latest:{place}/tree", "--read-data", "--json")
    kinds = {thing["kind"] for thing in objects_of(answer)[:-1]}
    assert kinds <= {"mtime"}  # of the times that do not fit
    assert "times-after-2038" in answer.stdout or not kinds


@ROOT_ONLY
def test_without_root_all_is_restored_that_can_be_and_the_rest_is_counted(place, made):
    subprocess.run(["chown", "-R", str(NOBODY), str(place / "repository")], check=True)
    own = place / "nobodys"
    own.mkdir()
    os.chown(own, NOBODY, NOBODY)
    answer = run(
        place, "restore", f"latest:{place}/tree", "--target", str(own / "out"), "--json",
        "--keep-privileges", as_nobody=True,
    )  # fmt: skip
    assert answer.returncode == EXIT_INCOMPLETE, answer.stderr
    objects = objects_of(answer)
    summary = objects[-1]
    assert set(summary["problems"]) <= ROOTS_BUSINESS
    assert sum(summary["problems"].values()) == len(objects) - 1
    lost = {thing["path"] for thing in objects[:-1] if thing["kind"] == "entry"}
    # All that could not be made are devices; every file is there with its content.
    assert all("device" in str(path) for path in lost)
    ignored = frozenset({"owner", "group", "mode", "xattr", "acl", "flags", "link-count"})
    found = [
        difference
        for difference in differences(place, "nobodys/out", ignored)
        if b"device" not in difference.path
    ]
    assert not found


@ROOT_ONLY
def test_a_users_own_files_come_back_whole_without_root(fresh_place):
    home = fresh_place / "home"
    home.mkdir()
    script = (
        "mkdir -p tree/closed tree/open; echo a > tree/closed/file; ln tree/closed/file tree/name; "
        "ln -s nowhere tree/link; mkfifo tree/fifo; echo b > tree/readonly; chmod 2755 tree/open; "
        "echo c > tree/tool; chmod 4755 tree/tool; "
        'python3 -c \'import os; os.setxattr("tree/readonly", "user.a", b"b")\'; '
        "chmod 0444 tree/readonly; chmod 0555 tree/closed; chmod 0000 tree/link 2>/dev/null; true"
    )
    os.chown(home, NOBODY, NOBODY)
    drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    subprocess.run([*drop, "sh", "-c", script], cwd=home, check=True)
    out = str(home / "out")
    restoring = ("restore", f"latest:{home}/tree", "--target", out, "--keep-privileges")
    for words in (
        ("init",),
        ("backup", str(home / "tree")),
        restoring,
        (*restoring, "--overwrite", "always"),
    ):
        answer = run(home, *words, as_nobody=True)
        assert answer.returncode == EXIT_DONE, (words, answer.stderr)
        if words[0] == "restore":
            assert not compare_trees(os.fsencode(home / "tree"), os.fsencode(home / "out"))
