"""How much a FileSet holds: what a full backup of it would count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongroom.filesets.rules import FileSetSelection, outermost
from strongroom.jobs.backup.tree_count import Counted, TreeCount

if TYPE_CHECKING:
    from collections.abc import Callable

    from strongroom.filesets.resolve import ResolvedFileSet
    from strongroom.progress import Progress


def estimate(
    fileset: ResolvedFileSet,
    progress: Progress,
    found: Callable[[bytes, list[bytes]], None] | None = None,
) -> Counted:
    """Walk a FileSet. `found(directory, names)` receives every entry that a backup would hold.

    Changes the working directory meanwhile. Raises UsageError for a FileSet that is not well
    formed.
    """
    selection = FileSetSelection(fileset.rules, tells_treatments=False)
    paths = outermost(fileset.rules.roots)
    counted = TreeCount(paths, selection, progress=progress, found=found).run()
    counted.problems[:0] = fileset.problems
    return counted
