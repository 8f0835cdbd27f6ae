"""Looking into snapshots and restoring from them, through the API."""

import base64
import dataclasses

import pytest

from kit.simulated_agent import SimulatedAgent
from strongroom.director.catalog.database import open_catalog
from strongroom.director.catalog.snapshots import add_snapshots, load_snapshot
from strongroom.engine.repository.ticket_objects import fetch_ticket
from strongroom.engine.stores.local import LocalStore
from strongroom.net.control.messages import StartRestore


@pytest.fixture
def admin(director):
    with director.client("admin") as api:
        yield api


def entries(api, snapshot, path, **query):
    answer = api.get(f"/snapshots/{snapshot.id}/files", params={"path": path, **query})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_directory_is_listed_in_pages(director, admin):
    snapshot, tree = director.snapshots[0], str(director.tree)
    whole = entries(admin, snapshot, f"{tree}/home/ann")
    assert [one["path"] for one in whole["items"]] == [
        f"{tree}/home/ann/Pictures", f"{tree}/home/ann/letter.odt",
    ]  # fmt: skip
    assert [one["kind"] for one in whole["items"]] == ["directory", "file"]
    assert whole["next"] is None
    first = entries(admin, snapshot, f"{tree}/home/ann", limit=1)
    rest = entries(admin, snapshot, f"{tree}/home/ann", limit=1, after=first["next"])
    assert first["items"] + rest["items"] == whole["items"]


def test_one_can_go_down_from_the_root(director, admin):
    path = "/"
    for part in director.tree.parts[1:]:
        found = {one["path"] for one in entries(admin, director.snapshots[0], path)["items"]}
        path = path.rstrip("/") + "/" + part
        assert path in found


def test_a_name_that_is_no_utf8_is_listed_and_can_be_asked_for(director, admin):
    snapshot, tree = director.snapshots[0], str(director.tree)
    names = [one["path"] for one in entries(admin, snapshot, f"{tree}/home")["items"]]
    odd = next(name for name in names if isinstance(name, dict))
    assert base64.b64decode(odd["base64"]) == f"{tree}/home/".encode() + b"\xfe-not-utf8"
    answer = admin.get(
        f"/snapshots/{snapshot.id}/files", params={"path_base64": odd["base64"]}
    ).json()
    assert [one["path"] for one in answer["items"]] == [odd]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"path": "/there/is/none"}, 404),
        ({"path_base64": "%%%"}, 422),
        ({"path": "/a\0b"}, 422),
        ({"after": "%%%"}, 422),
        ({"limit": 0}, 422),
        ({"limit": 1001}, 422),
    ],
)
def test_what_cannot_be_listed_is_told(director, admin, query, status):
    answer = admin.get(f"/snapshots/{director.snapshots[0].id}/files", params=query)
    assert answer.status_code == status
    assert answer.json()["message"]


def test_files_are_found_by_name(director, admin):
    found = admin.get("/files/search", params={"name": "*.JPG", "ignore_case": True}).json()
    assert len(found["items"]) == 4
    found = admin.get("/files/search", params={"name": "letter.odt", "client": "web1"}).json()
    assert [one["snapshot"] for one in found["items"]] == [director.snapshots[0].id]
    found = admin.get("/files/search", params={"name": "*", "limit": 3}).json()
    assert len(found["items"]) == 3


def test_a_search_leaves_out_what_is_not_in_the_repository_and_says_so(own_director, caplog):
    ghost, tree = own_director.snapshots[0], str(own_director.tree)
    (own_director.folder / "repository" / "snapshots" / ghost.id).unlink()
    with own_director.client("admin") as admin:
        found = admin.get("/files/search", params={"name": "cat.jpg"}).json()
        assert [(one["snapshot"], one["path"]) for one in found["items"]] == [
            (own_director.snapshots[1].id, f"{tree}/home/ann/Pictures/cat.jpg")
        ]
        (warning,) = found["warnings"]
        assert warning.startswith(f"snapshot {ghost.id[:8]} of web1 was left out: ")
        assert ghost.id[:8] in caplog.text
        whole = admin.get("/files/search", params={"name": "cat.jpg", "client": "db1"}).json()
        assert whole["warnings"] == []


def test_a_search_goes_on_where_one_of_two_storages_is_away(own_director, caplog):
    good = own_director.configuration
    own_director.configure(
        good
        + """Storage { Name = offsite; Address = 127.0.0.1; Password = x; Device = disk
          Media Type = File; Repository = "FOLDER/not-mounted" }"""
    )
    catalog = open_catalog(f"sqlite:///{own_director.folder}/state/main.sqlite")
    mine = load_snapshot(catalog, own_director.snapshots[1].id)
    away = dataclasses.replace(mine, id="c0" * 32, storage="offsite", client="web2")
    add_snapshots(catalog, [away])
    catalog.close()
    with own_director.client("admin") as admin, own_director.client("ann") as ann:
        assert admin.post("/reload").json()["loaded"]
        for api in (admin, ann):
            found = api.get("/files/search", params={"name": "cat.jpg"}).json()
            assert {one["snapshot"] for one in found["items"]} == {
                one.id for one in own_director.snapshots[:2]
            }
            (warning,) = found["warnings"]
            assert "left out: " in warning
            nothing = api.get("/files/search", params={"name": "cat.jpg", "client": "web2"})
            assert nothing.json()["error_id"] == "repository-not-found"


