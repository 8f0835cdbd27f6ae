"""A console user who may see one client looks for the names of the others, in every answer."""

import re

import pytest

from kit.api_routes import API, every_route
from kit.director_in_process import START_NS, TestDirector, client, in_loop, job
from kit.simulated_agent import SimulatedAgent
from kit.virtual_time import VirtualTime
from strongroom.net.control.messages import StartBackup

# Hexadecimal ids may hold "db1" too.
OTHERS = re.compile(r"web2|(?<![0-9a-fA-F])db1(?![0-9a-fA-F])")
# One may use everything, but of the clients one only; and `few` moreover few jobs.
PEOPLE = """
Console { Name = one; Password = x; Client ACL = web1
  Command ACL = *all*; Job ACL = *all*; Storage ACL = *all*; Schedule ACL = *all*
  Pool ACL = *all*; FileSet ACL = *all*; Where ACL = *all* }
Console { Name = few; Password = x; Client ACL = web1
  Command ACL = *all*; Job ACL = nightly-web1, put-back, usual-web1; Storage ACL = vault
  Pool ACL = short; FileSet ACL = all; Where ACL = /srv/restore }
Job { Name = odd; Job Defs = usual; Client = db1 }
Job { Name = put-back; Type = Restore; Job Defs = usual; Client = db1; Where = /srv/restore }
Job { Name = housekeeping; Type = Admin; Job Defs = usual; Client = web1
  RunScript { Runs When = Before; Runs On Client = no; Console = "expire runs 400" } }
Job { Name = urgent-db1; Job Defs = usual; Client = db1; Priority = 5; Schedule = nights }
Job { Name = usual-web1; Job Defs = usual; Client = web1; Run = "urgent-db1" }
"""
BROKEN = "Job { Name = broken; Client = db1; Level = No; FileSet = web2 }\n"
LISTED = ("audit", "clients", "config", "jobs", "runs", "snapshots", "status")


def started(api, **body):
    answer = api.post("/runs", json=body)
    assert answer.status_code == 202, answer.text
    return answer.json()["id"]


def done(api, agent, **body):
    """A run of a job that its agent has done; its id."""
    run_id = started(api, **body)
    assert agent.expect(StartBackup).run_id == run_id
    agent.started(run_id)
    agent.log(run_id, f"said by the agent of run {run_id}")
    agent.ended(run_id, summary={"files": 1})
    return run_id


@pytest.fixture
def director(asked_director):
    asked_director.configure(asked_director.configuration + PEOPLE)
    with asked_director.client("admin") as admin:
        assert admin.post("/reload").json()["loaded"]
    return asked_director


@pytest.fixture
def admin(director):
    with director.client("admin") as api:
        yield api


@pytest.fixture
def ids(director, admin):
    """Ids of runs of all kinds and clients, among them some that concern two clients."""
    found = {}
    with (
        SimulatedAgent(director, "web1") as web1,
        SimulatedAgent(director, "db1") as db1,
        SimulatedAgent(director, "web2"),
    ):
        found["own"] = done(admin, web1, job="nightly-web1")
        found["other"] = done(admin, db1, job="nightly-db1")
        # A job of web1, this time of db1.
        found["moved"] = done(admin, db1, job="nightly-web1", client="db1")
        found["housekeeping"] = started(admin, job="housekeeping")
        for run_id in found.values():
            director.wait_for(lambda run_id=run_id: has_ended(admin, run_id))
    # What is db1's goes to web1.
    restore = {"snapshot": director.snapshots[-1].id, "client": "web1", "target": "/srv/restore/x"}
    answer = admin.post("/restores", json={**restore, "job": "put-back"})
    assert answer.status_code == 202, answer.text
    found["restore"] = answer.json()["id"]
    # No one is connected, so these wait.
    found["cancelled"] = started(admin, job="urgent-db1")
    found["waiting"] = started(admin, job="usual-web1")
    admin.post(f"/runs/{found['cancelled']}/cancel")
    admin.post("/tokens", json={"name": "admin"})
    with director.client() as nobody:
        wrong = {"token": "srt1_guessed", "csr": "x" * 64, "name": "web2"}
        assert nobody.post("/enrol", json=wrong).status_code == 403
    with director.client("db1", "agent") as agent:
        agent.post("/renew", json={"csr": "x" * 64})
        agent.get("/status")
    return found


def has_ended(api, run_id):
    return api.get(f"/runs/{run_id}").json()["state"] in ("done", "failed")


def answers(director, api, who, ids):
    """What each route answers, asked in every way that names no one else."""
    snapshots = [director.snapshots[0].id, director.snapshots[-1].id]
    values = {
        "run_id": list(ids.values()),
        "snapshot_id": snapshots,
        "name": ["web1", "nightly-web1", "usual-web1", "odd", "put-back", "vault", "all"],
        "kind": ["client", "job", "jobdefs", "storage", "fileset", "console", "director"],
    }
    bodies = {
        "POST /runs": [{"job": "nightly-web1"}, {"job": "odd"}, {"job": "housekeeping"}],
        "POST /estimates": [{"job": "nightly-web1"}, {"job": "odd"}],
        "POST /restores": [
            {"snapshot": snapshot, "target": "/srv/restore/y", "client": name}
            for snapshot in snapshots
            for name in ("", "web1")
        ],
        "POST /tokens": [{"name": who}, {"name": "admin"}],
    }
    described = api.get("/openapi.json").json()
    for route in every_route(described, values, bodies):
        # The events of a run that waits continue forever.
        waits = any(ids[name] in route.path for name in ("waiting", "restore"))
        if route.pattern.endswith("/events") and waits:
            continue
        yield route, route.ask(api)


