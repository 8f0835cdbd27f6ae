"""A tamper-resistant clock for Minimum Retention.

Moving the machine's clock must not age snapshots. So the trusted time advances with the kernel's
count of seconds since boot, which setting the clock does not change, and follows the wall clock
only within a plausible range: ten minutes ahead, and ten more for each day; and after a restart of
the machine, which may have been off for any time, three days, regained while it runs. A wall clock
further ahead is not trusted: the trusted time advances without it, until the clock is corrected or
an operator confirms it. It never goes back; after the clock was set back it waits for it.

The state is kept durably in a file in the repository's folder, and so survives restarts.
One lock, held briefly and while the file is written.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import Final

import msgspec

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.decoding import decodable
from strongroom.base.errors import StoreError
from strongroom.net.identities.private_files import write_file
from strongroom.storage.owner_list import OwnerList

DAY_NS: Final = 86400 * SECOND_NS
GREATEST_STEP_NS: Final = 600 * SECOND_NS
GREATEST_ABSENCE_NS: Final = 3 * DAY_NS
SAVE_SECONDS: Final = 60.0
# A machine without a battery-backed clock gets the time from the network soon after its start.
_SETTLING_NS: Final = 3600 * SECOND_NS
_FILE: Final = b"clock.json"

log = logging.getLogger("strongroom.storage")


class _Seen(msgspec.Struct):
    """sure_ns: the trusted time when the machine had been up for boot_ns, under boot_id.

    step_ns, absence_ns: how far the clock may still be ahead of it, while running and after a
    restart of the machine. untrusted_since_ns: when it was found too far ahead, in trusted time.
    """

    sure_ns: int
    boot_id: str
    boot_ns: int
    step_ns: int = GREATEST_STEP_NS
    absence_ns: int = GREATEST_ABSENCE_NS
    untrusted_since_ns: int | None = None


class TrustedClock:
    """A time that the machine's clock does not move. Times are nanoseconds since 1970-01-01 UTC."""

    def __init__(self, name: str, folder: bytes | None) -> None:
        """`name`: the repository, for the log; `folder`: where the file is. Raises StoreError.

        Without a folder nothing is kept, and the clock is trusted as it is at the start.
        """
        self._name = name
        self._path = None if folder is None else os.path.join(folder, _FILE)
        self._lock = threading.Lock()
        self._is_behind = False
        self._saved_at = float("-inf")
        self._seen = self._load()
        self.watch()

    def now_ns(self) -> int:
        """The trusted time."""
        with self._lock:
            self._look()
            return self._seen.sure_ns

    def ahead_ns(self) -> int:
        """How far the clock is ahead of the trusted time when it is not trusted; else 0."""
        with self._lock:
            self._look()
            return self._ahead_ns()

    def watch(self) -> None:
        """Read the clock, and save the state now and then; to be called every second."""
        with self._lock:
            self._look()
            if clock.elapsed_seconds() - self._saved_at >= SAVE_SECONDS:
                self._save_or_tell()

    def confirm(self, who: str, owner_list: OwnerList) -> tuple[int, int]:
        """Trust the clock; returns the trusted time before and after. Raises StoreError.

        What was stored while the clock was not trusted is redated by the same amount, so that it
        becomes no older than it is.
        """
        with self._lock:
            self._look()
            seen, before_ns, now_ns = self._seen, self._seen.sure_ns, clock.now_ns()
            since_ns = before_ns if seen.untrusted_since_ns is None else seen.untrusted_since_ns
            owner_list.move_times(since_ns, max(0, now_ns - before_ns), now_ns)
            owner_list.sync()
            boot_id, boot_ns = clock.boot_id(), clock.since_boot_ns()
            self._seen = _Seen(sure_ns=now_ns, boot_id=boot_id, boot_ns=boot_ns)
            self._is_behind = False
            self._save()
        log.warning(
            "%s: %s confirmed the clock: it is %s, and no longer %s",
            self._name,
            who,
            clock.utc_text(now_ns),
            clock.utc_text(before_ns),
        )
        return before_ns, now_ns

    def _look(self) -> None:
        """Advance the trusted time to now."""
        seen = self._seen
        wall_ns, boot_ns, boot_id = clock.now_ns(), clock.since_boot_ns(), clock.boot_id()
        restarted = boot_id != seen.boot_id or boot_ns < seen.boot_ns
        # While a machine was off only its uptime since is certain.
        passed_ns = boot_ns if restarted else boot_ns - seen.boot_ns
        seen.boot_id, seen.boot_ns = boot_id, boot_ns
        seen.sure_ns += passed_ns
        seen.step_ns = min(GREATEST_STEP_NS, seen.step_ns + passed_ns // 144)
        seen.absence_ns = min(GREATEST_ABSENCE_NS, seen.absence_ns + passed_ns)
        ahead_ns = wall_ns - seen.sure_ns
        is_settling = restarted or boot_ns <= _SETTLING_NS
        if ahead_ns <= seen.step_ns:
            seen.step_ns -= max(0, ahead_ns)
            self._believe(wall_ns)
        elif is_settling and ahead_ns <= seen.absence_ns:
            seen.absence_ns -= ahead_ns
            self._believe(wall_ns)
        elif seen.untrusted_since_ns is None:
            seen.untrusted_since_ns = seen.sure_ns
            log.error(
                "%s: the clock is %s ahead of what is plausible, and is not trusted: Minimum "
                "Retention continues with %s; correct the clock, or confirm it with `strongroom "
                "storage --confirm-clock`",
                self._name,
                span_text(ahead_ns),
                clock.utc_text(seen.sure_ns),
            )
            # Before anything is stored under this time: see `confirm`.
            self._save_or_tell()
        is_behind = ahead_ns < -GREATEST_STEP_NS
        if is_behind and not self._is_behind:
            log.warning(
                "%s: the clock was set back, and is %s behind: Minimum Retention continues with %s",
                self._name,
                span_text(-ahead_ns),
                clock.utc_text(seen.sure_ns),
            )
        self._is_behind = is_behind

    def _believe(self, wall_ns: int) -> None:
        seen = self._seen
        seen.sure_ns = max(seen.sure_ns, wall_ns)
        if seen.untrusted_since_ns is not None:
            seen.untrusted_since_ns = None
            log.warning("%s: the clock is correct again", self._name)
            self._save_or_tell()

    def _ahead_ns(self) -> int:
        seen = self._seen
        return 0 if seen.untrusted_since_ns is None else clock.now_ns() - seen.sure_ns

    def _load(self) -> _Seen:
        if self._path is None:
            return _Seen(clock.now_ns(), clock.boot_id(), clock.since_boot_ns())
        try:
            with open(self._path, "rb") as file:
                # Before 0.9.0 the last field had another name.
                text = file.read().replace(b'"doubted_since_ns"', b'"untrusted_since_ns"')
            return msgspec.json.decode(text, type=decodable(_Seen))
        except FileNotFoundError:
            pass
        except msgspec.MsgspecError as error:
            log.error(  # noqa: TRY400 - it says enough
                "%s: %s is damaged (%s): the clock is trusted as it is now",
                self._name,
                os.fsdecode(self._path),
                error,
            )
        except OSError as error:
            raise StoreError(
                f"could not read {os.fsdecode(self._path)}: {error}; fix the cause and start again"
            ) from error
        return _Seen(clock.now_ns(), clock.boot_id(), clock.since_boot_ns())

    def _save_or_tell(self) -> None:
        try:
            self._save()
        except StoreError as error:
            log.error("%s: %s", self._name, error)  # noqa: TRY400 - it says enough

    def _save(self) -> None:
        self._saved_at = clock.elapsed_seconds()
        if self._path is None:
            return
        try:
            write_file(self._path, msgspec.json.encode(self._seen) + b"\n", 0o600)
        except OSError as error:
            raise StoreError(
                f"could not write {os.fsdecode(self._path)}: {error}; free space there or fix "
                "the cause"
            ) from error


def span_text(span_ns: int) -> str:
    """A time span for messages: in days, or in hours below two days."""
    days = span_ns / DAY_NS
    return f"{days:.1f} days" if days >= 2 else f"{days * 24:.2f} h"
