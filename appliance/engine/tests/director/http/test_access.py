"""Who may see and do what: certificates, tokens and the permissions of the configuration."""

import contextlib
import os
from pathlib import Path

import pytest

from strongroom.director.daemon import WRONG_TOKENS

PEOPLE = ("admin", "ann", "boss", "eve", "web1", "nobody")


def connection(director, who):
    roles = {"boss": "director", "web1": "agent"}
    name = "" if who == "nobody" else who
    return director.client(name, roles.get(who, "operator"))


@pytest.fixture(scope="module")
def people(director):
    with contextlib.ExitStack() as open_connections:
        yield {who: open_connections.enter_context(connection(director, who)) for who in PEOPLE}


# Path, body, and the answer that each of PEOPLE gets. A body makes it a POST.
MATRIX = [
    ("/authority", None, (200, 200, 200, 200, 200, 200)),
    ("/openapi.json", None, (200, 200, 200, 200, 200, 200)),
    ("/me", None, (200, 200, 200, 403, 403, 401)),
    ("/status", None, (200, 200, 200, 403, 403, 401)),
    ("/clients", None, (200, 200, 200, 403, 403, 401)),
    ("/clients/web1", None, (200, 200, 200, 403, 403, 401)),
    ("/clients/db1", None, (200, 403, 200, 403, 403, 401)),
    ("/clients/none", None, (404, 403, 404, 403, 403, 401)),
    ("/jobs", None, (200, 200, 200, 403, 403, 401)),
    ("/runs", None, (200, 200, 200, 403, 403, 401)),
    ("/runs/00000000", None, (404, 404, 404, 403, 403, 401)),
    ("/runs/00000000/log", None, (404, 404, 404, 403, 403, 401)),
    ("/runs/00000000/events", None, (404, 404, 404, 403, 403, 401)),
    ("/snapshots", None, (200, 200, 200, 403, 403, 401)),
    ("/snapshots/WEB1", None, (200, 200, 200, 403, 403, 401)),
    ("/snapshots/DB1", None, (200, 403, 200, 403, 403, 401)),
    ("/snapshots/WEB1/files", None, (200, 200, 200, 403, 403, 401)),
    ("/snapshots/DB1/files", None, (200, 403, 200, 403, 403, 401)),
    ("/files/search?name=x", None, (200, 200, 200, 403, 403, 401)),
    ("/config", None, (200, 403, 200, 403, 403, 401)),
    ("/audit", None, (200, 403, 200, 403, 403, 401)),
    ("/tokens", None, (200, 200, 200, 403, 403, 401)),
    ("/notices", None, (200, 403, 200, 403, 403, 401)),
    ("/notices/retry", {}, (200, 403, 200, 403, 403, 401)),
    ("/notices/test", {"destination": "none"}, (404, 403, 404, 403, 403, 401)),
    ("/reload", {}, (200, 403, 200, 403, 403, 401)),
    ("/runs", {"job": "nightly-web2"}, (202, 202, 202, 403, 403, 401)),
    ("/runs", {"job": "nightly-db1"}, (202, 403, 202, 403, 403, 401)),
    ("/runs", {"job": "none"}, (404, 403, 404, 403, 403, 401)),
    ("/runs", {"job": "nightly-web2", "client": "db1"}, (202, 403, 202, 403, 403, 401)),
    ("/runs", {"job": "nightly-web2", "pool": "long"}, (202, 403, 202, 403, 403, 401)),
    ("/runs", {"job": "nightly-web2", "fileset": "data"}, (202, 403, 202, 403, 403, 401)),
    ("/runs/00000000/cancel", {}, (404, 404, 404, 403, 403, 401)),
    (
        "/runs/00000000/bandwidth",
        {"maximum_bytes_per_second": 1},
        (404, 403, 404, 403, 403, 401),
    ),
    ("/estimates", {"job": "nightly-db1"}, (409, 403, 409, 403, 403, 401)),
    ("/restores", {"snapshot": "WEB1", "target": "/srv/restore/x"}, (202, 202, 202, 403, 403, 401)),
    ("/restores", {"snapshot": "WEB1", "target": "/etc"}, (202, 403, 202, 403, 403, 401)),
    ("/restores", {"snapshot": "WEB1", "in_place": True}, (202, 403, 202, 403, 403, 401)),
    ("/restores", {"snapshot": "DB1", "target": "/srv/restore"}, (202, 403, 202, 403, 403, 401)),
    (
        "/restores",
        {"snapshot": "WEB1", "target": "/srv/restore", "client": "db1"},
        (202, 403, 202, 403, 403, 401),
    ),
    (
        "/restores",
        {"snapshot": "WEB1", "target": "/srv/restore/../../etc"},
        (422, 422, 422, 403, 403, 401),
    ),
    ("/restores", {"snapshot": "WEB1"}, (422, 422, 422, 403, 403, 401)),
    ("/tokens", {"name": "ann"}, (201, 201, 201, 403, 403, 401)),
    ("/tokens", {"name": "admin"}, (201, 403, 201, 403, 403, 401)),
    ("/tokens", {"name": "x", "profile": "figures"}, (201, 403, 201, 403, 403, 401)),
    ("/tokens", {"name": "x"}, (404, 403, 404, 403, 403, 401)),
    ("/tokens", {"name": "ann", "profile": "none"}, (404, 404, 404, 403, 403, 401)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "body", "answers"), MATRIX, ids=[f"{path} {body or ''}" for path, body, _ in MATRIX]
)
def test_each_gets_what_is_due(director, people, path, body, answers):
    ids = {"WEB1": director.snapshots[0].id, "DB1": director.snapshots[-1].id}
    for word, snapshot in ids.items():
        path = path.replace(word, snapshot)
    if body is not None and "snapshot" in body:
        body = {**body, "snapshot": ids[body["snapshot"]]}
    got = []
    for who in PEOPLE:
        api = people[who]
        answer = api.get(path) if body is None else api.post(path, json=body)
        got.append(answer.status_code)
        if answer.status_code >= 400:
            assert set(answer.json()) == {"error_id", "message"}
    assert tuple(got) == answers


