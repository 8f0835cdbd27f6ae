"""`strongroom_info` against a real director."""

from __future__ import annotations

from ansible_collections.strongroom.backup.plugins.modules import strongroom_info


def test_everything_is_told(house, run_module):
    house.command("run", "web1", "--watch")
    told = run_module(strongroom_info, **house.credential)
    assert not told["changed"]
    assert told["status"]["name"] == "vault-dir"
    web1 = told["clients"]["web1"]
    assert (web1["connected"], web1["groups"], web1["jobs"]) == (True, ["servers"], ["half", "web1"])
    assert web1["last_backup"]
    assert web1["last_run"]["state"] == "done"
    assert web1["next_backup"]
    assert told["clients"]["db1"]["tls_mode"] == "off"
    assert told["clients"]["web2"]["connected"] is False
    assert told["backups"]["web1"]["id"] == web1["last_run"]["snapshot"]
    assert {one["name"] for one in told["jobs"]} >= {"web1", "web2", "db1", "housekeeping"}
    assert {one["kind"] for one in told["expiries"]} >= {"agent", "operator", "authority"}
    # The disk of anyone who runs the tests may be nearly full.
    assert all(one["event"].startswith("disk-") for one in told["storage"]["vault"]["problems"])
    assert told["storage"]["vault"]["directives"]["Password"] == "***"


def test_only_what_is_asked_for_is_told(house, run_module):
    told = run_module(strongroom_info, check=True, **house.credential, gather=["clients"], clients=["db1"])
    assert set(told["clients"]) == {"db1"}
    assert not {"status", "jobs", "backups", "expiries", "storage"} & set(told)


def test_a_client_that_is_not_there_is_named(house, run_module):
    told = run_module(strongroom_info, **house.credential, clients=["nobody"])
    assert told["failed"]
    assert "no client nobody" in told["msg"]


def test_with_few_rights_less_is_told(house, run_module):
    told = run_module(strongroom_info, **house.viewer, gather=["clients", "jobs", "storage"])
    assert set(told["clients"]) == {"web1"}
    assert told["clients"]["web1"]["groups"] == []
    assert {one["name"] for one in told["jobs"]} == {"web1", "half"}
    assert told["storage"] == {}


def test_a_token_takes_the_place_of_the_usual_identity_and_not_of_its_authority(house, run_module, monkeypatch):
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HOME", house.home)
    told = run_module(strongroom_info, token=house.viewer_token, gather=["clients"])
    assert set(told["clients"]) == {"web1"}
