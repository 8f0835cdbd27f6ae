"""What the connections of a storage daemon share: repositories, limits, bandwidths, metrics.

Safe from any thread: each part has its own lock or is replaced whole.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from strongroom.base.errors import RepositoryNotFoundError, RightError
from strongroom.engine.stores.servable import ServableStore
from strongroom.net.identities.peer import LOCAL_ROLE, Peer
from strongroom.service.log_lines import LimitedLines, one_line
from strongroom.storage.accounts import Bandwidths
from strongroom.storage.admission import Admission
from strongroom.storage.bucket import Bucket
from strongroom.storage.metrics import Labels, Metrics, kernel_tls
from strongroom.storage.served_repository import OwnerListKind, ServedRepository
from strongroom.storage.settings import StorageDaemonSettings, StorageLimits
from strongroom.storage.shares import Shares
from strongroom.storage.writer_pool import WriterPool

# Names and errors are shorter; what is longer was made to be long.
_LONGEST_LINE: Final = 1024

log = logging.getLogger("strongroom.storage")


class Serving:
    """Opens the repositories of `settings`; `close` closes them."""

    def __init__(
        self,
        settings: StorageDaemonSettings,
        open_store: Callable[[bytes], ServableStore],
        read_grant: Callable[[str], dict[str, object]] | None,
        count_connections: Callable[[], Iterable[tuple[str, Labels, float]]],
        owner_list_kind: OwnerListKind = "own",
    ) -> None:
        """open_store: the store of a repository, by the folder in the settings.

        read_grant: the content of a statement, once verified. count_connections: gauges of open
        connections. owner_list_kind: see ServedRepository. Raises StoreError.
        """
        self.limits: StorageLimits = settings.limits
        self.admission: Admission = settings.admission
        # Directives that were changed and are in force only after a restart.
        self.restart_needed: tuple[str, ...] = ()
        self.metrics = Metrics()
        self.stopped = threading.Event()
        self.bandwidths = Bandwidths(settings.limits.bytes_per_second, self.stopped)
        self.shares = Shares(settings.limits, self.stopped)
        self.writers = WriterPool()
        self._lines = LimitedLines(log, "{topic}: {count} more lines like these")
        self._read_grant = read_grant
        self._count_connections = count_connections
        self._repositories: dict[str, ServedRepository] = {}
        for name, folder in settings.repositories:
            place = settings.buckets.get(folder)
            bucket = Bucket(place, folder) if place is not None else None
            served = ServedRepository(
                name,
                folder,
                settings.limits,
                bucket.open if bucket is not None else partial(open_store, folder),
                owner_list_kind,
                bucket,
            )
            self._repositories[name] = served
            if served.entered:
                log.info("%s: %d objects without an entry were entered", name, served.entered)

    def close(self) -> None:
        """Close the repositories; no connection may be open any more."""
        self.writers.stop()
        for served in self._repositories.values():
            served.close()

    def set_limits(self, limits: StorageLimits) -> None:
        """Apply a changed configuration; open connections keep their settings except quotas."""
        self.limits = self.shares.limits = limits
        self.bandwidths.bytes_per_second = limits.bytes_per_second
        for served in self._repositories.values():
            served.set_limits(limits)

    def repository(self, wanted: str) -> ServedRepository:
        """The repository of a name or id; "" is the first. Raises RepositoryNotFoundError.

        It may not be there: see ServedRepository.
        """
        if not wanted:
            return next(iter(self._repositories.values()))
        if wanted in self._repositories:
            return self._repositories[wanted]
        for served in self._repositories.values():
            if served.repository_id().hex() == wanted:
                return served
        raise RepositoryNotFoundError(
            f"this storage daemon has no repository {wanted}; its devices are "
            f"{', '.join(self._repositories)}"
        )

    def read_grant(self, text: str) -> dict[str, object]:
        """The content of a grant. Raises PeerRefusedError, RightError."""
        if self._read_grant is None:
            raise RightError("this storage daemon has no authority to verify grants with")
        return self._read_grant(text)

    def watch_clocks(self) -> None:
        """Update the trusted clock of every repository; called every second."""
        for served in self._repositories.values():
            if served.is_there:
                served.time.watch()

    def watch_repositories(self) -> None:
        """See which are there; called every second."""
        for served in self._repositories.values():
            if served.bucket is None:
                served.refresh()

    def confirm_clock(self, who: str) -> tuple[int, int]:
        """Trust the clock; returns the time of Minimum Retention before and after."""
        there = [one for one in self._repositories.values() if one.is_there]
        if not there:
            raise RepositoryNotFoundError("no repository is there; mount its disk first")
        times = [one.time.confirm(who, one.owner_list) for one in there]
        return min(before for before, _ in times), times[0][1]

    def say(self, level: int, peer: Peer, message: str, *values: object) -> None:
        """Log a line that a client causes, a few a minute of each; local peers have no limit."""
        text = one_line(message % values)
        if len(text) > _LONGEST_LINE:
            text = f"{text[:_LONGEST_LINE]}..."
        if peer.role == LOCAL_ROLE:
            log.log(level, "%s", text)
        else:
            self._lines.log(str(peer), level, "%s", text)

    def watch_lines(self) -> None:
        """Say how many lines were left out; called every second."""
        self._lines.flush()

    def pause(self, seconds: float) -> None:
        """Sleep, or until the daemon stops."""
        if seconds > 0:
            self.stopped.wait(seconds)

    def metrics_text(self) -> bytes:
        """All metrics for Prometheus."""
        gauges = [*self._count_connections(), *kernel_tls()]
        gauges.append(("uploads", (), float(self.shares.uploads)))
        gauges.append(("restart_needed", (), float(bool(self.restart_needed))))
        for served in self._repositories.values():
            gauges += served.gauges()
        return self.metrics.exposition(gauges)
