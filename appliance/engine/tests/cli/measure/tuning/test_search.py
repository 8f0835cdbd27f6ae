"""The search finds what is known to be best on a simulated machine, noise or not."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strongroom.cli.measure.tuning.search import (
    DEFAULTS,
    MOST_TURNS,
    Axis,
    KnobChanges,
    Measurement,
    OutOfTimeError,
    Search,
)

SHARDS = Axis("shards", 0, upward=(4, 8, 16), downward=(1,))
THREADS = Axis("scan_threads", 0, upward=(4, 16, 64, 256))
QUEUE = Axis("upload_queue_size", 128, upward=(512, 2048), downward=(32, 8))
CODEC = Axis("compression", "auto", others=("none", "lz4", "zstd1", "zstd3"))
AXES = (SHARDS, THREADS, QUEUE, CODEC)
STANDS_FOR = {"shards": 2, "scan_threads": 1}
CODECS = {"auto": (1.0, 100), "none": (0.8, 300), "lz4": (0.9, 140), "zstd1": (1.05, 100),
          "zstd3": (1.3, 95)}  # fmt: skip


@dataclass
class Machine:
    """Times with a known optimum for each knob, and noise that is the same for the same seed.

    A knob costs its slope for every doubling away from its optimum. Codecs: CODECS, or others.
    """

    optimum: dict[str, int] = field(default_factory=dict)
    slope: dict[str, float] = field(default_factory=dict)
    codecs: dict[str, tuple[float, int]] = field(default_factory=lambda: CODECS)
    noise: float = 0.0
    seed: int = 0
    calls: list[KnobChanges] = field(default_factory=list)
    most_calls: int = 10**9
    drift: float = 0.0

    def exact(self, condition: KnobChanges) -> float:
        seconds = 10.0
        for axis in (SHARDS, THREADS, QUEUE):
            value = condition.value(axis.name, axis.default) or STANDS_FOR[axis.name]
            away = abs(math.log2(value / self.optimum.get(axis.name, value)))
            seconds *= 1 + self.slope.get(axis.name, 0.3) * away
        return seconds * self.codecs[condition.value("compression", "auto")][0]

    def __call__(self, condition: KnobChanges) -> Measurement:
        if len(self.calls) >= self.most_calls:
            raise OutOfTimeError
        number = self.calls.count(condition)
        self.calls.append(condition)
        chance = random.Random(repr((self.seed, condition, number)))
        factor = math.exp(chance.gauss(0, self.noise)) * (1 + self.drift) ** len(self.calls)
        stored = self.codecs[condition.value("compression", "auto")][1]
        return Measurement(self.exact(condition) * factor, 100, stored)


def searched(machine, axes=AXES, **options):
    search = Search(machine, axes, **options)
    search.run()
    search.confirm()
    return search


def test_the_optimum_is_found_where_every_knob_has_one():
    machine = Machine({"shards": 8, "scan_threads": 64, "upload_queue_size": 32})
    found = searched(machine)
    assert dict(found.best.changes) == {
        "shards": 8, "scan_threads": 64, "upload_queue_size": 32,
    }  # fmt: skip
    assert found.gain == pytest.approx(machine.exact(DEFAULTS) / machine.exact(found.best))
    assert found.is_finished


def test_defaults_that_are_best_stay():
    assert searched(Machine()).best == DEFAULTS


def test_a_codec_that_stores_much_more_is_not_taken_unless_it_may():
    assert searched(Machine()).best.value("compression", "auto") == "auto"
    assert searched(Machine(), larger=0.5).best.value("compression", "auto") == "lz4"
    assert searched(Machine(), larger=3).best.value("compression", "auto") == "none"


LEVELS = Axis("compression", "auto", upward=("zstd3", "zstd6", "zstd9"), others=("none", "lz4"))


def tried_levels(codecs):
    """What is best, and what was measured."""
    machine = Machine(codecs=codecs)
    best = searched(machine, (LEVELS,)).best.value("compression", "auto")
    return best, {one.value("compression", "auto") for one in machine.calls}


def test_more_compression_is_tried_until_it_stops_helping():
    # A thin link: what is sent counts.
    thin = {"auto": (1.0, 100), "none": (3.0, 300), "lz4": (1.4, 140), "zstd3": (0.9, 90),
            "zstd6": (0.8, 80), "zstd9": (0.79, 79)}  # fmt: skip
    assert tried_levels(thin) == ("zstd6", set(thin))
    best, tried = tried_levels(CODECS | {"zstd6": (0.5, 90), "zstd9": (0.4, 90)})
    assert best == "auto"
    assert not tried & {"zstd6", "zstd9"}


def test_levels_are_tried_anew_where_another_codec_was_best_so_far():
    """As after fewer shards have made the processor free."""

    class Freed(Machine):
        def exact(self, condition):
            codec = condition.value("compression", "auto")
            if condition.value("shards", 0) == 0:
                return {"auto": 10.0, "lz4": 9.0}.get(codec, 12.0)
            return {"auto": 8.0, "lz4": 7.0, "zstd3": 5.0}.get(codec, 12.0)

    codecs = dict.fromkeys(("auto", "none", "lz4", "zstd3", "zstd6", "zstd9"), (1.0, 100))
    found = searched(Freed(codecs=codecs), (LEVELS, SHARDS))
    assert found.best.value("compression", "auto") == "zstd3"


def test_a_knob_that_helps_only_beside_another_is_found_together():
    """As workers and their queue: the queue does nothing without workers."""

    class Queued(Machine):
        def exact(self, condition):
            if condition.value("shards", 0) in (0, 1):
                return 10.0
            return 6.0 if condition.value("upload_queue_size", 128) == 128 else 4.0

    found = searched(Queued())
    assert found.best.value("shards", 0) == 4
    assert found.best.value("upload_queue_size", 128) == 512


def test_a_machine_that_slows_down_all_the_time_deceives_nobody():
    """Each run is slower than the one before: candidates are measured after the defaults."""
    assert searched(Machine(drift=0.02)).best == DEFAULTS
    machine = Machine({"shards": 8}, drift=0.02)
    assert dict(searched(machine).best.changes) == {"shards": 8}


def test_what_helped_by_chance_alone_does_not_stay():
    """The first runs of a candidate are lucky, all later ones are as slow as the defaults."""

    class Lucky(Machine):
        def __call__(self, condition):
            run = super().__call__(condition)
            lucky = condition != DEFAULTS and self.calls.count(condition) <= 2
            return Measurement(run.seconds * (0.7 if lucky else 1), 100, 100)

    found = searched(Lucky(slope=dict.fromkeys(("shards", "scan_threads", "upload_queue_size"), 0)),
                     (SHARDS,))  # fmt: skip
    assert found.best == DEFAULTS
    assert found.gain == 1.0


@given(
    shards=st.sampled_from([1, 2, 4, 8, 16]),
    threads=st.sampled_from([1, 4, 16, 64, 256]),
    queue=st.sampled_from([8, 32, 128, 512, 2048]),
    noise=st.floats(0, 0.06),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=150, deadline=None)
def test_with_noise_the_result_is_near_the_optimum_in_bounded_steps(
    shards, threads, queue, noise, seed
):
    machine = Machine(
        {"shards": shards, "scan_threads": threads, "upload_queue_size": queue},
        noise=noise,
        seed=seed,
    )
    found = searched(machine)
    best = 10.0
    assert machine.exact(found.best) <= best * 1.15
    values = sum(len((*one.upward, *one.downward, *one.others)) for one in AXES)
    # Each value at most once alone, once together, and each knob joined once.
    assert len(machine.calls) <= (2 * values + 2 * len(AXES) + 1) * (2 * MOST_TURNS + 1)


@given(stop=st.integers(1, 80), seed=st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_it_goes_on_where_it_stopped(stop, seed):
    """A search that is stopped, and answered from its own runs, ends as one that never was."""
    optimum = {"shards": 8, "scan_threads": 16, "upload_queue_size": 512}
    whole = searched(Machine(optimum, noise=0.04, seed=seed))
    stopped = Machine(optimum, noise=0.04, seed=seed, most_calls=stop)
    Search(stopped, AXES).run()
    again = Machine(optimum, noise=0.04, seed=seed)
    resumed = searched(again)
    # The same runs in the same order, so those of the first part could be answered from memory.
    assert again.calls[: len(stopped.calls)] == stopped.calls
    assert (resumed.best, resumed.gain) == (whole.best, whole.gain)


def test_time_that_is_up_leaves_the_best_so_far():
    machine = Machine({"shards": 8}, most_calls=7)
    search = Search(machine, AXES)
    search.run()
    assert not search.is_finished
    assert search.best == DEFAULTS or machine.exact(search.best) < machine.exact(DEFAULTS)
    search.confirm()
    assert machine.exact(search.best) <= machine.exact(DEFAULTS)


def test_costs_are_told_of_settings_that_are_not_searched():
    class Listing(Machine):
        def exact(self, condition):
            return 8.0 if not condition.value("xattrs", True) else 10.0

    search = Search(Listing(), ())
    search.run()
    assert search.costs([("xattrs", False), ("acls", False)]) == {
        ("xattrs", False): 0.8, ("acls", False): 1.0,
    }  # fmt: skip
    assert search.best == DEFAULTS


def test_costs_stop_when_the_time_is_up():
    search = Search(Machine(most_calls=1), ())
    search.run()
    assert search.costs([("xattrs", False)]) == {}
