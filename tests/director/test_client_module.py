"""`strongroom_client` against a real director and its authority."""

from __future__ import annotations

import stat

import pytest
from ansible_collections.strongroom.backup.plugins.modules import strongroom_client


@pytest.fixture
def client(house, run_module):
    def run(name, **arguments):
        return run_module(strongroom_client, **house.credential, name=name, ca=house.ca, **arguments)

    return run


def tokens(house, name):
    """Unused tokens for just this name."""
    told = house.command("ca", "list", "--ca", house.ca)
    return [one for one in told if one["type"] == "enrolment_token" and one["name"] == name]


def test_a_client_joins_is_awaited_and_is_removed(house, client):
    made = client("web5", group="servers", diff=True)
    assert made["changed"]
    assert made["token"]["group"] == "servers"
    assert "srt2" not in str(made["diff"])
    assert made["diff"]["after"] == "state: may join by an enrolment token\ngroups: servers\n"
    again = client("web5", group="servers")
    assert not again["changed"]
    assert "enrolment_token" not in again
    assert again["token"]["id"] == made["token"]["id"]

    house.join("web5", made["enrolment_token"])
    joined = client("web5", state="enrolled")
    assert not joined["changed"]
    assert joined["client"]["groups"] == ["servers"]
    assert not client("web5", group="servers")["changed"]

    would = client("web5", state="absent", check=True, diff=True)
    assert would["changed"]
    assert "enrolled" in would["diff"]["before"]
    assert "not known" in would["diff"]["after"]
    assert client("web5")["client"]["enrolled"]
    gone = client("web5", state="absent")
    assert gone["changed"]
    assert any("revoked" in one for one in gone["done"])
    assert gone["client"] == {}
    assert not client("web5", state="absent")["changed"]


def test_in_check_mode_no_token_is_made(house, client):
    told = client("web6", group="servers", check=True)
    assert told["changed"]
    assert "enrolment_token" not in told
    assert not tokens(house, "web6")


def test_a_token_for_another_group_takes_the_place_of_one_that_is_unused(house, client):
    first = client("db6", group="servers")
    second = client("db6", group="databases")
    assert second["changed"]
    assert [one["id"] for one in tokens(house, "db6")] == [second["token"]["id"]]
    assert first["token"]["id"] != second["token"]["id"]
    gone = client("db6", state="absent", diff=True)
    assert gone["diff"]["before"] == "state: may join by an enrolment token\ngroups: databases\n"
    assert not tokens(house, "db6")


def test_a_token_goes_into_a_file_and_not_into_the_result(house, client, tmp_path):
    file = tmp_path / "token"
    told = client("web7", group="servers", output=str(file))
    text = file.read_text().strip()
    assert text
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert text not in str(told)
    house.join("web7", text)
    assert client("web7", state="enrolled")["client"]["name"] == "web7"
    client("web7", state="absent")


def test_revoking_keeps_the_client_and_ends_its_certificate(house, client):
    house.join("web8", client("web8", group="servers")["enrolment_token"])
    would = client("web8", state="revoked", check=True)
    assert would["changed"]
    told = client("web8", state="revoked")
    assert told["changed"]
    assert any("revoked the certificate" in one for one in told["done"])
    assert told["client"]["name"] == "web8"
    assert not client("web8", state="revoked")["changed"]
    client("web8", state="absent")


def test_a_name_that_is_an_operators_too_is_not_revoked(house, client):
    told = client("admin", state="revoked")
    assert told["failed"]
    assert "operator" in told["msg"]
    assert house.command("status")


def test_another_group_than_that_of_a_known_client_is_refused(client):
    told = client("web1", group="databases")
    assert told["failed"]
    assert "web1 is in the group servers already" in told["msg"]


def test_a_client_that_does_not_come_is_not_waited_for_for_ever(client):
    told = client("web2", state="enrolled", connected=True, timeout=1)
    assert told["failed"]
    assert "web2 is enrolled and not connected after 1 s" in told["msg"]
    told = client("nobody", state="enrolled", timeout=0)
    assert "nobody is not known to the director" in told["msg"]
    told = client("nobody", state="enrolled", check=True)
    assert not told["changed"]
    assert client("web1", state="enrolled", connected=True)["client"]["connected"]


def test_an_agent_that_comes_is_waited_for(house, client):
    house.join("web9", client("web9", group="servers")["enrolment_token"])
    house.tell("start", "web9")
    assert client("web9", state="enrolled", connected=True)["client"]["connected"]
    house.tell("stop", "web9")
    client("web9", state="absent")


def test_where_there_is_no_authority_it_is_said(house, run_module):
    told = run_module(strongroom_client, **house.credential, name="web6", ca="/nowhere")
    assert told["failed"]
    assert "/nowhere" in told["msg"]
