"""Which folders a setting names, and what two settings have in common."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom.base.errors import UsageError
from strongroom.engine.scan.share_folders import (
    CLOSED,
    DEFAULT_SHARE_BELOW,
    OPEN,
    SHARED,
    ShareFolders,
    narrowed,
    share_folders,
)

FOLDERS = st.lists(
    st.lists(st.sampled_from(["usr", "us", "lib", "x"]), max_size=3).map(
        lambda steps: "/" + "/".join(steps)
    ),
    max_size=4,
).map(tuple)


def test_folders_are_settled():
    assert share_folders(["/usr//lib/", "", "/", "/usr/lib"]) == ("/usr/lib", "/")
    assert share_folders(DEFAULT_SHARE_BELOW) == DEFAULT_SHARE_BELOW
    assert share_folders([""]) == ()


@pytest.mark.parametrize("text", ["usr", "./usr", "/usr/../etc", "/usr/./lib", "/a\nb", "/\udcff"])
def test_what_is_no_absolute_plain_path_is_refused(text: str):
    with pytest.raises(UsageError, match="absolute"):
        share_folders([text])


def lies_in(path: str, folders: tuple[str, ...]) -> bool:
    steps = [step for step in path.split("/") if step]
    for folder in folders:
        wanted = [step for step in folder.split("/") if step]
        if steps[: len(wanted)] == wanted:
            return True
    return False


@given(FOLDERS, FOLDERS, FOLDERS)
def test_narrowing_leaves_what_is_in_both(one, other, paths):
    both = narrowed(one, other)
    for path in (*one, *other, *paths):
        assert lies_in(path, both) == (lies_in(path, one) and lies_in(path, other))


def test_a_directory_stands_as_those_above_it_allow():
    places = ShareFolders(("/usr",))
    root = places.root(0o755)
    usr = places.below(root, b"usr", is_searchable=True)
    assert (root, usr) == (OPEN, SHARED)
    assert places.below(root, b"usrlocal", is_searchable=True) == OPEN
    closed = places.below(usr, b"usr/lib", is_searchable=False)
    assert closed == CLOSED
    assert places.below(closed, b"usr/lib/x", is_searchable=True) == CLOSED
    assert places.below(places.root(0o750), b"usr", is_searchable=True) == CLOSED
    assert ShareFolders(("/",)).root(0o755) == SHARED
    assert ShareFolders(()).root(0o755) == CLOSED
