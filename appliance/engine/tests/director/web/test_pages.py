"""What the pages show, each from a real director."""

import base64
import json
from urllib.parse import quote

import pytest

from kit.page_routes import every_page
from kit.simulated_agent import SimulatedAgent
from kit.web_reader import ParsedPage, WebReader
from strongroom.net.control.messages import OWN_HEADERS, Cancel, StartBackup, StartRestore


@pytest.fixture
def web1(own_director):
    with SimulatedAgent(own_director, "web1") as agent:
        yield agent


def shown(reader, target):
    answer = reader.look(target)
    assert answer.status_code == 200, answer.text
    return ParsedPage(answer.text)


def links(page):
    return [one["href"] for one in page.all("a") if "href" in one]


def started(admin, web1, job="nightly-web1"):
    answer = admin.act("/runs", job=job)
    assert answer.status_code == 200, answer.text
    run_id = web1.expect(StartBackup).run_id
    web1.started(run_id)
    return run_id


def tree_of(director):
    return str(director.tree)


def test_every_page_is_shown_and_every_link_of_ours_leads_somewhere(admin, own_director, web1):
    run_id = started(admin, web1)
    web1.log(run_id, "a line")
    first, second, *_ = own_director.snapshots
    waiting = [
        one.target
        for one in every_page(first.id, second.id, run_id)
        if one.method == "GET" and not one.needs_header and "path=/x" not in one.target
    ]
    seen = set()
    while waiting:
        target = waiting.pop()
        if target in seen or len(seen) > 150:
            continue
        seen.add(target)
        answer = admin.look(target)
        assert answer.status_code == 200, (target, answer.text)
        if answer.headers["content-type"].startswith("text/html"):
            waiting += [one for one in links(ParsedPage(answer.text)) if one.startswith("/")]
    assert len(seen) > 30


def test_the_overview_puts_what_failed_first(own_director, admin, web1):
    run_id = started(admin, web1)
    web1.ended(run_id, "failed", error="the disk is on fire", error_id="store")

    def is_told():
        return "the disk is on fire" in admin.look("/").text

    own_director.wait_for(is_told)
    text = shown(admin, "/").text
    assert "✗ error the job nightly-web1 of web1 failed" in text
    rows = [href for href in links(shown(admin, "/")) if href.startswith("/client?")]
    clients = [href for href in rows if "#" not in href]
    # The first is of the problem, the next of the list of clients.
    assert clients[:2] == ["/client?name=web1", "/client?name=web1"]
    assert shown(admin, "/clients?state=failed").text.count("web1") >= 1
    assert "No client" in shown(admin, "/clients?state=ok").text


def test_the_overview_shows_age_progress_space_and_what_ends(own_director, admin, web1):
    run_id = started(admin, web1)
    web1.ended(run_id, summary={"files": 3})
    own_director.wait_for(lambda: "ago" in admin.look("/").text)
    second = started(admin, web1)
    web1.progress(second, files=7, bytes=4096)
    own_director.wait_for(lambda: "7 files, 4.0 KiB" in ParsedPage(admin.look("/").text).text)
    page = shown(admin, "/")
    assert "vault" in page.text
    assert page.all("meter")
    assert "not known before a week of backups" in page.text
    assert "the certificate of agent web1" in page.text
    assert "No restore test has ended yet" in page.text


def test_a_run_shows_its_log_and_its_stream_goes_on_from_there(own_director, admin, web1):
    run_id = started(admin, web1)
    for number in range(3):
        web1.log(run_id, f"line {number}")
    own_director.wait_for(lambda: "line 2" in admin.look(f"/runs/{run_id}").text)
    page = shown(admin, f"/runs/{run_id}")
    (live,) = [one for one in page.all("div") if "data-events" in one]
    assert live["data-events"] == f"/runs/{run_id}/events"
    web1.log(run_id, "line 3")
    web1.ended(run_id)
    target = f"{live['data-events']}?after={live['data-after']}"
    url = admin.http.base_url.copy_with(raw_path=target.encode())
    with admin.http.stream("GET", url, headers=OWN_HEADERS) as stream:
        told = [
            json.loads(line[6:])["line"]["text"]
            for line in stream.iter_lines()
            if line.startswith("data: ") and '"line"' in line
        ]
    assert [one for one in told if one.startswith("line ")] == ["line 3"]
    after = shown(admin, f"/runs/{run_id}")
    assert not [one for one in after.all("div") if "data-events" in one]


