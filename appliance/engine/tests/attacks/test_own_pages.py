"""The director's own web page, against other sites, hostile names, and readers of few rights."""

import html
import json
import re
import urllib.parse

import pytest

from kit.director_server import CONFIGURATION, RunningDirector
from kit.page_routes import every_page
from kit.simulated_agent import SimulatedAgent
from kit.web_reader import NAVIGATION, ParsedPage, WebReader
from strongroom.director.catalog.access import add_audit
from strongroom.director.catalog.database import open_catalog
from strongroom.director.catalog.runs import add_run
from strongroom.director.catalog.snapshots import add_snapshots
from strongroom.director.results.access import Actor
from strongroom.director.results.runs import Run
from strongroom.director.results.snapshots import Snapshot
from strongroom.director.web.sessions import COOKIE
from strongroom.net.control.messages import OWN_HEADER, OWN_HEADERS, StartBackup

EVIL = "https://evil.example"
# Markup that is none of ours, the end of an attribute, a template, controls, the other direction.
MARK = "xss-mark"
HOSTILE = f"\"'><{MARK} onload=alert(1)>{{{{7*191}}}}<!--\x1b[2J\u202e"
HOSTILE_FILE = HOSTILE.replace("/", "")

BOB = """
Console { Name = bob; Password = x; Command ACL = *all*
  Job ACL = "nightly-web.*"; Client ACL = "web.*"; FileSet ACL = all; Pool ACL = short
  Storage ACL = vault; Schedule ACL = *all*; Where ACL = /srv/restore }
"""
HIDDEN = ("db1", "nightly-db1", "data.*long")


@pytest.fixture(scope="module")
def director(tmp_path_factory, first_director):
    folder = tmp_path_factory.mktemp("own-pages")
    with RunningDirector(folder, CONFIGURATION + BOB, like=first_director) as running:
        yield running


@pytest.fixture(scope="module")
def requests(director):
    found = list(every_page(director.snapshots[0].id, director.snapshots[1].id))
    assert len({(one.method, one.pattern) for one in found}) > 20
    return found


@pytest.fixture
def browser(director):
    """One with the certificate of admin."""
    with WebReader(director, "admin") as reader:
        yield reader


@pytest.fixture
def session(director):
    """One in which admin has logged in."""
    with WebReader(director) as reader:
        reader.log_in_as("admin")
        yield reader


