"""Somebody keeps a token after the Console that it was made for has been taken away."""

import pytest

from kit.api_routes import every_route
from kit.director_server import new_token

EXTRA = """
Console { Name = bob; Password = x; Profile = everything }
User { Name = carol; Profile = everything }
"""
CONSOLE, USER = "Console { Name = bob; Password = x;", "User { Name = carol;"


@pytest.fixture
def director(asked_director):
    reload(asked_director, asked_director.configuration + EXTRA)
    return asked_director


def reload(director, configuration):
    director.configure(configuration)
    with director.client("admin") as admin:
        assert admin.post("/reload").json()["loaded"]


def refused_everywhere(director, token):
    """Whether every route that is not for anybody refuses a token."""
    with director.client() as nobody:
        described = nobody.get("/openapi.json").json()
    with director.client(token=token) as api:
        routes = [one for one in every_route(described) if not one.is_public]
        found = {f"{one.method} {one.path}": one.ask(api).status_code for one in routes}
    assert len(found) > 25
    # Too many wrong tokens of one address are answered 429.
    assert set(found.values()) <= {401, 403, 429}, found
    return True


@pytest.mark.parametrize("profile", ["", "everything", "figures"])
@pytest.mark.parametrize(
    ("name", "resource", "instead"),
    [
        ("bob", CONSOLE, "Console { Name = robert; Password = x;"),
        ("bob", CONSOLE, "User { Name = bob;"),
        ("carol", USER, "User { Name = caroline;"),
        ("carol", USER, "Console { Name = carol; Password = x;"),
    ],
)
def test_a_token_ends_with_its_console_and_stays_ended(director, name, resource, instead, profile):
    configuration = director.configuration
    with director.client("admin") as admin:
        token = new_token(admin, name=name, profile=profile)
        kept = new_token(admin, name="prometheus", profile="figures")
    with director.client(token=token) as api:
        assert api.get(director.url + "/metrics").status_code == 200
    reload(director, configuration.replace(resource, instead))
    assert refused_everywhere(director, token)
    # Nor does another resource of that name bring it back to life.
    reload(director, configuration)
    assert refused_everywhere(director, token)
    with director.client("admin") as admin:
        assert {one["name"] for one in admin.get("/tokens").json()["items"]} == {"prometheus"}
        entries = admin.get("/audit").json()["items"]
        assert any("withdraw" in one["object"] and name in one["object"] for one in entries)
    with director.client(token=kept) as api:
        assert api.get(director.url + "/metrics").status_code == 200


def test_a_token_ends_with_its_profile(director):
    with director.client("admin") as admin:
        token = new_token(admin, name="prometheus", profile="figures")
    configuration = director.configuration
    reload(director, configuration.replace("Name = figures", "Name = numbers"))
    assert refused_everywhere(director, token)
    reload(director, configuration)
    assert refused_everywhere(director, token)


def test_a_token_of_no_console_gets_no_rights_from_one_that_is_made_later(director):
    with director.client("admin") as admin:
        token = new_token(admin, name="dave", profile="figures")
    reload(director, director.configuration + CONSOLE.replace("bob", "dave") + " Password = x;"
           " Profile = everything }")  # fmt: skip
    with director.client(token=token) as api:
        assert api.get("/me").json()["actions"] == ["metrics"]
        assert api.post("/tokens", json={"name": "dave"}).status_code == 403


@pytest.mark.parametrize(
    "more",
    [
        {"name": "admin", "lifetime_seconds": 60},
        {"name": "another", "profile": "everything", "lifetime_seconds": 60},
        {"name": "bob", "lifetime_seconds": 0},
        {"name": "bob", "lifetime_seconds": 7200},
    ],
)
def test_a_token_with_all_rights_makes_none_that_outlives_it(director, more):
    with director.client("admin") as admin:
        token = new_token(admin, name="bob", lifetime_seconds=3600)
    with director.client(token=token) as api:
        assert api.post("/tokens", json=more).status_code == 403
        new_token(api, name="bob", profile="figures", lifetime_seconds=60)


@pytest.mark.parametrize("profile", ["", "everything"])
def test_nobody_gives_a_token_more_than_the_own_rights(director, profile):
    with director.client("ann") as ann:
        own = set(ann.get("/me").json()["actions"])
        for name in ("admin", "bob", "nobody-yet"):
            answer = ann.post("/tokens", json={"name": name, "profile": profile})
            assert answer.status_code == 403
        token = new_token(ann, name="ann", profile=profile)
    with director.client(token=token) as api:
        assert set(api.get("/me").json()["actions"]) == own
        assert api.get("/clients/db1").status_code == 403
        assert api.get("/audit").status_code == 403