def test_a_run_is_cancelled(admin, web1):
    run_id = started(admin, web1)
    answer = admin.act(f"/runs/{run_id}/cancel")
    assert answer.json() == {"go": f"/runs/{run_id}"}
    assert web1.expect(Cancel).run_id == run_id


def test_a_client_shows_its_jobs_and_starts_one(admin, web1):
    page = shown(admin, "/client?name=web1")
    assert "nightly-web1" in page.text
    assert "nightly-db1" not in page.text
    (job,) = [one for one in page.all("input") if one.get("name") == "job"]
    answer = admin.act("/runs", job=job["value"])
    assert answer.json()["go"].startswith("/runs/")
    assert web1.expect(StartBackup).run_id in answer.json()["go"]


def test_an_unknown_client_is_a_page_that_says_so(admin):
    answer = admin.look("/client?name=nobody")
    assert answer.status_code == 404
    assert "nobody" in answer.text


def test_the_schedule_has_seven_days_and_the_runs_of_each(admin):
    today = shown(admin, "/schedule")
    assert len([one for one in links(today) if one.startswith("/schedule?day=")]) == 7
    third = shown(admin, "/schedule?day=3")
    assert "1 run" in third.text
    assert "23:10" in third.text
    assert "nightly-web1" in third.text
    assert "nightly-web2" not in third.text
    assert admin.look("/schedule?day=7").status_code == 422


def test_a_snapshot_is_browsed_from_its_root_down(admin, own_director):
    snapshot = own_director.snapshots[0].id
    target, seen = f"/snapshots/{snapshot}", ""
    for name in [*tree_of(own_director).strip("/").split("/"), "home", "ann"]:
        page = shown(admin, target)
        (target,) = {one for one in links(page) if one.endswith(quote(f"{seen}/{name}", safe=""))}
        seen += f"/{name}"
    page = shown(admin, target)
    assert "letter.odt" in page.text
    assert "Pictures/" in page.text


def test_a_restore_with_nothing_chosen_restores_nothing(admin, own_director):
    snapshot = own_director.snapshots[0].id
    for query in ("", "&way=folder&target=/srv/restore", "&way=place"):
        answer = admin.look(f"/restore?snapshot={snapshot}{query}")
        assert answer.status_code == 422
        assert "data-body" not in answer.text
    body = {"snapshot": snapshot, "client": "web1", "target": "/srv/restore", "paths": []}
    assert admin.act("/restores", **body).status_code == 422
    files = shown(admin, f"/snapshots/{snapshot}")
    (everything,) = (one["href"] for one in files.all("a") if "/restore" in one.get("href", ""))
    page = shown(admin, f"{everything}&way=folder&target=/srv/restore")
    assert "Everything: 6 files" in page.text
    bodies = [json.loads(one["data-body"]) for one in page.all("input") if "data-body" in one]
    assert [one["paths"] for one in bodies] == [["/"], ["/"]]
    assert admin.act("/restores", **bodies[1]).status_code == 200


def test_a_name_that_is_not_utf8_is_chosen_and_restored_exactly(admin, own_director, web1):
    snapshot = own_director.snapshots[0].id
    folder = f"{tree_of(own_director)}/home"
    page = shown(admin, f"/snapshots/{snapshot}?path={quote(folder)}")
    (box,) = [one for one in page.all("input") if one.get("name") == "path_base64"]
    assert base64.b64decode(box["value"]) == folder.encode() + b"/\xfe-not-utf8"
    target = f"/restore?snapshot={snapshot}&path_base64={quote(box['value'])}"
    page = shown(admin, f"{target}&way=folder&target=/srv/restore")
    _, restore = (json.loads(one["data-body"]) for one in page.all("input") if "data-body" in one)
    assert admin.act("/restores", **restore).status_code == 200
    (path,) = web1.expect(StartRestore).options.includes
    assert base64.b64decode(path["base64"]).endswith(b"/home/\xfe-not-utf8")