SITES = {
    "a form": {"origin": EVIL, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},
    "a link": {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},
    "a frame": {"sec-fetch-site": "cross-site", "sec-fetch-dest": "iframe"},
    "a script": {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
    "fetch": {"origin": EVIL, "sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"},
    "a sandbox": {"origin": "null", "sec-fetch-site": "cross-site"},
    "another port": {"origin": "https://localhost:1", "sec-fetch-site": "same-site"},
    "an old browser": {"origin": EVIL},
}


@pytest.mark.parametrize("sends_header", [False, True])
@pytest.mark.parametrize("site", SITES)
def test_no_other_site_gets_a_page_or_changes_anything(
    browser, session, requests, site, sends_header
):
    headers = {**SITES[site], **(OWN_HEADERS if sends_header else {})}
    for reader in (browser, session):
        for one in requests:
            answer = reader.request(one, **headers)
            assert answer.status_code == 403, (one, answer.text)
            assert not re.search("nightly|boss|connected", answer.text)
            assert "set-cookie" not in answer.headers
            assert not any(name.startswith("access-control") for name in answer.headers)
    with browser.director.client("admin") as admin:
        assert admin.get("/runs").json()["items"] == []


def test_what_changes_something_or_streams_needs_the_header_of_our_script(
    browser, session, requests
):
    for reader in (browser, session):
        for one in requests:
            answer = reader.request(one, **{"sec-fetch-site": "same-origin"})
            assert (answer.status_code == 403) == one.needs_header, (one, answer.text)
            assert not one.needs_header or OWN_HEADER in answer.text


def test_nobody_is_logged_in_by_another_site(director):
    with WebReader(director) as reader:
        for headers in ({"sec-fetch-site": "same-origin"}, {**SITES["fetch"], **OWN_HEADERS}):
            answer = reader.ask("POST", "/login", headers=headers, json={"token": "srt_x"})
            assert answer.status_code == 403
            form = {**headers, "content-type": "application/x-www-form-urlencoded"}
            answer = reader.ask("POST", "/login", headers=form, content="token=srt_x")
            assert answer.status_code == 403


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example"])
def test_a_name_that_was_made_to_point_here_shows_no_page(browser, requests, host):
    for one in requests:
        answer = browser.request(one, host=host, **NAVIGATION, **OWN_HEADERS)
        assert answer.status_code == 403, one


def test_without_a_caller_no_page_says_anything(director, requests):
    with WebReader(director) as nobody:
        for one in requests:
            if one.is_public:
                continue
            answer = nobody.request(one, **OWN_HEADERS)
            assert answer.status_code in (401, 404, 422), (one, answer.text)
            for word in ("web1", "boss", director.snapshots[0].id[:8], "nightly"):
                assert word not in answer.text, (one, word)


def test_every_answer_forbids_frames_foreign_scripts_and_guessed_types(browser, requests):
    targets = [one for one in requests if one.method == "GET" and not one.needs_header]
    answers = [browser.request(one) for one in targets]
    answers += [
        browser.look("/nowhere"),
        browser.look("/", **{"sec-fetch-site": "cross-site"}),
        browser.ask("POST", "/runs", json={"job": "nightly-web1"}),
        browser.look("/schedule?day=x"),
    ]
    for answer in answers:
        policy = dict(
            one.strip().split(" ", 1)
            for one in answer.headers["content-security-policy"].split(";")
        )
        assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
        assert set(policy.values()) <= {"'none'", "'self'"}
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        if answer.headers["content-type"].startswith("text/html"):
            assert answer.headers.get("cache-control") == "no-store"
            assert no_script_of_its_own(ParsedPage(answer.text))


def no_script_of_its_own(page):
    for name, attributes in page.elements:
        if name == "script":
            assert attributes["src"].startswith("/static/"), attributes
        assert name not in ("style", "iframe", "object", "embed", "base"), name
        assert not any(one.startswith("on") or one == "style" for one in attributes), attributes
        for one in ("href", "src", "action"):
            assert attributes.get(one, "/").startswith(("/", "#")), attributes
            assert not attributes.get(one, "/").startswith("//"), attributes
    return True


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A director whose names, files, runs and logs are all hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "tree" / "etc").mkdir(parents=True)
    (folder / "tree" / "etc" / HOSTILE_FILE).write_bytes(b"?")
    prepared = RunningDirector(folder)
    # A configuration takes no such names; the catalog of another director may have them.
    catalog = open_catalog(f"sqlite:///{folder}/state/main.sqlite")
    old = dict.fromkeys(("job", "client", "fileset", "storage", "pool", "level"), HOSTILE)
    add_run(
        catalog,
        Run(
            id="e" * 32, kind="backup", state="failed", reason=HOSTILE, requested_by=HOSTILE, **old
        ),
    )
    add_snapshots(catalog, [Snapshot(id="e" * 64, false_reason=HOSTILE, **old)])
    add_audit(catalog, Actor(HOSTILE, HOSTILE, HOSTILE), HOSTILE, HOSTILE, HOSTILE)
    catalog.close()
    with (
        prepared as running,
        SimulatedAgent(running, "web1", HOSTILE) as agent,
        running.client("admin") as admin,
    ):
        run_id = admin.post("/runs", json={"job": "nightly-web1"}).json()["id"]
        agent.expect(StartBackup)
        agent.started(run_id)
        agent.log(run_id, HOSTILE)
        agent.ended(run_id, "failed", error=HOSTILE, error_id="store", security={HOSTILE: HOSTILE})

        def is_told():
            return MARK in json.dumps(admin.get("/status").json()["problems"])

        running.wait_for(is_told)
        running.run_id = run_id
        yield running


