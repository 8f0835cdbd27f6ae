"""A web page uses the certificate that its reader's browser has for the director."""

import socket

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from kit.api_routes import every_route
from kit.director_server import RunningDirector
from strongroom.net.channels.tls_contexts import client_context
from strongroom.net.control.messages import OWN_HEADER, OWN_HEADERS
from strongroom.net.identities.identity import certificate_request, new_key

EVIL = "https://evil.example"


@pytest.fixture(scope="module")
def director(tmp_path_factory, first_director):
    with RunningDirector(tmp_path_factory.mktemp("visited"), like=first_director) as running:
        yield running


@pytest.fixture(scope="module")
def described(director):
    with director.client() as nobody:
        return nobody.get("/openapi.json").json()


@pytest.fixture(scope="module")
def routes(described):
    found = list(every_route(described))
    assert len(found) > 28
    return found


@pytest.fixture(scope="module")
def browser(director):
    """A browser with the certificate of admin; it sends no header of ours by itself."""
    with director.client("admin") as api:
        del api.headers[OWN_HEADER]
        yield api


@pytest.fixture(autouse=True)
def nothing_has_happened(director):
    yield
    with director.client("admin") as admin:
        assert admin.get("/runs").json()["items"] == []
        assert admin.get("/tokens").json()["items"] == []


PAGES = {
    "a form": {
        "origin": EVIL,
        "sec-fetch-site": "cross-site",
        "sec-fetch-mode": "navigate",
        "content-type": "application/x-www-form-urlencoded",
    },
    "a form without a referrer": {
        "origin": "null",
        "sec-fetch-site": "cross-site",
        "content-type": "application/x-www-form-urlencoded",
    },
    "fetch of text": {"origin": EVIL, "sec-fetch-site": "cross-site", "content-type": "text/plain"},
    "fetch of JSON": {
        "origin": EVIL,
        "sec-fetch-site": "cross-site",
        "content-type": "application/json",
    },
    "a page of the same site": {"origin": "https://other.example", "sec-fetch-site": "same-site"},
    "an old browser": {"origin": EVIL, "content-type": "text/plain"},
    "a picture": {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
    "our name on another port": {"origin": "https://localhost:1", "sec-fetch-site": "same-site"},
    "our name without TLS": {"origin": "http://localhost"},
}


@pytest.mark.parametrize("sends_header", [False, True])
@pytest.mark.parametrize("page", PAGES)
def test_no_page_of_another_site_gets_an_answer(browser, routes, page, sends_header):
    for route in routes:
        headers = {**PAGES[page], **(OWN_HEADERS if sends_header else {})}
        answer = route.ask(browser, headers=headers)
        assert answer.status_code == 403, (route, answer.text)
        assert "browser" in answer.json()["message"]
        assert not any(name.startswith("access-control") for name in answer.headers)


def test_what_changes_something_or_streams_needs_our_header(browser, routes, described):
    needing = set()
    for route in routes:
        if route.ask(browser).status_code == 403:
            needing.add((route.method.lower(), route.pattern))
    declared = {
        (method, path)
        for path, operations in described["paths"].items()
        for method, operation in operations.items()
        if any(one["name"] == OWN_HEADER for one in operation.get("parameters", ()))
    }
    wanted = {
        (method, path)
        for path, operations in described["paths"].items()
        for method, operation in operations.items()
        if method != "get" or "text/event-stream" in operation["responses"]["200"]["content"]
    }
    assert needing == declared == wanted


def test_the_header_needs_a_value(browser):
    answer = browser.post("/reload", headers={OWN_HEADER: ""})
    assert (answer.status_code, OWN_HEADER in answer.text) == (403, True)


def test_a_page_is_not_told_that_it_may_ask(browser):
    headers = {
        "origin": EVIL,
        "access-control-request-method": "POST",
        "access-control-request-headers": OWN_HEADER,
    }
    answer = browser.options("/runs", headers=headers)
    assert answer.status_code >= 400
    assert not any(name.startswith("access-control") for name in answer.headers)


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:9101", "localhost.evil.example", "director", "[::1", "a b"],
)
def test_a_name_that_was_made_to_point_here_is_not_ours(director, browser, routes, host):
    for origin in (f"https://{host}", None):
        headers = {"host": host, "sec-fetch-site": "same-origin", **OWN_HEADERS}
        if origin is not None:
            headers["origin"] = origin
        for route in routes:
            answer = route.ask(browser, headers=headers)
            assert answer.status_code in (400, 403), (route, answer.text)
            assert answer.status_code == 400 or "the name" in answer.json()["message"]


def test_a_name_that_points_here_renews_no_certificate(director, browser):
    body = {"csr": certificate_request(new_key(), "admin").decode()}
    headers = {"host": "evil.example", "origin": EVIL, "sec-fetch-site": "same-origin"}
    answer = browser.post("/renew", json=body, headers={**headers, **OWN_HEADERS})
    assert answer.status_code == 403
    assert browser.post("/renew", json=body).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"sec-fetch-site": "none"},
        {"host": "LOCALHOST"},
        {"host": "localhost:9999"},
        {"host": "127.0.0.1"},
        {"host": "[2001:db8::1]:9101"},
    ],
)
def test_who_asks_by_a_name_of_ours_or_an_address_is_answered(browser, headers):
    assert browser.get("/status", headers=headers).status_code == 200


def test_a_page_of_our_own_may_ask(director, browser):
    own = {"origin": director.url, "sec-fetch-site": "same-origin"}
    assert browser.post("/reload", headers={**own, **OWN_HEADERS}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": EVIL, **OWN_HEADERS},
        {"Sec-Fetch-Site": "cross-site", **OWN_HEADERS},
        {},
    ],
)
@pytest.mark.parametrize("role", ["agent", "operator"])
def test_no_page_opens_a_websocket(director, headers, role):
    name = "web1" if role == "agent" else "admin"
    with pytest.raises(InvalidStatus) as refused:
        connect(
            f"wss://localhost:{director.port}/api/v1/agents/connect",
            ssl=client_context(director.identity(name, role)),
            additional_headers=headers,
        )
    assert refused.value.response.status_code == 403


def test_an_agent_may_dial_by_any_name(director):
    context = client_context(director.identity("web1", "agent"), check_hostname=False)
    with connect(
        "wss://backup.internal/api/v1/agents/connect",
        sock=socket.create_connection(("127.0.0.1", director.port)),
        ssl=context,
        additional_headers=OWN_HEADERS,
    ):
        pass


def test_an_attempt_is_in_the_audit_log_with_whose_certificate_it_was(asked_director):
    # Of the many attempts of the tests before only the first are there.
    with asked_director.client("admin") as admin:
        admin.post("/reload", headers={"origin": EVIL})
        found = admin.get("/audit", params={"limit": 1}).json()["items"][0]
    assert (found["who"], found["action"], found["object"], found["result"]) == (
        "admin",
        "denied",
        "POST /api/v1/reload",
        "not-permitted",
    )
