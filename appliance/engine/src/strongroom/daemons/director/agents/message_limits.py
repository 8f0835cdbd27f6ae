"""Limits on data in agents' messages, so that it can be stored and shown.

A compromised agent may send anything: a text may be megabytes or contain forged log lines, data may
be nested so deep that the API cannot serialize it. Everything from an agent that is stored, shown
or logged goes through here.
"""

from __future__ import annotations

import re
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
# What an agent of ours says of itself. Nothing else is kept: these texts reach templates of
# Ansible, labels of metrics and scripts of administrators.
_VERSION: Final = re.compile(r"[0-9][0-9A-Za-z.+~-]{0,99}")
_PLATFORM: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+~@:,=-]{0,199}")
_BOOT_ID: Final = re.compile(r"[0-9A-Fa-f-]{1,64}")
_FEATURE: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,49}")
_RUN_ID: Final = re.compile(r"[0-9A-Za-z-]{1,64}")


def bounded_data(data: dict[str, Any]) -> dict[str, Any]:
    """The summary or the security of a report, unless it is too large to store."""
    try:
        is_long = len(msgspec.json.encode(data)) > _MOST_DATA_BYTES
    except RecursionError:
        return left_out()
    return left_out() if is_long else shallow(data)


def bounded_hello(hello: Hello) -> Hello:
    """A Hello, limited so that it can be kept while its agent is connected.

    A text that no agent of ours sends is "", that is unknown; such a feature or run is left out.
    """
    return msgspec.structs.replace(
        hello,
        version=_matching(_VERSION, hello.version),
        platform=_matching(_PLATFORM, hello.platform),
        boot_id=_matching(_BOOT_ID, hello.boot_id),
        instance=_matching(_BOOT_ID, hello.instance),
        machine=_matching(_BOOT_ID, hello.machine),
        features=tuple(filter(_FEATURE.fullmatch, hello.features[:_MOST_FEATURES])),
        workers=max(0, min(hello.workers, _MOST_WORKERS)),
        runs=tuple(filter(_RUN_ID.fullmatch, hello.runs[:MOST_NAMED])),
    )


def bounded_progress(progress: RunProgress) -> RunProgress:
    """Progress, limited so that it can be kept until the next one."""
    return msgspec.structs.replace(progress, message=shown(progress.message))


def _matching(pattern: re.Pattern[str], text: str) -> str:
    return text if pattern.fullmatch(text) else ""