def test_no_name_file_error_or_line_of_a_log_becomes_markup(hostile):
    first, second, _ = hostile.snapshots
    tree = urllib.parse.quote(f"{hostile.tree}/etc")
    mark = urllib.parse.quote(HOSTILE, safe="")
    shown = 0
    with WebReader(hostile, "admin") as reader:
        targets = [
            one.target
            for one in every_page(first.id, second.id, hostile.run_id)
            if one.method == "GET" and not one.needs_header and "static" not in one.target
        ]
        targets += [
            f"/client?name={mark}",
            f"/runs/{'e' * 32}",
            f"/resource?kind=Client&name={mark}",
            f"/snapshots/{first.id}?path={tree}",
            f"/snapshots/{first.id}?path={tree}/{urllib.parse.quote(HOSTILE_FILE, safe='')}",
            f"/search?name=*{MARK}*",
            f"/restore?snapshot={first.id}&path={tree}&way=folder&target=/srv/{mark}",
            f"/restore?snapshot={first.id}&path={mark}&way=place&client={mark}",
            *(f"/{page}?client={mark}&job={mark}" for page in ("runs", "snapshots")),
            f"/clients?name={mark}&state={mark}",
            f"/search?name={mark}&client={mark}&below=/{mark}",
            f"/configuration?name={mark}&kind={mark}",
            f"/audit?who={mark}",
            f"/runs?kind={mark[:10]}",
            f"/{mark}",
        ]
        for target in targets:
            answer = reader.look(target)
            assert answer.status_code in (200, 404, 422), (target, answer.text)
            page = ParsedPage(answer.text)
            assert no_script_of_its_own(page)
            assert MARK not in {element for element, _ in page.elements}, target
            # No template was read, and nothing is there that does not print.
            assert "1337" not in page.text
            assert all(one.isprintable() for one in answer.text.splitlines()), target
            shown += MARK in page.text
    # The names were there, as text.
    assert shown > 15


def test_what_is_chosen_in_a_hostile_folder_is_exactly_that_file(hostile):
    tree = f"{hostile.tree}/etc"
    with WebReader(hostile, "admin") as reader:
        snapshot = hostile.snapshots[0].id
        page = ParsedPage(reader.look(f"/snapshots/{snapshot}?path={tree}").text)
        boxes = [one for one in page.all("input") if one.get("name") in ("path", "path_base64")]
        (box,) = [one for one in boxes if MARK in one["aria-label"]]
        query = urllib.parse.urlencode({box["name"]: box["value"]})
        page = ParsedPage(
            reader.look(f"/restore?snapshot={snapshot}&{query}&way=folder&target=/srv/x").text
        )
        assert "1 entry" in page.text


def test_pages_name_nothing_that_a_reader_may_not_see(director):
    with director.client("admin") as admin:
        run_id = admin.post("/runs", json={"job": "nightly-db1"}).json()["id"]
        admin.post("/runs", json={"job": "nightly-web1"})
    db1, others = director.snapshots[2].id, director.snapshots[0].id
    try:
        with WebReader(director, "bob") as bob:
            shown = 0
            for one in [*every_page(db1, others, run_id), *every_page(others, db1, run_id)]:
                answer = bob.request(one, **(OWN_HEADERS if one.needs_header else NAVIGATION))
                if one.is_public:
                    continue
                shown += answer.status_code == 200
                # What was asked for may be repeated.
                asked = "db1" in one.target or "db1" in json.dumps(one.body)
                text = html.unescape(answer.text)
                if asked:
                    text = re.sub(r"""value="db1"|'(nightly-)?db1'""", "", text)
                # What was denied before is in the log of what one did oneself.
                ids = () if one.pattern == "/audit" else (db1[:8], run_id)
                for word in ("db1", "long", *ids):
                    if word == "db1" or word not in f"{one.target} {one.body}":
                        # An id may have the letters of a name in it.
                        among = text if word in ids else re.sub(r"[0-9a-f]{8,}", "", text)
                        assert word not in among, (one, word, text)
            assert shown > 15
    finally:
        with director.client("admin") as admin:
            for run in admin.get("/runs").json()["items"]:
                admin.post(f"/runs/{run['id']}/cancel")


def test_a_reader_of_few_rights_does_nothing_that_is_denied(director):
    with WebReader(director, "ann") as ann:
        first = director.snapshots[0].id
        for target, body in (
            ("/runs", {"job": "nightly-db1"}),
            ("/restores", {"snapshot": first, "in_place": True}),
            ("/restores", {"snapshot": first, "target": "/etc"}),
            ("/restores", {"snapshot": director.snapshots[2].id, "target": "/srv/restore"}),
            ("/notices/test", {"destination": ""}),
        ):
            assert ann.act(target, **body).status_code == 403, target
        assert ann.act("/notices/retry").status_code == 403
        answer = ann.look(f"/restore?snapshot={first}&path=/&way=folder&target=/etc")
        assert "files may not be restored to /etc" in ParsedPage(answer.text).text
        assert "data-body" not in answer.text


