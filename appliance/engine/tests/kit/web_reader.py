"""A browser at the web page of a director: its headers, its cookies, and what our script sends."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any, Self

import httpx

from kit.director_server import RunningDirector
from kit.page_routes import PageRequest
from strongroom.net.control.messages import OWN_HEADER, OWN_HEADERS

# What begins apart from the text before it.
_APART = frozenset(("td", "th", "li", "tr", "p", "dt", "dd", "caption", "h1", "h2", "div"))
NAVIGATION = {"sec-fetch-site": "none", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


class WebReader:
    """Somebody with a certificate (`name`), or no one until `log_in`; a context manager."""

    def __init__(self, director: RunningDirector, name: str = "", **options: Any) -> None:
        self.director = director
        self.http = director.client(name, **options)
        del self.http.headers[OWN_HEADER]

    def __enter__(self) -> Self:
        self.http.__enter__()
        return self

    def __exit__(self, *failure: object) -> None:
        self.http.__exit__()

    def look(self, target: str, /, **headers: str) -> httpx.Response:
        """Follow a link or type an address."""
        return self.ask("GET", target, headers={**NAVIGATION, **headers})

    def act(self, target: str, /, **body: Any) -> httpx.Response:
        """Send a form as our script does."""
        own = {"origin": self.director.url, "sec-fetch-site": "same-origin"}
        return self.ask("POST", target, headers={**own, **OWN_HEADERS}, json=body)

    def request(self, one: PageRequest, **headers: str) -> httpx.Response:
        """Any request, with these headers alone."""
        body = {} if one.body is None else {"json": one.body}
        return self.ask(one.method, one.target, headers=headers, **body)

    def ask(self, method: str, target: str, **options: Any) -> httpx.Response:
        """Send it to the director, whatever the base of its API is."""
        url = self.http.base_url.copy_with(raw_path=target.encode())
        return self.http.request(method, url, **options)

    def log_in(self, token: str) -> httpx.Response:
        """Begin a session."""
        return self.act("/login", token=token)

    def log_in_as(self, name: str, **wanted: Any) -> str:
        """The same with a new token of a Console; returns the token's id."""
        with self.director.client("admin") as admin:
            made = admin.post("/tokens", json={"name": name, **wanted})
        assert made.status_code == 201, made.text
        assert self.log_in(made.json()["text"]).status_code == 200
        found: str = made.json()["token"]["id"]
        return found


class ParsedPage(HTMLParser):
    """A page: its elements with their attributes in order, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self._words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _APART:
            self._words.append(" ")
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self._words.append(data)

    @property
    def text(self) -> str:
        """The text, each run of blanks as one."""
        return " ".join("".join(self._words).split())

    def all(self, tag: str) -> list[dict[str, str]]:
        """The attributes of each element of a kind."""
        return [attributes for name, attributes in self.elements if name == tag]