def test_a_restore_goes_to_the_agent_with_a_ticket_for_just_this_snapshot(own_director):
    snapshot, tree = own_director.snapshots[0], str(own_director.tree)
    odd = f"{tree}/home/".encode() + b"\xfe-not-utf8"
    body = {
        "snapshot": snapshot.id[:12],
        "paths": [f"{tree}/etc", {"base64": base64.b64encode(odd).decode()}],
        "client": "web2",
        "target": "/srv/restore//x/",
        "overwrite": "never",
    }
    with SimulatedAgent(own_director, "web2") as agent, own_director.client("admin") as admin:
        answer = admin.post("/restores", json=body)
        assert answer.status_code == 202, answer.text
        order = agent.expect(StartRestore)
        assert order.run_id == answer.json()["id"]
        assert order.target == "/srv/restore/x"
        assert order.grant
        assert fetch_ticket(LocalStore(own_director.folder / "repository"), order.ticket)
        agent.started(order.run_id)
        agent.ended(order.run_id)
        own_director.wait_for(
            lambda: admin.get(f"/runs/{order.run_id}").json()["state"] in ("done", "failed")
        )


@pytest.mark.parametrize(
    ("asked", "directive", "overwrite"),
    [
        ({}, "Never", "never"),
        ({"overwrite": "always"}, "Never", "always"),
        ({}, "IfNewer", "if-newer"),
    ],
)
def test_replace_of_the_restore_job_holds_unless_somebody_says_otherwise(
    own_director, asked, directive, overwrite
):
    own_director.configure(
        own_director.configuration
        + f"""Job {{ Name = put-back; Type = Restore; Messages = standard; Client = web1
          FileSet = all; Storage = vault; Pool = short; Replace = {directive} }}"""
    )
    body = {"snapshot": own_director.snapshots[0].id, "target": "/srv/restore", **asked}
    with SimulatedAgent(own_director, "web1") as agent, own_director.client("admin") as admin:
        assert admin.post("/reload").json()["loaded"]
        assert admin.post("/restores", json=body).status_code == 202
        order = agent.expect(StartRestore)
        assert order.options.overwrite == overwrite
        agent.started(order.run_id)
        agent.ended(order.run_id)


def test_a_subpath_goes_to_the_agent_as_one(own_director):
    snapshot, place = own_director.snapshots[0].id, f"{own_director.tree}/etc"
    body = {"snapshot": snapshot, "subpath": place, "target": "/srv/restore", "dry_run": True}
    with SimulatedAgent(own_director, "web1") as agent, own_director.client("admin") as admin:
        assert admin.post("/restores", json=body).status_code == 202
        options = agent.expect(StartRestore).options
        assert (options.subpath, options.includes) == (place.strip("/"), ())
        assert options.dry_run
        assert options.tells_steps
        both = admin.post("/restores", json={**body, "paths": [place]})
        assert both.status_code == 422
        up = admin.post("/restores", json={**body, "subpath": "/etc/../root"})
        assert up.status_code == 422


def test_links_in_a_snapshot_are_followed_for_browsing_and_restores(own_director):
    snapshot, home = own_director.snapshots[0].id, f"{own_director.tree}/home"
    with SimulatedAgent(own_director, "web1") as agent, own_director.client("admin") as admin:
        found = entries(admin, own_director.snapshots[0], f"{home}/people/Pictures")["items"]
        assert f"{home}/ann/Pictures/cat.jpg" in [one["path"] for one in found]
        body = {"snapshot": snapshot, "subpath": f"{home}/people/Pictures", "target": "/srv/x"}
        assert admin.post("/restores", json=body).status_code == 202
        order = agent.expect(StartRestore)
        assert order.options.subpath == f"{home}/ann/Pictures".strip("/")


def test_a_restore_of_what_is_not_there_fails_and_says_so(own_director):
    body = {"snapshot": own_director.snapshots[0].id, "paths": ["/none"], "target": "/x"}
    with SimulatedAgent(own_director, "web1"), own_director.client("admin") as admin:
        run = admin.post("/restores", json=body).json()
        own_director.wait_for(lambda: admin.get(f"/runs/{run['id']}").json()["state"] == "failed")
        ended = admin.get(f"/runs/{run['id']}").json()
    assert ended["error_id"] == "path-not-found"
    assert "/none" in ended["error"]


def test_minimum_retention_cannot_be_lifted_through_the_api(director):
    kept = director.snapshots[-1]
    with director.client("boss", "director") as api:
        answer = api.delete(f"/snapshots/{kept.id}")
        assert answer.status_code == 409
        assert "Minimum Retention" in answer.json()["message"]
        assert api.get(f"/snapshots/{kept.id}").json()["removed"] is None


def test_forgetting_takes_the_right_to(own_director):
    snapshot = own_director.snapshots[0]
    with own_director.client("ann") as ann:
        assert ann.delete(f"/snapshots/{snapshot.id}").status_code == 403
    with own_director.client("admin") as admin:
        assert admin.delete(f"/snapshots/{snapshot.id}").status_code == 200
        left = {one["id"] for one in admin.get("/snapshots").json()["items"]}
        assert snapshot.id not in left
        listed = admin.get("/snapshots", params={"removed": True}).json()["items"]
        assert snapshot.id in {one["id"] for one in listed}