@pytest.mark.parametrize(
    ("way", "place"),
    [
        ("folder", "/srv/restore{tree}/home/ann/letter.odt"),
        ("content", "/srv/restore/ann/letter.odt"),
        ("place", "{tree}/home/ann/letter.odt"),
    ],
)
def test_the_preview_names_the_places_where_the_restore_is_told_to_write(
    admin, own_director, web1, way, place
):
    snapshot = own_director.snapshots[0].id
    tree = tree_of(own_director)
    target = f"/restore?snapshot={snapshot}&path={quote(tree)}/home&way={way}"
    page = shown(admin, target + ("" if way == "place" else "&target=/srv/restore"))
    assert f"{tree}/home/ann/letter.odt {place.format(tree=tree)} file" in page.text
    trial, restore = (
        json.loads(one["data-body"]) for one in page.all("input") if "data-body" in one
    )
    assert trial == {**restore, "dry_run": True}
    assert admin.act("/restores", **trial).status_code == 200
    order = web1.expect(StartRestore)
    assert order.options.dry_run
    (path,) = (order.options.subpath,) if way == "content" else order.options.includes
    assert path.strip("/") == f"{tree}/home".strip("/")


def test_a_preview_of_what_cannot_be_says_why_and_offers_nothing(admin, own_director):
    snapshot = own_director.snapshots[0].id
    for query in ("way=folder&target=relative", "path=/nowhere&way=place", "way=folder"):
        answer = admin.look(f"/restore?snapshot={snapshot}&{query}")
        assert answer.status_code == 422
        assert 'role="alert"' in answer.text
        assert "data-body" not in answer.text


def test_a_file_is_found_by_its_name(admin, own_director):
    page = shown(admin, "/search?name=*.JPG&client=web1&ignore_case=true")
    assert page.text.count("cat.jpg") == 2
    assert "Nothing" in shown(admin, "/search?name=*.JPG").text


def test_two_snapshots_are_compared(admin, own_director):
    first, second, _ = own_director.snapshots
    page = shown(admin, f"/compare?before={first.id}&after={second.id}")
    assert f"removed {tree_of(own_director)}/home/ann/letter.odt" in page.text
    back = shown(admin, f"/compare?before={second.id}&after={first.id}")
    assert f"added {tree_of(own_director)}/home/ann/letter.odt" in back.text
    assert admin.look(f"/compare?before={first.id}&after={first.id}").status_code == 422


def test_the_configuration_says_where_each_value_comes_from_and_no_secret(admin):
    page = shown(admin, "/resource?kind=Job&name=nightly-web1")
    assert "Level Incremental" in page.text
    assert "(from JobDefs usual)" in page.text
    assert "default" in page.text
    text = shown(admin, "/resource?kind=Client&name=web1").text
    assert "Password ***" in text


def test_notices_are_tested_and_tell_what_the_server_said(admin):
    assert "Notify block" in shown(admin, "/notices").text
    answer = admin.act("/notices/test", destination="")
    assert (answer.status_code, "Messages resource" in answer.json()["message"]) == (404, True)
    assert admin.act("/notices/retry").json()["message"].startswith("0 messages")


def test_the_audit_log_is_shown(admin):
    admin.act("/notices/retry")
    assert "notify" in shown(admin, "/audit?who=admin").text
    assert "There are none" in shown(admin, "/audit?who=nobody").text


def test_long_lists_have_pages(own_director, admin):
    with own_director.client("admin") as api:
        for _ in range(55):
            assert api.post("/runs", json={"job": "nightly-web2"}).status_code == 202
    first = shown(admin, "/runs?client=web2")
    assert len([one for one in links(first) if one.startswith("/runs/")]) == 50
    (following,) = [one["href"] for one in first.all("a") if one.get("rel") == "next"]
    second = shown(admin, following)
    assert len([one for one in links(second) if one.startswith("/runs/")]) == 5


def test_somebody_of_few_rights_gets_a_menu_of_what_is_permitted(own_director):
    with WebReader(own_director, "ann") as ann:
        page = shown(ann, "/")
        menu = {one for one in links(page) if one.count("/") == 1 and "?" not in one}
        assert {"/clients", "/runs", "/snapshots", "/search"} <= menu
        assert not {"/audit", "/configuration", "/notices"} & menu
        for target in ("/audit", "/configuration", "/notices"):
            assert ann.look(target).status_code == 403
