"""Who may start a restore may see and end that very run; who may not starts none."""

from dataclasses import replace

import pytest

from kit.director_server import CONFIGURATION
from kit.simulated_agent import SimulatedAgent
from strongroom.director.catalog.database import open_catalog
from strongroom.director.catalog.runs import load_run
from strongroom.director.catalog.snapshots import add_snapshots, load_snapshot
from strongroom.net.control.messages import StartRestore
from strongroom.net.control.restore_orders import check_order

RESTORE_JOBS = """
Job { Name = put-back; Type = Restore; Messages = standard; Client = web1; FileSet = all
  Storage = vault; Pool = short; Where = /srv/restore }
Job { Name = put-elsewhere; Type = Restore; Messages = standard; Client = web1; FileSet = all
  Storage = vault; Pool = short; Where = /srv/restore }
"""


@pytest.fixture
def configured(own_director):
    """Have the director read its configuration with some of it replaced, and more."""

    def configure(ann_may="", jobs="", more=""):
        text = CONFIGURATION.replace(", run, cancel\n  Command ACL = estimate, token", ann_may)
        text = text.replace('"nightly-web.*", Restore', jobs or '"nightly-web.*"') + more
        own_director.configure(text)
        with own_director.client("admin") as admin:
            assert admin.post("/reload", json={}).json()["loaded"]
        return own_director

    return configure


def asked_for(api, director, **body):
    snapshot = director.snapshots[0].id
    return api.post("/restores", json={"snapshot": snapshot, "target": "/srv/restore/x", **body})


def test_an_own_restore_is_seen_and_ended_without_its_job_in_the_job_acl(configured):
    director = configured()
    with director.client("ann") as ann, director.client("admin") as admin:
        run = asked_for(ann, director).json()["id"]
        other = asked_for(admin, director).json()["id"]
        assert ann.get(f"/runs/{run}").json()["job"] == "Restore"
        assert ann.get(f"/runs/{run}/log").json()["items"]
        assert [one["id"] for one in ann.get("/runs").json()["items"]] == [run]
        for path in ("", "/log", "/events"):
            assert ann.get(f"/runs/{other}{path}").status_code == 403
        assert ann.post(f"/runs/{other}/cancel").status_code == 403
        assert ann.post(f"/runs/{run}/cancel").status_code == 202
        assert "event: end" in ann.get(f"/runs/{run}/events").text


def test_whoever_may_restore_needs_no_other_command_for_that_run(configured):
    director = configured()
    director.configure(
        director.configuration.replace(
            "status, clients, jobs, runs, log, watch, snapshots, browse, restore", "restore"
        )
    )
    with director.client("ann") as ann, director.client("admin") as admin:
        assert admin.post("/reload", json={}).json()["loaded"]
        run = asked_for(ann, director).json()["id"]
        assert ann.get("/runs").status_code == 403
        assert ann.get(f"/runs/{run}").status_code == 200
        assert ann.get(f"/runs/{run}/log").status_code == 200
        assert (
            ann.post(f"/runs/{run}/bandwidth", json={"maximum_bytes_per_second": 1}).status_code
            == 403
        )
        assert ann.post(f"/runs/{run}/cancel").status_code == 202
        assert ann.get(f"/runs/{run}/events").status_code == 200


def test_a_command_that_is_denied_by_name_is_denied_for_own_restores_too(configured):
    director = configured(ann_may=", !cancel")
    with director.client("ann") as ann, director.client("admin") as admin:
        run = asked_for(ann, director).json()["id"]
        answer = ann.post(f"/runs/{run}/cancel")
        assert answer.status_code == 403
        assert "`cancel`" in answer.json()["message"]
        assert admin.get(f"/runs/{run}").json()["state"] != "cancelled"


def test_a_restore_whose_job_is_not_allowed_is_not_started(configured):
    director = configured(more=RESTORE_JOBS)
    with director.client("ann") as ann, director.client("admin") as admin:
        for body in ({}, {"job": "put-back"}):
            answer = asked_for(ann, director, **body)
            assert answer.status_code == 403
            assert ("put-back" in answer.json()["message"]) is bool(body)
            assert "Job ACL" in answer.json()["message"]
        assert admin.get("/runs").json()["items"] == []


