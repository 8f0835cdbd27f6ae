"""Lists of jobs and clients are whole, or in parts where a caller asks for them."""

import pytest

from strongroom.director.http.bodies import page_of

JOBS = ["nightly-db1", "nightly-web1", "nightly-web2"]


def pages(api, path, limit, **query):
    """The items of each page."""
    found, after = [], None
    while True:
        given = {**query, "limit": limit} | ({} if after is None else {"after": after})
        answer = api.get(path, params=given)
        assert answer.status_code == 200, answer.text
        found.append(answer.json()["items"])
        after = answer.json()["next"]
        if after is None:
            return found


@pytest.mark.parametrize("path", ["/jobs", "/clients"])
@pytest.mark.parametrize("who", ["admin", "ann"])
def test_parts_make_up_the_whole_for_everyone(director, path, who):
    with director.client(who) as api:
        whole = api.get(path).json()
        assert whole["next"] is None
        names = [one["name"] for one in whole["items"]]
        assert len(names) == {"admin": 3, "ann": 2}[who]
        assert names == sorted(names)
        for limit in (1, 2, 3, 1000):
            parts = pages(api, path, limit)
            assert [one["name"] for part in parts for one in part] == names
            assert all(len(part) == limit for part in parts[:-1])
        first = api.get(path, params={"limit": 1}).json()["next"]
        assert api.get(path, params={"after": first}).json()["items"] == whole["items"][1:]
        end = b"~".hex()
        assert api.get(path, params={"after": end, "limit": 2}).json() == {
            "items": [],
            "next": None,
        }
        for wrong in ("x", "abc", "1"):
            assert api.get(path, params={"after": wrong}).status_code == 422
        for wrong in ("0", "1001", "x"):
            assert api.get(path, params={"limit": wrong}).status_code == 422


@pytest.mark.parametrize("name", ["web", "b\udcff\u00fc", "\u65e5" * 80])
def test_what_comes_or_goes_between_two_parts_moves_nothing_else(name):
    names = sorted(["a", "c", name, "x", "z"])
    part, following = page_of(names, "", 3)
    assert following is not None
    changed = sorted({*names, "0", part[-1] + "0"} - {part[0], part[2]})
    rest, end = page_of(changed, following, None)
    assert rest == [part[-1] + "0", *names[3:]]
    assert end is None


def test_jobs_of_a_client_come_in_parts_too(director):
    with director.client("admin") as api:
        (part,) = pages(api, "/jobs", 1, client="web2")
        assert [one["name"] for one in part] == ["nightly-web2"]
        assert pages(api, "/jobs", 5, client="nobody") == [[]]


def test_a_status_is_whole_or_has_the_first_of_what_is_due_and_what_ends(director):
    with director.client("admin") as api:
        whole = api.get("/status").json()
        assert [one["job"] for one in whole["due"]] == ["nightly-web1"]
        assert len(whole["expiries"]) > 1
        part = api.get("/status", params={"limit": 1}).json()
        assert part["due"] == whole["due"]
        assert part["expiries"] == whole["expiries"][:1]
        assert part.keys() == whole.keys()
        assert part["clients"] == 3
    with director.client("ann") as api:
        part = api.get("/status", params={"limit": 2}).json()
        mine = api.get("/status").json()["expiries"]
        assert part["expiries"] == mine[:2]


def test_a_caller_who_sees_few_clients_gets_the_figures_of_these(director):
    root = director.url
    with director.client("admin") as api:
        assert 'client="db1"' in api.get(root + "/metrics").text
    with director.client("ann") as api:
        found = api.get(root + "/metrics").text
    assert 'client="web1"' in found
    assert "db1" not in found
    assert 'kind="operator",name="admin"' not in found


@pytest.mark.parametrize(
    ("accepted", "expected"),
    [
        ("gzip", "gzip"),
        ("deflate, GZIP;q=0.5", "gzip"),
        ("gzip;q=0", None),
        ("gzip; q=0.000", None),
        ("identity", None),
        ("*", None),
    ],
)
def test_figures_are_compressed_for_who_takes_that(director, accepted, expected):
    with director.client("admin") as api:
        answer = api.get(director.url + "/metrics", headers={"accept-encoding": accepted})
        assert answer.headers.get("content-encoding") == expected
        assert answer.headers["vary"] == "accept-encoding"
        assert "# TYPE strongroom_agent_connected gauge" in answer.text
        assert answer.text.endswith("\n")
