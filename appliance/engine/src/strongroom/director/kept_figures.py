"""Figures of jobs and clients that are kept between two requests, and their text for Prometheus.

There are 30 series a job: at 10,000 clients 25 MB of text, from a catalog of a million runs. So the
lines are kept, and only those are made anew whose runs, snapshots or agents have changed: the
catalog knows what was written (`Catalog.take_stale`), the rest is compared. All of it is made from
the catalog at the first request, and again after a reload.

`director.metrics` says what the figures are: what is kept here is what it gives for the whole. The
text of a metric is joined from blocks of lines, each also compressed, so that a line that changes
costs its block, and who takes gzip is sent a tenth.

Safe for threads; what is asked for waits while another thread reads the catalog.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import StrongroomError
from strongroom.director.catalog.database import Changed
from strongroom.director.catalog.run_history import last_good_starts
from strongroom.director.catalog.runs import counts_by_state, last_ends
from strongroom.director.catalog.snapshots import Totals, totals_by_place
from strongroom.director.context import DirectorContext
from strongroom.director.metrics import (
    JUDGED_LABELS,
    client_metrics,
    interval_metrics,
    job_metrics,
    newest,
)
from strongroom.director.notices.expiries import all_expiries, expiry_metrics, expiry_version
from strongroom.director.results.access import Permits
from strongroom.director.results.runs import RESTORE_TEST_LEVEL, Run
from strongroom.net.control.messages import Hello
from strongroom.service.exposition import Metric, Piece, head, sample_lines

# More are not looked up by their names: the whole is read.
_MOST_NAMES: Final = 500
_KEYS_OF_A_BLOCK: Final = 16
_HOUR_NS: Final = 3600 * SECOND_NS


class _Key(NamedTuple):
    """What permissions name in the labels of a sample."""

    job: str = ""
    client: str = ""
    storage: str = ""

    def is_visible(self, permits: Permits) -> bool:
        """Whether a caller may see its samples."""
        names = zip(JUDGED_LABELS.values(), self, strict=True)
        return all(permits(kind, name) for kind, name in names)


class _Series:
    """The lines of one metric by key, in blocks; the text of a block is None until it is joined."""

    __slots__ = ("_head", "_lines", "_texts")

    def __init__(self, name: str) -> None:
        self._head = Piece.of(head(name))
        self._lines: dict[int, dict[_Key, bytes]] = {}
        self._texts: dict[int, Piece | None] = {}

    def put(self, block: int, key: _Key, lines: bytes) -> None:
        """Replace the lines of a key; b"" for none."""
        there = self._lines.setdefault(block, {})
        if there.get(key, b"") == lines:
            return
        self._texts[block] = None
        if lines:
            there[key] = lines
        else:
            del there[key]

    def all(self) -> Iterator[Piece]:
        """The text, in pieces."""
        yield self._head
        for block, text in self._texts.items():
            joined = text
            if joined is None:
                joined = self._texts[block] = Piece.of(b"".join(self._lines[block].values()))
            yield joined

    def of(self, keys: Collection[_Key]) -> bytes:
        """The text of some keys."""
        found = [self._head.text]
        for lines in self._lines.values():
            found += [text for key, text in lines.items() if key in keys]
        return b"".join(found)


class Figures(NamedTuple):
    """The text of the metrics of jobs and clients, in pieces, and what others are made of.

    run_counts: how many runs there are by job, client, kind and state; job and client are "" where
    all may be seen. snapshot_bytes: storage -> bytes of all files of all existing snapshots.
    """

    pieces: list[Piece]
    run_counts: dict[tuple[str, str, str, str], int]
    snapshot_bytes: dict[str, int]


class KeptFigures:
    """See the module. Its methods block, and raise CatalogError."""

    def __init__(self, context: DirectorContext) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._clear()

    def _clear(self) -> None:
        self._configuration = self._context.configuration
        self._is_filled = False
        self._hour = 0
        self._expiries = Piece.of(b"")
        self._expiry_version: object = None
        self._series: dict[str, _Series] = {}
        self._blocks: dict[_Key, int] = {}
        self._keys: dict[str, set[_Key]] = {}
        self._agents: dict[str, tuple[bool, Hello | None]] = {}
        self._errors: dict[tuple[str, str], int] = {}
        self._counts: dict[str, dict[tuple[str, str, str, str], int]] = {}
        self._all_counts: Counter[tuple[str, str, str, str]] = Counter()
        self._totals: dict[str, dict[tuple[str, str], Totals]] = {}
        self._snapshots: Counter[str] = Counter()
        self._snapshot_bytes: Counter[str] = Counter()
        self._good_starts: dict[str, int] = {}
        self._tests: dict[str, list[Run]] = {}

    def read(self, permits: Permits, *, permits_every: bool) -> Figures:
        """What a caller may see; permits_every: all jobs, clients and storages, without asking.

        With what ends when only where all of it may be seen.
        """
        with self._lock:
            self._refresh()
            series = self._series.values()
            storages = {name: self._snapshot_bytes[name] for name in +self._snapshots}
            if permits_every:
                pieces = [piece for one in series for piece in one.all()]
                return Figures([*pieces, self._expiries], dict(+self._all_counts), storages)
            seen = {key for key in self._blocks if key.is_visible(permits)}
            pieces = [Piece.of(one.of(seen)) for one in series]
            counts = {of: count for one in self._counts.values() for of, count in one.items()}
            return Figures(pieces, counts, storages)

    def good_starts(self) -> dict[str, int]:
        """Client -> when its last successful backup began."""
        with self._lock:
            self._refresh()
            return dict(self._good_starts)

    def restore_tests(self) -> list[Run]:
        """The last restore test of each job and client, without what its agent reported of it."""
        with self._lock:
            self._refresh()
            return newest(run for runs in self._tests.values() for run in runs)

    def _refresh(self) -> None:
        context, catalog = self._context, self._context.catalog
        if self._configuration is not context.configuration:
            self._clear()
        stale = catalog.take_stale()
        try:
            self._read(stale)
        except BaseException:
            catalog.note_stale(stale)
            # Half of it may have been read.
            self._is_filled = False
            raise

    def _read(self, stale: set[Changed]) -> None:
        is_whole = not self._is_filled or Changed() in stale
        jobs: set[str] | None = {one.job for one in stale if one.job}
        clients: set[str] | None = {one.client for one in stale if one.client}
        if is_whole or len(jobs or ()) > _MOST_NAMES:
            jobs = None
        if is_whole or len(clients or ()) > _MOST_NAMES:
            clients = None
        self._read_jobs(jobs)
        self._read_clients(clients)
        self._read_expiries()
        # The next due times change little in an hour.
        if (hour := clock.now_ns() // _HOUR_NS) != self._hour:
            self._replace(interval_metrics(self._context), None)
            self._hour = hour
        self._is_filled = True

    def _read_jobs(self, jobs: set[str] | None) -> None:
        catalog, errors = self._context.catalog, dict(self._context.backup_errors)
        if jobs is not None:
            jobs |= {of[0] for of, count in errors.items() if self._errors.get(of) != count}
            if not jobs:
                return
            jobs = jobs if len(jobs) <= _MOST_NAMES else None
        if jobs is None:
            self._counts, self._all_counts, self._tests = {}, Counter(), {}
        for job in jobs or ():
            self._tests.pop(job, None)
            self._count(self._counts.pop(job, {}), -1)
        for of, count in counts_by_state(catalog, jobs).items():
            self._counts.setdefault(of[0], {})[of] = count
            self._count({of: count}, 1)
        # A million verify runs would be read for nothing where no test was among those of a job.
        for run in last_ends(catalog, "verify", RESTORE_TEST_LEVEL, jobs):
            slim = replace(run, summary={}, security={}, request={})
            self._tests.setdefault(run.job, []).append(slim)
        self._replace(job_metrics(self._context, jobs), jobs)
        self._errors = errors

    def _read_expiries(self) -> None:
        """What ends is listed as far as it is known: `status` says what is wrong with the rest."""
        with suppress(StrongroomError, OSError):
            version = expiry_version(self._context)
            if version != self._expiry_version:
                (one,) = expiry_metrics(all_expiries(self._context))
                self._expiries = Piece.of(head(one.name) + b"".join(sample_lines(one)))
                self._expiry_version = version

    def _count(self, counts: dict[tuple[str, str, str, str], int], by: int) -> None:
        for (_, _, kind, state), count in counts.items():
            self._all_counts["", "", kind, state] += by * count

    def _read_clients(self, clients: set[str] | None) -> None:
        context = self._context
        agents = {
            name: (context.link.is_connected(name), context.hellos.get(name))
            for name in context.configuration.clients
        }
        if clients is None:
            self._totals, self._good_starts = {}, {}
            self._snapshots, self._snapshot_bytes = Counter(), Counter()
        for client in clients or ():
            for (_, storage), one in self._totals.pop(client, {}).items():
                self._snapshots[storage] -= one.number
                self._snapshot_bytes[storage] -= one.bytes
            self._good_starts.pop(client, None)
        if clients is None or clients:
            for (client, storage), one in totals_by_place(context.catalog, clients).items():
                self._totals.setdefault(client, {})[client, storage] = one
                self._snapshots[storage] += one.number
                self._snapshot_bytes[storage] += one.bytes
            self._good_starts |= last_good_starts(context.catalog, clients)
        if clients is not None:
            was = self._agents
            clients |= {name for name, state in agents.items() if was.get(name) != state}
            if not clients:
                return
            clients = clients if len(clients) <= _MOST_NAMES else None
        self._replace(client_metrics(context, clients), clients)
        self._agents = agents

    def _replace(self, metrics: Iterable[Metric], names: set[str] | None) -> None:
        """Replace the lines of some jobs or clients, or of all."""
        for one in metrics:
            lines: dict[_Key, list[bytes]] = {}
            for (labels, _), line in zip(one.samples, sample_lines(one), strict=True):
                key = _Key(*[labels.get(label, "") for label in JUDGED_LABELS])
                lines.setdefault(key, []).append(line)
            if names is None:
                self._series[one.name] = _Series(one.name)
            else:
                for name in names:
                    for key in self._keys.get(name, ()):
                        lines.setdefault(key, [])
            series = self._series[one.name]
            for key, found in lines.items():
                series.put(self._block(key), key, b"".join(found))

    def _block(self, key: _Key) -> int:
        number = self._blocks.get(key)
        if number is None:
            number = self._blocks[key] = len(self._blocks) // _KEYS_OF_A_BLOCK
            self._keys.setdefault(key.job or key.client, set()).add(key)
        return number