@pytest.mark.parametrize("who", ["one", "few"])
def test_no_answer_names_a_client_that_one_may_not_see(director, admin, ids, who):
    seen = set()
    with director.client(who) as api:
        own = {one["id"] for one in api.get("/runs").json()["items"]}
        assert {ids["own"], ids["waiting"]} <= own
        assert not own & {ids[name] for name in ("other", "moved", "housekeeping", "restore")}
        assert {one["name"] for one in api.get("/clients").json()["items"]} == {"web1"}
        assert api.get("/status").json()["clients"] == 1
        assert (
            'strongroom_agent_connected{client="web1"}' in api.get(director.url + "/metrics").text
        )
        entries = api.get("/audit", params={"limit": 1000}).json()["items"]
        assert any((one["who"], one["object"]) == ("admin", "nightly-web1") for one in entries)
        # The second time with a configuration that cannot be read.
        for text in (director.configuration, director.configuration + BROKEN):
            director.configure(text)
            for route, answer in answers(director, api, who, ids):
                said = f"{answer.text} {answer.headers}"
                assert not OTHERS.search(said), (route, answer.status_code, said)
                if answer.status_code < 300:
                    seen.add(route.pattern)
    assert {f"{API}/{name}" for name in LISTED} <= seen
    # Others are named in what admin gets, so there was something to find.
    naming = {
        route.pattern
        for route, answer in answers(director, admin, "admin", ids)
        if OTHERS.search(answer.text)
    }
    listed = {f"{API}/{name}" for name in (*LISTED, "reload")}
    assert {"/metrics", *listed} <= naming


def test_the_audit_log_comes_in_full_pages_of_what_one_may_see(director, admin, ids):
    for _ in range(5):
        admin.post("/runs", json={"job": "odd"})
        admin.post("/runs", json={"job": "nightly-web1"})
    with director.client("one") as api:
        whole = api.get("/audit", params={"limit": 1000}).json()
        assert whole["next"] is None
        paged, after = [], ""
        while after is not None:
            page = api.get("/audit", params={"limit": 2, "after": after}).json()
            assert len(page["items"]) == 2 or page["next"] is None
            paged += page["items"]
            after = page["next"]
    assert paged == whole["items"]
    started = {one["object"] for one in paged if one["action"] == "run"}
    assert started == {"nightly-web1", "usual-web1", "housekeeping"}
    assert len(admin.get("/audit", params={"limit": 1000}).json()["items"]) > len(paged)


def test_the_runs_of_others_are_not_in_sums_either(director, admin, ids):
    def counted(api):
        lines = api.get(director.url + "/metrics").text.splitlines()
        names = ("strongroom_runs{", "strongroom_director_active_runs{")
        return [sum(float(one.split()[-1]) for one in lines if one.startswith(n)) for n in names]

    with director.client("one") as api:
        assert counted(api) == [4.0, 2.0]
    assert counted(admin) == [7.0, 2.0]
    admin.post("/runs", json={"job": "odd"})
    with director.client("one") as api:
        assert counted(api) == [4.0, 2.0]
    assert counted(admin) == [8.0, 3.0]


@pytest.fixture
def warned(tmp_path, monkeypatch):
    made = TestDirector(tmp_path, VirtualTime(monkeypatch, START_NS))
    nights = "Schedule { Name = nights; Run = Full daily at 23:10; }\n"
    jobs = [job(f"nightly-{name}", name, "Schedule = nights") for name in ("web1", "db1")]
    made.configure("".join((client("web1"), client("db1"), nights, *jobs)))
    return made


@in_loop
async def test_a_warning_about_the_job_of_another_is_not_shown(warned):
    director = warned
    await director.open()
    await director.go()
    director.time.jump(-3 * 3600)
    await director.go()
    queries = director.service.queries
    whole = " ".join((await queries.status()).warnings)
    assert "job nightly-web1" in whole
    assert "job nightly-db1" in whole
    for denied in (("client", "db1"), ("job", "nightly-db1")):
        part = " ".join((await queries.status(lambda *asked, d=denied: asked != d)).warnings)
        assert "job nightly-web1" in part
        assert "db1" not in part
    await director.close()


@in_loop
async def test_the_reason_why_a_run_waits_names_no_job_of_another(tmp_path, monkeypatch):
    director = TestDirector(tmp_path, VirtualTime(monkeypatch, START_NS))
    # Housekeeping of the storage meets the runs of all clients.
    tidy = job("tidy-db1", "db1", "Priority = 5", kind="Admin")
    jobs = job("nightly-web1") + job("hourly-web1") + tidy
    await director.with_agent(client("web1") + client("db1") + jobs)
    runs = await director.start("nightly-web1")
    waits = await director.start("tidy-db1")
    held = await director.start("hourly-web1")
    assert (runs.state, waits.state, held.state) == ("running", "queued", "queued")
    assert (runs.id[:8] in waits.reason, "nightly" in waits.reason) == (True, False)
    assert (waits.id[:8] in held.reason, "tidy" in held.reason) == (True, False)
    await director.close()