def test_a_session_is_a_new_one_whatever_cookie_came_along(director):
    planted = "0" * 64
    with WebReader(director) as reader:
        reader.http.cookies.set(COOKIE, planted)
        with director.client("admin") as admin:
            made = admin.post("/tokens", json={"name": "ann"}).json()
        answer = reader.log_in(made["text"])
        value = re.match(rf"{COOKIE}=(\w+);", answer.headers["set-cookie"])[1]
        assert value != planted
        assert len(value) == 64
        with WebReader(director) as attacker:
            attacker.http.cookies.set(COOKIE, planted)
            assert attacker.look("/").status_code == 401
        # Who logs in again leaves no session behind.
        with WebReader(director) as again:
            again.http.cookies.set(COOKIE, value)
            assert again.log_in(made["text"]).status_code == 200
            again.http.cookies.clear()
            again.http.cookies.set(COOKIE, value)
            assert again.look("/").status_code == 401


def test_guessing_tokens_at_the_login_is_limited(asked_director):
    with WebReader(asked_director) as reader:
        codes = [reader.log_in(f"srt_{number:048x}").status_code for number in range(25)]
        assert set(codes[:20]) == {401}
        assert codes[-1] == 429
        with asked_director.client("admin") as admin:
            assert admin.get("/audit", params={"limit": 100}).status_code == 200
            # Wrong logins count as wrong tokens of the API, from the same address.
        api = asked_director.client(token="srt_" + "f" * 48)
        with api:
            assert api.get("/status").status_code == 429


@pytest.mark.parametrize(
    "target",
    [
        "//evil.example/",
        "///evil.example",
        "/%2F%2Fevil.example",
        "/%5Cevil.example",
        "/\\evil.example",
        "/runs?to=https://evil.example",
        "/https://evil.example",
        "/%09/evil.example",
    ],
)
def test_no_page_leads_to_another_site(browser, target):
    for headers in (NAVIGATION, SITES["a link"]):
        answer = browser.ask("GET", target, headers=headers)
        assert "location" not in answer.headers
        for one in ParsedPage(answer.text).all("a"):
            assert re.match(r"[/#](?![/\\])", one["href"]), one
            assert not one["href"].startswith("/%09/"), one


@pytest.mark.parametrize(
    "name",
    [
        "../__init__.py",
        "..%2f__init__.py",
        "%2e%2e%2f%2e%2e%2f__init__.py",
        "....//__init__.py",
        "%2fetc%2fpasswd",
        "style.css%00.js",
        "..%5c__init__.py",
    ],
)
def test_static_files_are_those_of_the_list_and_no_others(browser, name):
    answer = browser.ask("GET", f"/static/{name}", headers=NAVIGATION)
    assert answer.status_code in (401, 404), answer.text
    assert "import" not in answer.text


@pytest.mark.parametrize("path", ["/../../etc/passwd", "/etc/../../..", "..", "/etc/passwd\0"])
def test_a_snapshot_is_left_by_no_path(browser, director, path):
    snapshot = director.snapshots[0].id
    query = urllib.parse.urlencode({"path": path})
    assert browser.look(f"/snapshots/{snapshot}?{query}").status_code in (404, 422)
    answer = browser.look(f"/restore?snapshot={snapshot}&{query}&way=place")
    assert (answer.status_code, "data-body" in answer.text) == (422, False)


def test_an_agents_certificate_shows_no_page(director, requests):
    with WebReader(director) as reader:
        reader.http = director.client("web1", "agent")
        del reader.http.headers[OWN_HEADER]
        for one in requests:
            if not one.is_public:
                answer = reader.request(one, **OWN_HEADERS)
                assert answer.status_code in (403, 422), (one, answer.text)


def test_a_denied_page_is_in_the_audit_log_with_who_asked(asked_director):
    with WebReader(asked_director, "ann") as ann:
        ann.look("/audit")
    with asked_director.client("admin") as admin:
        (found, *_) = admin.get("/audit").json()["items"]
    assert (found["who"], found["action"], found["object"]) == ("ann", "denied", "GET /audit")
