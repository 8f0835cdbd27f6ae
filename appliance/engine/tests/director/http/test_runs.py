"""Runs through the API: from the request to the agent and back, and the stream of events."""

import json
import threading

import pytest

from kit.simulated_agent import SimulatedAgent
from strongroom.net.control.messages import Cancel, SetBandwidth, StartBackup, StartEstimate


@pytest.fixture
def web1(own_director):
    with SimulatedAgent(own_director, "web1") as agent:
        yield agent


def events_of(api, run_id, **options):
    """All events of a stream, as (type, data)."""
    found = []
    with api.stream("GET", f"/runs/{run_id}/events", **options) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        kind = ""
        for line in answer.iter_lines():
            if line.startswith("event: "):
                kind = line[7:]
            elif line.startswith("data: "):
                found.append((kind, json.loads(line[6:])))
    return found


def start(api, **body):
    answer = api.post("/runs", json={"job": "nightly-web1", **body})
    assert answer.status_code == 202, answer.text
    return answer.json()


def test_a_run_goes_to_its_agent_and_what_it_reports_comes_back(own_director, admin, web1):
    run = start(admin, level="full")
    order = web1.expect(StartBackup)
    assert (order.run_id, order.level, order.fileset.name) == (run["id"], "full", "all")
    web1.started(run["id"])
    seen = []
    watching = threading.Thread(target=lambda: seen.extend(events_of(admin, run["id"])))
    watching.start()
    for number in range(3):
        web1.log(run["id"], f"line {number}")
    web1.progress(run["id"], files=7, bytes=4096)
    web1.ended(run["id"], summary={"files": 9}, security={"mode": "tls"})
    watching.join(30)
    assert not watching.is_alive()
    assert seen[0][0] == "state"
    assert seen[-1] == ("end", {})
    told = [data["line"]["text"] for kind, data in seen if kind == "log"]
    assert [text for text in told if text.startswith("line ")] == ["line 0", "line 1", "line 2"]
    states = [data["run"]["state"] for kind, data in seen if kind == "state"]
    assert states[-1] in ("done", "incomplete", "failed")
    listed = admin.get(f"/runs/{run['id'][:8]}").json()
    assert listed["state"] == states[-1]
    assert listed["security"] == {"mode": "tls"}
    assert listed["requested_by"] == "operator admin"


def test_a_stream_that_is_taken_up_again_misses_no_line_and_repeats_none(admin, web1):
    run = start(admin)
    web1.expect(StartBackup)
    web1.started(run["id"])
    for number in range(10):
        web1.log(run["id"], f"line {number}")
    web1.ended(run["id"], "failed", error="no", error_id="store")
    everything = [one for kind, one in events_of(admin, run["id"]) if kind == "log"]
    middle = everything[len(everything) // 2]["line"]["sequence"]
    rest = [one for one in everything if one["line"]["sequence"] > middle]
    by_query = events_of(admin, run["id"], params={"after": middle})
    by_header = events_of(admin, run["id"], headers={"last-event-id": str(middle)})
    assert [one for kind, one in by_query if kind == "log"] == rest
    assert [one for kind, one in by_header if kind == "log"] == rest
    log = admin.get(f"/runs/{run['id']}/log").json()["items"]
    assert log == [one["line"] for one in everything]
    page = admin.get(f"/runs/{run['id']}/log", params={"limit": 2}).json()
    assert page["items"] == log[:2]
    page = admin.get(f"/runs/{run['id']}/log", params={"after": page["next"]}).json()
    assert page["items"] == log[2:]


def test_cancel_and_bandwidth_reach_the_agent(admin, web1):
    run = start(admin)
    web1.expect(StartBackup)
    web1.started(run["id"])
    answer = admin.post(f"/runs/{run['id']}/bandwidth", json={"maximum_bytes_per_second": 5})
    assert answer.status_code == 202, answer.text
    assert web1.expect(SetBandwidth).maximum_bytes_per_second == 5
    assert admin.post(f"/runs/{run['id']}/cancel").status_code == 202
    assert web1.expect(Cancel).run_id == run["id"]
    web1.ended(run["id"], "cancelled")
    assert events_of(admin, run["id"])[-1] == ("end", {})
    assert admin.get(f"/runs/{run['id']}").json()["state"] == "cancelled"
    assert admin.post(f"/runs/{run['id']}/cancel").status_code == 409


def test_an_estimate_is_a_run_with_a_summary(admin, web1):
    answer = admin.post("/estimates", json={"job": "nightly-web1", "listing": True})
    assert answer.status_code == 202, answer.text
    order = web1.expect(StartEstimate)
    assert order.listing
    web1.started(order.run_id)
    web1.ended(order.run_id, summary={"files": 3})
    assert events_of(admin, order.run_id)[-1] == ("end", {})
    found = admin.get(f"/runs/{order.run_id}").json()
    assert (found["kind"], found["state"], found["summary"]["files"]) == ("estimate", "done", 3)


def test_runs_are_found_by_what_they_are_of(admin, web1):
    run = start(admin)
    other = admin.post("/runs", json={"job": "nightly-db1"}).json()
    web1.expect(StartBackup)

    def ids(**query):
        answer = admin.get("/runs", params=query)
        assert answer.status_code == 200, answer.text
        return {one["id"] for one in answer.json()["items"]}

    assert ids() == {run["id"], other["id"]}
    assert ids(client="db1") == {other["id"]}
    assert ids(job="nightly-web1") == {run["id"]}
    assert ids(kind="restore") == set()
    assert ids(state=["done", "failed"]) == set()
    assert ids(state=["queued", "waiting", "running"]) == {run["id"], other["id"]}


def test_a_client_is_shown_as_connected_while_it_is(own_director, admin):
    assert not admin.get("/clients/web1").json()["connected"]
    with SimulatedAgent(own_director, "web1"):
        told = admin.get("/clients/web1").json()
        assert told["connected"]
        assert told["version"] == "0.0.1"
        assert told["certificate_serial"] in ("", own_director.identity("web1", "agent").serial)
    own_director.wait_for(lambda: not admin.get("/clients/web1").json()["connected"])


def test_stopping_the_director_ends_streams_and_nothing_hangs(own_director):
    with own_director.client("admin") as admin:
        run = start(admin, job="nightly-db1")
        with admin.stream("GET", f"/runs/{run['id']}/events") as answer:
            lines = answer.iter_lines()
            assert next(lines) == "event: state"
            own_director.stop()
            assert "event: end" not in list(lines)
