"""Lines of a log that say the same for weeks: each once a day, not once a minute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strongroom import clock
from strongroom.clock import SECOND_NS

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

_DAY_NS: Final = 86400 * SECOND_NS


class DailyLog:
    """Writes to `log`; a topic is told again after a day, or at once after `forget`."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._told_ns: dict[str, int] = {}

    def warn(self, topic: str, text: str) -> None:
        """A warning about `topic`, unless it was told within a day."""
        self._tell(self._log.warning, topic, text)

    def error(self, topic: str, text: str) -> None:
        """The same as an error."""
        self._tell(self._log.error, topic, text)

    def _tell(self, write: Callable[[str, str], None], topic: str, text: str) -> None:
        now_ns = clock.now_ns()
        if abs(now_ns - self._told_ns.get(topic, -_DAY_NS)) >= _DAY_NS:
            self._told_ns[topic] = now_ns
            write("%s", text)

    def forget(self, topic: str) -> None:
        """What was told of `topic` is over."""
        self._told_ns.pop(topic, None)
