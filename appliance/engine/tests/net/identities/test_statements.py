"""Signed statements: believed for their purpose, in their time, from whom they may come."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom.base.errors import PeerRefusedError, UsageError
from strongroom.net.identities.statements import sign_statement, verify_statement

PAYLOADS = st.dictionaries(
    st.text(max_size=20),
    st.recursive(
        st.none() | st.booleans() | st.integers(-(1 << 60), 1 << 60) | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3),
        max_leaves=5,
    ),
    max_size=5,
)
DIRECTOR = ("director",)


def say(house, payload=None, lifetime_seconds=60.0, purpose="restore"):
    return sign_statement(house.director, purpose, payload or {"a": 1}, lifetime_seconds)


@given(PAYLOADS)
def test_what_was_said_is_what_is_read(shared_house, payload):
    text = sign_statement(shared_house.director, "restore", payload, 60)
    peer, read = verify_statement(text, shared_house.storage.trust, "restore", DIRECTOR)
    assert read == payload
    assert peer == shared_house.director.peer
    assert text.isascii()
    assert " " not in text


@given(place=st.integers(0, 1 << 20), letter=st.sampled_from("AZaz09-_.=é "))
def test_a_change_of_any_letter_is_refused(shared_house, place, letter):
    text = say(shared_house)
    place %= len(text)
    letter = letter if letter != text[place] else "b"
    changed = text[:place] + letter + text[place + 1 :]
    with pytest.raises(PeerRefusedError):
        verify_statement(changed, shared_house.storage.trust, "restore", DIRECTOR)


@given(st.text(max_size=100) | st.text("abc.-_", max_size=100))
def test_what_is_no_statement_is_refused(shared_house, text):
    with pytest.raises(PeerRefusedError):
        verify_statement(text, shared_house.storage.trust, "restore", DIRECTOR)


def test_a_statement_too_large_is_neither_made_nor_read(shared_house):
    with pytest.raises(UsageError, match="too large"):
        say(shared_house, {"a": "x" * (64 << 10)})
    with pytest.raises(PeerRefusedError, match="too large"):
        verify_statement("a" * (65 << 10), shared_house.storage.trust, "restore", DIRECTOR)


def test_another_purpose_role_or_authority_is_refused(house, tmp_path):
    from kit.connections import House

    text = say(house)
    trust = house.storage.trust
    with pytest.raises(PeerRefusedError, match="'restore', not 'delete'"):
        verify_statement(text, trust, "delete", DIRECTOR)
    with pytest.raises(PeerRefusedError, match="certificate of storage"):
        verify_statement(text, trust, "restore", ("storage",))
    with pytest.raises(PeerRefusedError, match="our authority"):
        verify_statement(text, House(tmp_path / "b").storage.trust, "restore", DIRECTOR)


def test_parts_of_two_statements_do_not_mix(shared_house):
    one, other = say(shared_house, {"a": 1}).split("."), say(shared_house, {"a": 2}).split(".")
    agent = sign_statement(shared_house.agent, "restore", {"a": 3}, 60).split(".")
    for parts in (
        [one[0], one[1], other[2]],
        [agent[0], one[1], agent[2]],
        [one[0], agent[1], one[2]],
    ):
        with pytest.raises(PeerRefusedError):
            verify_statement(
                ".".join(parts), shared_house.storage.trust, "restore", ("director", "agent")
            )


@pytest.mark.parametrize(
    ("seconds", "is_good"), [(0, True), (359, True), (361, False), (-299, True), (-301, False)]
)
def test_a_statement_is_good_in_its_time_with_five_minutes_of_grace(
    shared_house, wall_clock, seconds, is_good
):
    text = say(shared_house, lifetime_seconds=60)
    wall_clock(seconds=seconds)
    if is_good:
        assert verify_statement(text, shared_house.storage.trust, "restore", DIRECTOR)
    else:
        with pytest.raises(PeerRefusedError, match="clocks"):
            verify_statement(text, shared_house.storage.trust, "restore", DIRECTOR)


@pytest.mark.parametrize("seconds", [0, -1, 32 * 86400, float("nan")])
def test_impossible_lifetimes_are_refused(shared_house, seconds):
    with pytest.raises(UsageError, match="seconds"):
        say(shared_house, lifetime_seconds=seconds)


def test_a_revoked_signer_is_not_believed(house, monkeypatch):
    text = say(house)
    trust = house.storage.trust
    assert verify_statement(text, trust, "restore", DIRECTOR)
    house.authority.revoke("boss")
    with pytest.raises(PeerRefusedError, match="revoked"):
        verify_statement(text, trust, "restore", DIRECTOR)
