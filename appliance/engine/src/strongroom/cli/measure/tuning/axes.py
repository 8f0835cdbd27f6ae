"""What is searched: an axis for every knob that changes speed or size and nothing else.

Values begin with the candidates of the table of knobs and continue by their factor, as far as this
machine makes sense of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from strongroom.base.errors import UsageError
from strongroom.cli.measure.tuning.search import Axis
from strongroom.engine.knobs.knob import Knob, Value
from strongroom.engine.knobs.table import knob_named, search_space

# What is only shown unless it may be changed: what settings cost that change what is backed up, or
# how it is protected.
COSTS: Final[tuple[tuple[str, Value], ...]] = (
    ("acls", False),
    ("xattrs", False),
    ("signature", "xxh128"),
    ("signature", "blake3"),
    ("signature", "sha256"),
    ("tls_enable", False),
)
# Knobs of the connection, which take a storage daemon.
CONNECTION: Final = ("ktls", "tls_enable")

# What usually helps most comes first, for the time may be short; over a link that is compression.
_ORDER: Final = (
    "shards", "scan_threads", "compression", "workers", "upload_queue_size", "lru_size",
)  # fmt: skip

# Words that are steps of one way, from the default on: each shrinks more and takes longer.
_STEPS: Final[dict[str, tuple[Value, ...]]] = {"compression": ("zstd3", "zstd6", "zstd9")}

_MOST_SCAN_THREADS: Final = 256
_MOST_PAGES: Final = 512
_BLOCK_BYTES: Final = 1 << 20
# Blocks that wait may take this share of what is free.
_QUEUE_SHARE: Final = 1 / 8
_MOST_BLOCKS: Final = 2048


def searched_names(*, over_link: bool) -> tuple[str, ...]:
    """Names of the knobs that are searched by themselves."""
    return tuple(name for name in search_space() if over_link or name not in CONNECTION)


def changeable_names(*, over_link: bool) -> tuple[str, ...]:
    """Names of the knobs that are searched only if asked for."""
    names = dict.fromkeys(name for name, _ in COSTS)
    return tuple(name for name in names if over_link or name not in CONNECTION)


def axes(
    names: Sequence[str],
    may_change: Sequence[str],
    *,
    cores: int,
    available_bytes: int,
    is_far: bool,
    over_link: bool,
) -> list[Axis]:
    """An axis for each of the names.

    `is_far`: on a network file system, where the engine has many scan threads by itself.
    `over_link`: through a storage daemon. Raises UsageError for a name that cannot be searched.
    """
    usual = searched_names(over_link=over_link)
    asked = changeable_names(over_link=over_link)
    for name in names:
        if name not in usual:
            raise UsageError(f"--knobs {name}: write some of {', '.join(usual)}")
    for name in may_change:
        if name not in asked:
            raise UsageError(f"--change {name}: write one of {', '.join(asked)}")
    most = {
        "shards": 4 * cores,
        "workers": max(8, 4 * cores),
        "scan_threads": _MOST_SCAN_THREADS,
        "upload_queue_size": min(_MOST_BLOCKS, int(available_bytes * _QUEUE_SHARE) // _BLOCK_BYTES),
        "lru_size": _MOST_PAGES,
    }
    starts_at = {"shards": min(8, cores), "scan_threads": 32 if is_far else 1}
    first = ("compression",) if over_link else ()
    ordered = dict.fromkeys((*first, *_ORDER, *names, *may_change))
    return [
        _axis(knob_named(name), starts_at.get(name), most.get(name, 0))
        for name in ordered
        if name in names or name in may_change
    ]


def costs(may_change: Sequence[str], *, over_link: bool) -> list[tuple[str, Value]]:
    """Settings whose cost is reported."""
    return [
        (name, value)
        for name, value in COSTS
        if name not in may_change and (over_link or name not in CONNECTION)
    ]


def _axis(knob: Knob, starts_at: int | None, most: int) -> Axis:
    if knob.kind == "switch":
        return Axis(knob.name, knob.default, others=(not knob.default,))
    if knob.kind != "number":
        words = knob.candidates or knob.words
        steps = _STEPS.get(knob.name, ())
        others = tuple(one for one in words if one != knob.default and one not in steps)
        return Axis(knob.name, knob.default, upward=steps, others=others)
    numbers = [int(one) for one in knob.candidates]
    factor = numbers[-1] // numbers[-2]
    while numbers[-1] * factor <= most:
        numbers.append(numbers[-1] * factor)
    begin = int(knob.default) if starts_at is None else starts_at
    return Axis(
        knob.name,
        knob.default,
        upward=tuple(one for one in numbers if begin < one <= max(most, begin)),
        downward=tuple(one for one in reversed(numbers) if one < begin),
    )


def inventory_value(name: str, value: Value) -> Value:
    """The value as the variable of the inventory takes it."""
    knob = knob_named(name)
    return int(value) * knob.directive_scale if knob.kind == "number" else value
