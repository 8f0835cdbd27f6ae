"""Export and import of the catalog as lines of JSON, the same for every database.

    {"strongroom_catalog": REVISION}
    {"table": NAME, "row": {...}}        every row of every table, parents before children

For the backup of the catalog, and for moving from SQLite to PostgreSQL. The due times of an old
copy are left out: its jobs count from now, as those of a new schedule do. Tokens are included as
their digests.
"""

from __future__ import annotations

from typing import Any, BinaryIO

import msgspec
from sqlalchemy import func, insert, select

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.decoding import decodable
from strongroom.base.errors import CatalogError, ConflictError
from strongroom.director.catalog.database import Catalog, Changed, note_stale
from strongroom.director.catalog.tables import METADATA, SCHEDULE_STATE

REVISION = "0003"
# Missing columns have a default.
_READABLE = ("0001", "0002", REVISION)
_BATCH_ROWS = 1000
_FRESH_NS = 3600 * SECOND_NS


class _Line(msgspec.Struct):
    table: str
    row: dict[str, Any]


class _Head(msgspec.Struct):
    """written_ns: 0 in copies of older versions."""

    strongroom_catalog: str
    written_ns: int = 0


def write_portable(catalog: Catalog, file: BinaryIO) -> int:
    """Write all rows, in one consistent state; returns how many."""
    encoder = msgspec.json.Encoder()
    file.write(encoder.encode(_Head(REVISION, clock.now_ns())) + b"\n")
    count = 0
    with catalog.reading() as connection:
        if catalog.kind == "postgresql":
            connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        for table in METADATA.sorted_tables:
            query = select(table).order_by(*table.primary_key.columns)
            result = connection.execution_options(yield_per=_BATCH_ROWS).execute(query)
            for row in result:
                file.write(encoder.encode(_Line(str(table.name), _fields(row))) + b"\n")
                count += 1
    return count


def read_portable(catalog: Catalog, file: BinaryIO) -> int:
    """Fill an empty catalog; returns the row count. ConflictError if not empty, CatalogError."""
    decoder = msgspec.json.Decoder(_Line)
    count = 0
    try:
        head = msgspec.json.decode(file.readline(), type=decodable(_Head))
        if head.strongroom_catalog not in _READABLE:
            raise CatalogError(
                f"this copy of a catalog has revision {head.strongroom_catalog}, not {REVISION}; "
                "read it with the version that wrote it"
            )
        is_old = not 0 <= clock.now_ns() - head.written_ns < _FRESH_NS
        with catalog.writing() as connection:
            note_stale(connection, Changed())
            for table in METADATA.sorted_tables:
                if connection.execute(select(func.count()).select_from(table)).scalar_one():
                    raise ConflictError(
                        f"the catalog {catalog.place} is not empty; stop the director and move it "
                        "elsewhere first, or name another database"
                    )
            batch: list[dict[str, Any]] = []
            name = ""
            for text in file:
                line = decoder.decode(text)
                if batch and (line.table != name or len(batch) >= _BATCH_ROWS):
                    connection.execute(insert(METADATA.tables[name]), batch)
                    batch = []
                name = line.table
                if is_old and name == SCHEDULE_STATE.name:
                    continue
                if name not in METADATA.tables:
                    raise CatalogError(f"a catalog has no table {name!r}")
                batch.append(line.row)
                count += 1
            if batch:
                connection.execute(insert(METADATA.tables[name]), batch)
            if catalog.kind == "postgresql":
                # Ids were given explicitly, so the sequence has to be set.
                connection.exec_driver_sql(
                    "SELECT setval(pg_get_serial_sequence('audit', 'id'), "
                    "(SELECT coalesce(max(id), 1) FROM audit))"
                )
    except msgspec.MsgspecError as error:
        raise CatalogError(f"this is not a copy of a catalog: {error}") from error
    return count


def _fields(row: Any) -> dict[str, Any]:
    return {str(name): value for name, value in row._mapping.items()}  # noqa: SLF001