def test_of_several_restore_jobs_an_allowed_one_is_taken(configured):
    director = configured(jobs='"nightly-web.*", put-elsewhere', more=RESTORE_JOBS)
    with director.client("ann") as ann, director.client("admin") as admin:
        assert asked_for(ann, director).json()["job"] == "put-elsewhere"
        assert asked_for(ann, director, job="put-back").status_code == 403
        assert asked_for(admin, director).json()["job"] == "put-back"


@pytest.mark.parametrize(
    ("who", "entries", "sent"),
    [
        ("ann", "/srv/restore", (("/srv/restore",),)),
        ("ann", '"!/etc", *all*', (("!/etc", "*all*"),)),
        ("ann", "*all*", ()),
        ("admin", "/srv/restore", ()),
    ],
)
def test_the_agent_is_told_where_files_may_really_go(configured, who, entries, sent):
    director = configured()
    director.configure(
        director.configuration.replace("Where ACL = /srv/restore", f"Where ACL = {entries}")
    )
    with director.client(who) as api, director.client("admin") as admin:
        assert admin.post("/reload", json={}).json()["loaded"]
        with SimulatedAgent(director, "web1") as agent:
            run = asked_for(api, director).json()["id"]
            order = agent.expect(StartRestore)
            assert (order.run_id, order.where) == (run, sent)
            agent.started(run)
            agent.ended(run)


def sent_privileges(director, who, client="web1", **body):
    """What a client's agent is told to do with privileges; None: the restore is not allowed."""
    with director.client(who) as api, SimulatedAgent(director, client) as agent:
        answer = asked_for(api, director, client=client, **body)
        if answer.status_code == 403:
            assert "`keep-privileges`" in answer.json()["message"]
            return None
        order = agent.expect(StartRestore)
        assert check_order(order, director.house.director.trust, client) == "boss"
        agent.started(order.run_id)
        agent.ended(order.run_id)
        return order.options.keeps_privileges


def test_keeping_privileges_takes_a_right_of_its_own(configured):
    director = configured()
    assert sent_privileges(director, "ann") is False
    assert sent_privileges(director, "ann", keep_privileges=True) is None
    assert sent_privileges(director, "admin") is False
    assert sent_privileges(director, "admin", keep_privileges=True) is True
    assert sent_privileges(configured(ann_may=", keep-privileges"), "ann", keep_privileges=True)


def test_in_place_privileges_come_back_only_to_the_client_that_had_them(configured):
    director = configured()
    in_place = {"in_place": True, "target": ""}
    assert sent_privileges(director, "admin", **in_place) is True
    assert sent_privileges(director, "admin", client="web2", **in_place) is False
    assert sent_privileges(director, "admin", client="web2", keep_privileges=True, **in_place)


def test_a_restore_job_may_keep_privileges_for_those_who_have_the_right(configured):
    keeping = RESTORE_JOBS.replace("Name = put-back;", "Name = put-back; Keep Privileges = yes;")
    director = configured(jobs='"nightly-web.*", "put-.*"', more=keeping)
    assert sent_privileges(director, "admin", job="put-back") is True
    assert sent_privileges(director, "admin", job="put-back", keep_privileges=False) is False
    assert sent_privileges(director, "admin", job="put-elsewhere") is False
    assert sent_privileges(director, "ann", job="put-back") is None
    assert sent_privileges(director, "ann", job="put-back", keep_privileges=False) is False


@pytest.mark.parametrize(("who", "seen"), [("ann", ["short"]), ("admin", ["long", "short"])])
def test_a_copy_that_may_not_be_seen_takes_no_place_of_its_snapshot(configured, who, seen):
    director = configured()
    made = director.snapshots[0].id
    catalog = open_catalog(f"sqlite:///{director.folder}/state/main.sqlite")
    record = load_snapshot(catalog, made)
    pools = {f"{number:064x}": name for number, name in enumerate(("long", "short"))}
    copies = [replace(record, id=one, original=made, pool=name) for one, name in pools.items()]
    add_snapshots(catalog, copies)
    with director.client(who) as api:
        run = load_run(catalog, asked_for(api, director).json()["id"])
    assert sorted(pools[one] for one in run.request["copies"]) == seen
