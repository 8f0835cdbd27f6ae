"""The pages of `baseline` in a real browser: without complaints, readable, and alone."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from strongroom_bench.suites.report import suite_page
from strongroom_bench.suites.result import Row, SuiteResult

from kit.command import Command
from strongroom.cli.measure.profile import (
    Iperf3Profile,
    Machine,
    NetworkProfile,
    Profile,
    Transfer,
)
from strongroom.cli.measure.report import html_report

pytestmark = pytest.mark.browser

ACCESSIBILITY = (Path(__file__).parent / "accessibility.js").read_text("utf-8")
# A screenshot of each page goes here, for anyone who wants to look.
SHOTS = os.environ.get("SCREENSHOTS", "")
HOSTILE = "<img src=x onerror=document.title='owned'>"

SUITE = SuiteResult(
    "bacula-latency", "Scan threads", f"a text {HOSTILE}", "2026-01-01T00:00:00Z",
    Machine("web1", "a processor", 4, (), 8 << 30, 6 << 30, "6.1", "3.11"),
    9.0, "100 files", "nine jobs by hand", "scan threads",
    tuple(
        Row(f"{delay} ms, {backup}", name, (delay * seconds,) * 3, 50 << 20, place)
        for delay in (0.2, 1, 5)
        for backup in ("first", "unchanged")
        for name, seconds, place in (
            ("nine jobs by hand", 4.0, None),
            *((f"one job, {threads} scan threads", 8 / threads, threads) for threads in (1, 4, 16)),
        )
    ),
)  # fmt: skip
# A way to a storage daemon, and iperf3 beside it.
NETWORK = Profile(
    "2026-01-01T00:00:00Z",
    Machine("web1", "a processor", 4, ("aes", "sha_ni"), 8 << 30, 6 << 30, "6.1", "3.11"),
    network=NetworkProfile(
        f"vault {HOSTILE}", "tls", 510.0, 40.0, 1448, 1500, "cubic", 12, 345_678,
        tuple(
            Transfer(direction, streams, rate * streams / (streams + 1))
            for direction, rate in (("send", 110e6), ("receive", 90e6))
            for streams in (1, 2, 4, 8, 16)
        ),
    ),
    iperf3=Iperf3Profile(
        "vault:5201", 3,
        tuple(
            Transfer(direction, streams, rate)
            for direction, rate in (("send", 117e6), ("receive", 112e6))
            for streams in (1, 4, 16)
        ),
    ),
)  # fmt: skip


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """The pages of this machine, of a fleet, of a suite, and of a network."""
    folder = tmp_path_factory.mktemp("reports")
    tree = folder / "tree"
    tree.mkdir()
    for number in range(200):
        (tree / str(number)).write_bytes(b"a line of text\n" * 100)
    command = Command(folder)
    own, profile = folder / "own.html", folder / "own.json"
    command.run("baseline", "--dir", str(tree), "--seconds", "0.2", "--html", str(own),
                "-o", str(profile))  # fmt: skip
    words = []
    for number, name in enumerate(("web1", "db1", HOSTILE)):
        found = json.loads(profile.read_text())
        for walk in found["tree"]["walks"]:
            walk["seconds"] *= number + 1
        path = folder / f"{name}.json"
        path.write_text(json.dumps(found))
        words += ["--fleet", str(path)]
    fleet = folder / "fleet.html"
    command.run("baseline", *words, "--html", str(fleet))
    suite = folder / "suite.html"
    suite.write_text(suite_page(SUITE))
    network = folder / "network.html"
    network.write_text(html_report(NETWORK))
    return {"own": own, "fleet": fleet, "suite": suite, "network": network}


@pytest.mark.parametrize("name", ["own", "fleet", "suite", "network"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_report_opens_without_a_complaint(chromium, reports, name, scheme):
    page = chromium.new_page(color_scheme=scheme)
    complaints: list[str] = []
    asked: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("request", lambda request: asked.append(request.url))
    try:
        address = reports[name].as_uri()
        page.goto(address)
        assert complaints == []
        # Nothing else is fetched.
        assert asked == [address]
        assert (
            page.title() in ("Baselines of the fleet", SUITE.title) or "Baseline of" in page.title()
        )
        assert page.locator("svg").count() >= (1 if name == "network" else 2)
        for box in (one.bounding_box() for one in page.locator("svg").all()):
            assert box["height"] > 20
        assert page.evaluate(ACCESSIBILITY) == []
        # On a small screen nothing but tables is wider than it.
        page.set_viewport_size({"width": 400, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        if SHOTS:
            page.set_viewport_size({"width": 1000, "height": 800})
            page.screenshot(path=f"{SHOTS}/{name}-{scheme}.png", full_page=True)
    finally:
        page.close()
