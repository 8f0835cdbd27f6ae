"""Ways around the permissions of the director's API that were open once."""

import pytest
from sqlalchemy import update

from kit.director_server import new_token
from strongroom.director.catalog.database import open_catalog
from strongroom.director.catalog.tables import SNAPSHOTS


def enter(director, snapshot, **columns):
    catalog = open_catalog(f"sqlite:///{director.folder}/state/main.sqlite")
    with catalog.writing() as connection:
        wanted = update(SNAPSHOTS).where(SNAPSHOTS.c.id == snapshot.id)
        connection.execute(wanted.values(**columns))
    catalog.close()


def test_a_search_does_not_take_a_snapshot_of_no_job_for_those_of_every_job(own_director):
    made_by_hand, nightly, secret = own_director.snapshots
    enter(own_director, made_by_hand, job="", fileset="", pool="")
    enter(own_director, secret, client="web1", job="payroll", fileset="data", pool="long")
    with own_director.client("ann") as ann:
        assert ann.get(f"/snapshots/{secret.id}").status_code == 403
        found = ann.get("/files/search", params={"name": "sshd_config"}).json()["items"]
    assert {one["snapshot"] for one in found} == {made_by_hand.id, nightly.id}


@pytest.fixture
def limited(own_director):
    """Somebody with a token that ends in an hour and may look at runs only, and make tokens."""
    text = own_director.configuration + (
        "Profile { Name = looker; Command ACL = runs, token; Job ACL = *all*; Client ACL = *all*\n"
        "  FileSet ACL = *all*; Pool ACL = *all*; Storage ACL = *all* }\n"
    )
    own_director.configure(text)
    with own_director.client("admin") as admin:
        assert admin.post("/reload").status_code == 200
        token = new_token(admin, name="ann", profile="looker", lifetime_seconds=3600)
    with own_director.client(token=token) as api:
        assert "restore" not in api.get("/me").json()["actions"]
        yield api


@pytest.mark.parametrize(
    "more",
    [
        {"name": "ann", "lifetime_seconds": 60},
        {"name": "ann", "profile": "everything", "lifetime_seconds": 60},
        {"name": "ann", "profile": "looker", "lifetime_seconds": 0},
        {"name": "ann", "profile": "looker", "lifetime_seconds": 7200},
    ],
)
def test_a_token_makes_no_token_of_more_rights_or_a_longer_life(limited, more):
    answer = limited.post("/tokens", json=more)
    assert answer.status_code == 403, answer.text


def test_a_token_makes_tokens_of_its_own_rights(own_director, limited):
    text = new_token(limited, name="ann", profile="looker", lifetime_seconds=60)
    with own_director.client(token=text) as api:
        assert set(api.get("/me").json()["actions"]) == {"runs", "token"}


def test_the_pool_of_the_level_asked_for_must_be_allowed(own_director):
    configuration = own_director.configuration
    job = "Job { Name = nightly-web2; Job Defs = usual; Client = web2 "
    assert job in configuration
    own_director.configure(configuration.replace(job, job + "; Full Backup Pool = long "))
    with own_director.client("admin") as admin, own_director.client("ann") as ann:
        assert admin.post("/reload").status_code == 200
        assert ann.post("/runs", json={"job": "nightly-web2"}).status_code == 202
        full = {"job": "nightly-web2", "level": "full"}
        assert ann.post("/runs", json=full).status_code == 403
        assert ann.post("/runs", json={**full, "pool": "short"}).status_code == 202
        assert admin.post("/runs", json=full).status_code == 202
