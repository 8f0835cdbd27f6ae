"""Damages SQLite databases, also such that are open elsewhere."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path


def damage_pages(database: Path | str, table: str = "") -> None:
    """Overwrite the pages of a table or index; without one all but the first page."""
    path = Path(database)
    with closing(sqlite3.connect(path, isolation_level=None)) as opened:
        opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (size,) = opened.execute("PRAGMA page_size").fetchone()
        (count,) = opened.execute("PRAGMA page_count").fetchone()
        pages = list(range(2, count + 1))
        if table:
            query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
            pages = [opened.execute(query, (table,)).fetchone()[0]]
    with path.open("r+b") as file:
        for page in pages:
            file.seek((page - 1) * size)
            file.write(b"\xa5" * size)
