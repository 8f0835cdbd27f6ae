"""`strongroom cache`: what this machine keeps of repositories, and clearing it."""

from __future__ import annotations

import argparse
from typing import Final

from strongroom.base.clock import SECOND_NS, local_text
from strongroom.base.errors import EXIT_DONE
from strongroom.base.printable import printable
from strongroom.base.quantities import size_text
from strongroom.cli.table import write_table
from strongroom.cli.terminal import Terminal
from strongroom.engine.repository.cache_folder import KINDS, kept_in, shrink

EPILOG = """\
examples:
  strongroom cache            what is kept, how much, and when it was used last
  strongroom cache --clear    remove it; the next job reads it again

Nothing in it is needed: it saves reading. It is in --cache-dir. What a machine remembers of the
newest snapshot, so that a repository that was set back is noticed, is not a cache and stays.
"""

_WHAT: Final = {
    "parents": "listings of the last snapshots",
    "runs": "index",
    "notes": "envelopes of snapshots",
    "storage": "objects of storage daemons",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the removal."""
    parser.add_argument("--clear", action="store_true", help="remove it")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Show what there is, or remove it."""
    folder = arguments.settings.cache_folder
    if folder is None:
        terminal.emit({"type": "cache", "folder": None, "kinds": []})
        terminal.line("no cache is kept")
        return EXIT_DONE
    if arguments.clear:
        freed = shrink(folder, -1)
        terminal.emit({"type": "cache", "folder": folder, "freed_bytes": freed})
        terminal.line(f"removed {size_text(freed)} from {printable(folder)}")
        return EXIT_DONE
    rows, kinds = [], []
    kept = kept_in(folder)
    for kind in KINDS:
        mine = [one for one in kept if one.kind == kind]
        files = sum(len(one.paths) for one in mine)
        size = sum(one.size_bytes for one in mine)
        used_ns = int(max((one.used_seconds for one in mine), default=0) * SECOND_NS)
        kinds.append({"kind": kind, "files": files, "size_bytes": size})
        if files:
            rows.append((_WHAT[kind], f"{files:,}", size_text(size), local_text(used_ns)))
    terminal.emit({"type": "cache", "folder": folder, "kinds": kinds})
    terminal.line(f"{printable(folder)} is empty" if not rows else printable(folder))
    write_table(terminal, ("WHAT", ">FILES", ">SIZE", "LAST USED"), rows)
    return EXIT_DONE
