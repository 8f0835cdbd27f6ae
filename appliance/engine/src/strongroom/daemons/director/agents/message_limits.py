"""Limits on data in agents' messages, so that it can be stored and shown.

A compromised agent may send anything: a text may be megabytes or contain forged log lines, data may
be nested so deep that the API cannot serialize it. Everything from an agent that is stored, shown
or logged goes through here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from strongroom.daemons.director.catalog.storable_data import left_out, shallow
from strongroom.daemons.director.shown_text import shown

if TYPE_CHECKING:
    from strongroom.net.control.messages import Hello, RunProgress

# How many runs and features an agent can name at once; normally a few.
MOST_NAMED: Final = 4096
_MOST_DATA_BYTES: Final = 64 << 10
_MOST_FEATURES: Final = 100
_MOST_WORKERS: Final = 1 << 16
_LONGEST_RUN_ID: Final = 64


def bounded_data(data: dict[str, Any]) -> dict[str, Any]:
    """The summary or the security of a report, unless it is too large to store."""
    try:
        is_long = len(msgspec.json.encode(data)) > _MOST_DATA_BYTES
    except RecursionError:
        return left_out()
    return left_out() if is_long else shallow(data)


def bounded_hello(hello: Hello) -> Hello:
    """A Hello, limited so that it can be kept while its agent is connected."""
    return msgspec.structs.replace(
        hello,
        version=shown(hello.version, 100),
        platform=shown(hello.platform, 200),
        boot_id=shown(hello.boot_id, 100),
        features=tuple(shown(one, 50) for one in hello.features[:_MOST_FEATURES]),
        workers=max(0, min(hello.workers, _MOST_WORKERS)),
        runs=tuple(one for one in hello.runs[:MOST_NAMED] if len(one) <= _LONGEST_RUN_ID),
    )


def bounded_progress(progress: RunProgress) -> RunProgress:
    """Progress, limited so that it can be kept until the next one."""
    return msgspec.structs.replace(progress, message=shown(progress.message))