def test_listings_hold_what_one_may_see_and_no_more(director):
    with connection(director, "admin") as admin, connection(director, "ann") as ann:
        for path, field, all_names, seen in (
            ("/clients", "name", {"web1", "web2", "db1"}, {"web1", "web2"}),
            ("/snapshots", "client", {"web1", "db1"}, {"web1"}),
        ):
            assert {one[field] for one in admin.get(path).json()["items"]} == all_names
            assert {one[field] for one in ann.get(path).json()["items"]} == seen
        names = {one["name"] for one in ann.get("/jobs").json()["items"]}
        assert names == {"nightly-web1", "nightly-web2"}
        for run in (*ann.get("/runs").json()["items"], *ann.get("/status").json()["active"]):
            assert run["client"].startswith("web")
        found = ann.get("/files/search", params={"name": "sshd_config"}).json()["items"]
        assert {one["snapshot"] for one in found} == {one.id for one in director.snapshots[:2]}
        found = admin.get("/files/search", params={"name": "sshd_config"}).json()["items"]
        assert {one["snapshot"] for one in found} == {one.id for one in director.snapshots}


def test_pages_are_full_although_rows_are_left_out(director):
    with connection(director, "ann") as ann:
        page = ann.get("/snapshots", params={"limit": 1}).json()
        first, after = page["items"][0]["id"], page["next"]
        # What one may not see is not counted either.
        assert after == "1"
        page = ann.get("/snapshots", params={"limit": 1, "after": after}).json()
        assert [first, page["items"][0]["id"]] == [
            one.id for one in reversed(director.snapshots[:2])
        ]
        assert page["next"] is None
        assert ann.get("/snapshots", params={"after": "soon"}).status_code == 422


