"""What is a Run directive, compared with what the engine takes."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from ansible_collections.strongroom.backup.plugins.module_utils.run_directive import run

# Reads texts as JSON; writes for each whether the engine takes it.
ENGINE = """
import json, sys
from strongroom.config.trees.loader import LoadOptions, load_text
def good(text):
    whole = "Schedule {\\n Name = s\\n Run = %s\\n}\\n" % text
    return not load_text(whole, "director", LoadOptions(), "t.conf").diagnostics.sorted("error")
print(json.dumps([good(text) for text in json.load(sys.stdin)]))
"""
# Parts that runs are made of here, right and wrong ones.
PARTS = [
    "Full", "incremental", "Fulll", "VirtualFull", "Pool=Monthly", "pol=x", "Level=Full", "level=Fulll",
    "Priority=5", "priority=high", "SpoolData=no", "spooldata=maybe", 'MaxRunSchedTime="2h"', "maxrunschedtime=2h",
    "Pool=5", "on", "at", "hourly", "daily", "weekly", "monthly", "last", "lastday", "1", "31", "32", "1/7", "5/2",
    "1/0", "28-3", "mon", "mon-fri", "fri-sun", "mon-mon", "mon-feb", "nov-feb", "january", "satuday", "1st",
    "2nd-5th", "first,", "mon,wed", "w00/w02", "w50-w02", "w54", "w5", "w01", "1:00", "21:00", "24:00", "1:60",
    "1:5", "12:01am", "12:00pm", "13:00pm",
]  # fmt: skip


def taken(texts):
    """Whether the engine takes each."""
    python = Path(shutil.which("strongroom")).with_name("python")
    done = subprocess.run([python, "-c", ENGINE], input=json.dumps(texts), capture_output=True, text=True, check=True)
    return dict(zip(texts, json.loads(done.stdout), strict=True))


def test_a_run_is_what_the_engine_takes():
    chosen = random.Random(7)
    texts = {" ".join(chosen.choices(PARTS, k=chosen.randint(1, 5))) for number in range(3000)}
    texts |= {" ".join([one, "at 21:00"]) for one in PARTS} | set(PARTS)
    texts |= {
        f"{level} {time}"
        for level in ("", "Full", "Pool=Monthly Full")
        for time in ("1st sun at 2:05", "mon-sat at 21:10")
    }
    found = taken(sorted(texts))
    assert sum(found.values()) > 200
    assert {text: run(text) for text, good in found.items() if good != (run(text) == "")} == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Fulll sun at 3:00", "has Fulll, which is not part of a time; did you mean full?"),
        ("Full sun at 25:00", "has 25:00, which is not a time of day"),
        ("Full sun 3:00", "has the time 3:00 without the word `at` before it"),
        ("Full", "has no time, such as `mon-fri at 21:00`"),
        ("", "has no time, such as `mon-fri at 21:00`"),
        ("pol=x mon at 1:00", "has pol=, which no run can set; did you mean pool?"),
        ("Level=Fulll mon at 1:00", "has Level=Fulll, which it cannot be"),
    ],
)
def test_what_is_wrong_is_named(text, said):
    assert run(text) == said
