"""Which pages of a listing may hold rows below a directory."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from strongroom.repo.listing.page import page_key
from strongroom.rows.views import path_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strongroom.repo.snapshots import PageReference


def page_range(pages: Sequence[PageReference], path: bytes) -> range:
    """Numbers of the pages with rows below the directory `path`, and at most two beside them.

    b"" is the root: every page.
    """
    if not path:
        return range(len(pages))
    keys = [page_key(page.first_directory, page.first_name) for page in pages]
    low = path_key(path)
    # The sub-tree's keys are `low` and `low` NUL anything, and names hold no NUL.
    first = max(0, bisect_left(keys, (low, b"")) - 1)
    return range(first, bisect_left(keys, (low + b"\1", b"")))


def is_below(directory: bytes, path: bytes) -> bool:
    """Whether rows of `directory` stand below the directory `path`, b"" being the root."""
    return not path or directory == path or directory.startswith(path + b"/")