def new_token(director, **body):
    with connection(director, "admin") as admin:
        answer = admin.post("/tokens", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


def test_a_token_has_the_rights_of_its_console_cut_down_to_its_profile(director):
    text = new_token(director, name="ann")["text"]
    with director.client(token=text) as api:
        me = api.get("/me").json()
        assert (me["name"], me["role"]) == ("ann", "token")
        assert api.get("/status").status_code == 200
        assert api.get("/audit").status_code == 403
    text = new_token(director, name="admin", profile="figures")["text"]
    with director.client(token=text) as api:
        assert api.get("/me").json()["actions"] == ["metrics"]
        assert api.get(f"{director.url}/metrics").status_code == 200
        assert api.get("/status").status_code == 403
    text = new_token(director, name="prometheus", profile="figures")["text"]
    with director.client(token=text) as api:
        assert api.get(f"{director.url}/metrics").status_code == 200


def test_metrics_are_not_for_everybody(director):
    for who, status in (("nobody", 401), ("web1", 403), ("ann", 200)):
        with connection(director, who) as api:
            assert api.get(f"{director.url}/metrics").status_code == status


def test_a_token_ends_when_it_is_withdrawn(director):
    made = new_token(director, name="ann")
    with director.client(token=made["text"]) as api:
        assert api.get("/me").status_code == 200
        assert api.delete(f"/tokens/{made['token']['id']}").status_code == 200
        answer = api.get("/me")
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.json()["error_id"] == "not-authenticated"


def test_tokens_of_others_are_out_of_sight_and_reach(director):
    other = new_token(director, name="admin")["token"]["id"]
    with connection(director, "ann") as ann:
        assert {one["name"] for one in ann.get("/tokens").json()["items"]} <= {"ann"}
        assert ann.delete(f"/tokens/{other}").status_code == 403
    with connection(director, "admin") as admin:
        listed = admin.get("/tokens").json()["items"]
        assert other in {one["id"] for one in listed}
        assert all("text" not in one for one in listed)


def test_a_wrong_token_is_refused_even_beside_a_good_certificate(director):
    with connection(director, "admin") as admin:
        for scheme in ("Bearer wrong", "Basic YWRtaW46", "Bearer", "Bearer " + "x" * 10_000):
            answer = admin.get("/me", headers={"authorization": scheme})
            assert answer.status_code == 401


def test_a_token_of_a_console_that_is_gone_is_good_for_nothing(own_director):
    made = new_token(own_director, name="ann")
    before = own_director.configuration
    start, end = before.index("Console { Name = ann"), before.index("Where ACL = /srv/restore }")
    own_director.configure(before[:start] + before[end + len("Where ACL = /srv/restore }") :])
    with connection(own_director, "admin") as admin:
        assert admin.post("/reload").json() == {
            "loaded": True,
            "errors": [],
            "warnings": [],
            "restart_needed": [],
        }
    with own_director.client(token=made["text"]) as api:
        assert api.get("/me").status_code == 401
    with connection(own_director, "ann") as ann:
        assert ann.get("/me").status_code == 403


def test_a_revoked_certificate_is_good_for_nothing(own_director):
    with connection(own_director, "admin") as admin:
        assert admin.get("/me").status_code == 200
        own_director.house.authority.revoke("admin")
        # The list is checked again after a second.
        own_director.wait_for(lambda: admin.get("/me").status_code == 401)


def test_without_a_list_of_revoked_certificates_nobody_new_gets_in_and_status_says_why(
    own_director,
):
    text = new_token(own_director, name="ann")["text"]
    path = Path(os.fsdecode(own_director.house.director.revoked_path))
    good = path.read_bytes()
    path.unlink()

    def is_refused():
        with connection(own_director, "admin") as admin:
            answer = admin.get("/me")
        return answer.status_code == 401 and "revoked.pem" in answer.json()["message"]

    own_director.wait_for(is_refused)
    with own_director.client(token=text) as api:
        assert any("revoked.pem" in one for one in api.get("/status").json()["warnings"])
    path.write_bytes(good)
    own_director.wait_for(lambda: not is_refused())
    with own_director.client(token=text) as api:
        assert not any("revoked.pem" in one for one in api.get("/status").json()["warnings"])


def test_guessing_tokens_ends_soon(own_director):
    with own_director.client(token="guess") as api:
        answers = [api.get("/me").status_code for _ in range(WRONG_TOKENS + 3)]
    assert answers == [401] * WRONG_TOKENS + [429] * 3
    with own_director.client(token=new_token(own_director, name="ann")["text"]) as api:
        assert api.get("/me").status_code == 200
    with connection(own_director, "admin") as admin:
        assert admin.get("/me").status_code == 200
