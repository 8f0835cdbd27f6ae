"""Every case of the language gives the verdict, the resources and the warnings it should."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from strongroom.config.values.measures import duration_seconds, size_bytes, speed_bytes_per_second

VECTORS = json.loads((Path(__file__).parent / "data" / "vectors.json").read_text("utf-8"))
COMPONENTS = {"bareos-dir": "director", "bareos-fd": "agent", "bareos-sd": "storage"}


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["id"])
def test_strict_gives_the_verdict_of_the_original(case, read):
    reading = read(case["text"], COMPONENTS[case["component"]], strict=True)
    assert bool(reading.errors) is not case["accept"]
    if case["accept"]:
        assert reading.resources == case["resources"]
        assert reading.codes("warning") == case["warnings"]


@pytest.mark.parametrize(
    "case", [case for case in VECTORS["cases"] if case["accept"]], ids=lambda case: case["id"]
)
def test_what_strict_accepts_is_accepted_otherwise_too(case, read):
    reading = read(case["text"], COMPONENTS[case["component"]])
    # What the original drops without a word is an error.
    assert set(reading.codes("error")) <= {"rest-dropped"}
    assert reading.resources == case["resources"]


def test_durations():
    assert {text: duration_seconds(text) for text in VECTORS["durations"]} == {
        "5m": 5 * 30 * 86400,
        "5mi": 300,
        "1w": 7 * 86400,
        "1q": 91 * 86400,
        "1.5h": 5400,
        "30secs": None,
        "1d12h": 129600,
        "7 days": 7 * 86400,
        "1month2days30sec": 32 * 86400 + 30,
    }


def test_sizes():
    assert {text: size_bytes(text) for text in VECTORS["sizes"]} == {
        "5": 5,
        "5kb": 5000,
        "5K": 5120,
        "5gib": None,
        "1.5g": 1024**3 * 3 // 2,
        "1e3k": 1000 * 1024,
        "1eb": 10**18,
    }


def test_speeds():
    assert {text: speed_bytes_per_second(text) for text in VECTORS["speeds"]} == {
        "10k/s": 10 * 1024,
        "10m/s": 10 * 1024**2,
        "10k": 10 * 1024,
        "10mb": 10 * 1000**2,
    }


@pytest.mark.parametrize("text", ["", "k", "5b", "5 hrs", "-1", "1e999", "9" * 400, "1..2"])
def test_what_is_no_measure(text):
    assert duration_seconds(text) is None
    assert size_bytes(text) is None
    assert speed_bytes_per_second(text) is None
