"""A stream of events ends when its reader may no longer read it, and says why."""

import json

import pytest


def queued(admin):
    answer = admin.post("/runs", json={"job": "nightly-web1"})
    assert answer.status_code == 202, answer.text
    return answer.json()["id"]


def last_event(api, run_id, end):
    """The last event of a stream as (type, data); `end` is called when it has begun."""
    last = ("", {})
    with api.stream("GET", f"/runs/{run_id}/events") as answer:
        assert answer.status_code == 200, answer.read()
        for line in answer.iter_lines():
            if line.startswith("event: "):
                last = (line[7:], {})
                if end is not None:
                    end()
                    end = None
            elif line.startswith("data: "):
                last = (last[0], json.loads(line[6:]))
    return last


def test_a_withdrawn_token_ends_its_streams(own_director, admin):
    run = queued(admin)
    made = admin.post("/tokens", json={"name": "ann"}).json()

    def withdraw():
        assert admin.delete(f"/tokens/{made['token']['id']}").status_code == 200

    with own_director.client(token=made["text"]) as api:
        kind, said = last_event(api, run, withdraw)
    assert kind == "denied"
    assert said["error_id"] == "not-authenticated"


def test_a_revoked_certificate_ends_its_streams(own_director, admin):
    run = queued(admin)
    with own_director.client("ann") as api:
        kind, said = last_event(api, run, lambda: own_director.house.authority.revoke("ann"))
    assert kind == "denied"
    assert said["error_id"] == "not-authenticated"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ('"nightly-web.*", Restore', "nightly-web2", "of a job"),
        ("log, watch,", "log, !watch,", "`watch`"),
        ("Console { Name = ann;", "Console { Name = anna;", "no Console resource 'ann'"),
    ],
    ids=["job", "command", "console"],
)
def test_rights_that_a_reload_takes_end_streams(own_director, admin, before, after, told):
    run = queued(admin)

    def reduce():
        assert before in own_director.configuration
        own_director.configure(own_director.configuration.replace(before, after))
        assert admin.post("/reload", json={}).json()["loaded"]

    with own_director.client("ann") as api:
        kind, said = last_event(api, run, reduce)
    assert kind == "denied"
    assert said["error_id"] == "not-permitted"
    assert told in said["message"]
    denials = admin.get("/audit", params={"who": "ann"}).json()["items"]
    assert (denials[0]["action"], denials[0]["result"]) == ("denied", "not-permitted")


def test_streams_of_those_who_keep_their_rights_go_on(own_director, admin):
    run = queued(admin)

    def reload_and_cancel():
        assert admin.post("/reload", json={}).json()["loaded"]
        assert admin.post(f"/runs/{run}/cancel").status_code == 202

    with own_director.client("ann") as api:
        assert last_event(api, run, reload_and_cancel) == ("end", {})
