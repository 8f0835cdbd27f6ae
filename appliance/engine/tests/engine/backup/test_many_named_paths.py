"""A list may name more paths than the envelope of a snapshot has room for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kit.user import User
from strongroom.engine.backup.parent import recorded_paths
from strongroom.engine.restore.choice import BackedUp


def test_a_list_of_any_length_is_backed_up_and_nothing_beside_it_is_removed(
    user: User, folder: Path
) -> None:
    tree = folder / "tree"
    names = []
    for number in range(8000):
        place = tree / f"folder-{number // 1000}"
        place.mkdir(parents=True, exist_ok=True)
        name = place / f"{number:05}-{'long' * 30}"
        name.touch()
        names.append(name)
    listed = folder / "list"
    listed.write_text("".join(f"{name}\n" for name in names[::2]))
    first = user.backup("--files-from", listed)
    assert first.summary["files"] == 4000
    assert len(first.warnings) == 1
    second = user.backup("--files-from", listed).summary
    assert (second["parent"], second["files_read"]) == (first.summary["snapshot"], 0)
    shown = {path for one in user.snapshots() for path in one["paths"]}
    assert shown == {f"{tree}/folder-{number}" for number in range(8)}
    assert len(user.names(tree)) == 4000 + 8
    outcome = user.run("restore", "latest", "--in-place", "--delete")
    assert outcome.code in (0, 3)
    assert len(os.listdir(tree / "folder-3")) == 1000


@pytest.mark.parametrize("count", [1, 1000, 300_000])
def test_the_deepest_folders_that_fit_are_recorded(count: int) -> None:
    paths = tuple(sorted(b"srv/a/%03d/%06d" % (n % 200, n) for n in range(count)))
    recorded = recorded_paths(paths)
    if count <= 1000:
        assert recorded == paths
    else:
        assert recorded == tuple(b"srv/a/%03d" % n for n in range(200))
    together = (*paths, b"srv/a/000", b"etc")
    kept = recorded_paths(together)
    assert b"etc" in kept
    backed_up = BackedUp(kept, b"")
    assert all(map(backed_up, together))
    assert not backed_up(b"srv/b")
    assert not backed_up(b"srv")
    assert recorded_paths(tuple(b"%d" % n for n in range(200_000))) == (b"",)


def test_what_was_backed_up_is_found_for_any_number_of_paths() -> None:
    backed_up = BackedUp([b"srv/%d" % n for n in range(100_000)], b"srv")
    assert all(backed_up(b"%d/x" % n) for n in range(0, 100_000, 10))
    assert not backed_up(b"")
    assert not backed_up(b"x")
    assert BackedUp([b""], b"")(b"any/thing")
    assert BackedUp([b"home"], b"home")(b"")
    assert not BackedUp([], b"")(b"")
