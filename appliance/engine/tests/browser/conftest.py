"""A headless Chromium on a director that has something to show.

Playwright drives the browser; `make test-browser` installs it. Without it, or without
/usr/bin/chromium (Debian's package chromium), the tests are skipped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.director_server import RunningDirector
from kit.simulated_agent import SimulatedAgent

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not os.access(CHROMIUM, os.X_OK):
        pytest.skip(f"there is no {CHROMIUM}; apt-get install chromium")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def director(tmp_path: Path, first_director: RunningDirector) -> Iterator[RunningDirector]:
    with RunningDirector(tmp_path, like=first_director) as running:
        yield running


@pytest.fixture
def web1(director: RunningDirector) -> Iterator[SimulatedAgent]:
    with SimulatedAgent(director, "web1") as agent:
        yield agent


@pytest.fixture
def token(director: RunningDirector) -> str:
    with director.client("admin") as admin:
        text: str = admin.post("/tokens", json={"name": "admin"}).json()["text"]
    return text


class Site:
    """A browser window at the director; complaints: what the browser objected to."""

    def __init__(self, director: RunningDirector, page: Any) -> None:
        self.director = director
        self.page = page
        self.complaints: list[str] = []
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._listen)

    def _listen(self, message: Any) -> None:
        # The answer to a page without a session is meant; browsers log each such answer.
        if message.type == "error" and "status of 401" not in message.text:
            self.complaints.append(message.text)

    def open(self, target: str) -> None:
        self.page.goto(self.director.url + target)

    def log_in(self, token: str) -> None:
        self.open("/")
        self.page.fill("#token", token)
        self.page.keyboard.press("Enter")
        self.page.wait_for_selector("nav[aria-label=Main]")


@pytest.fixture(params=["light", "dark", "phone"])
def looks(request: pytest.FixtureRequest) -> dict[str, Any]:
    """How the browser shows pages."""
    wide = {"width": 1280, "height": 800}
    known: dict[str, dict[str, Any]] = {
        "light": {"viewport": wide, "color_scheme": "light"},
        "dark": {"viewport": wide, "color_scheme": "dark"},
        "phone": {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True},
    }
    return known[request.param]


@pytest.fixture
def new_site(chromium: Any, director: RunningDirector) -> Iterator[Any]:
    """Makes a window; it fails when the browser objected to anything, such as a broken policy."""
    contexts, sites = [], []

    def make(**options: Any) -> Site:
        # Its authority is the appliance's own, which this browser has not been reported.
        contexts.append(chromium.new_context(ignore_https_errors=True, **options))
        sites.append(Site(director, contexts[-1].new_page()))
        return sites[-1]

    yield make
    for context in contexts:
        context.close()
    assert [one.complaints for one in sites] == [[] for _ in sites]


@pytest.fixture
def site(new_site: Any, token: str) -> Site:
    """A window of admin, who has logged in."""
    made: Site = new_site()
    made.log_in(token)
    return made
