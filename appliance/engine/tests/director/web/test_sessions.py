"""Login with a token: the session that follows, its limits, and its end."""

import httpx
import pytest

from kit.web_reader import WebReader
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import NotAuthenticatedError
from strongroom.director.web.sessions import (
    COOKIE,
    IDLE_NS,
    LONGEST_NS,
    MOST_OF_A_TOKEN,
    MOST_SESSIONS,
    Sessions,
)
from strongroom.net.channels.tls_contexts import authority_context


@pytest.fixture
def reader(own_director):
    with WebReader(own_director) as nobody:
        yield nobody


def test_without_a_session_every_address_shows_the_login(reader):
    answer = reader.look("/runs?client=web1")
    assert answer.status_code == 401
    assert 'action="/login"' in answer.text
    assert "location" not in answer.headers


def test_a_token_opens_the_page_with_the_rights_of_its_console(reader):
    reader.log_in_as("ann")
    assert reader.look("/").status_code == 200
    assert reader.look("/audit").status_code == 403


def test_the_cookie_is_for_this_host_and_no_script(reader, own_director):
    with own_director.client("admin") as admin:
        text = admin.post("/tokens", json={"name": "ann"}).json()["text"]
    said = reader.log_in(text).headers["set-cookie"]
    parts = {one.strip().lower() for one in said.split(";")[1:]}
    assert said.startswith("__Host-")
    assert parts == {"httponly", "secure", "samesite=strict", "path=/"}
    assert text not in said


def test_the_cookie_means_nothing_to_the_api(reader):
    reader.log_in_as("admin")
    assert reader.http.get("/status").status_code == 401


def test_after_logging_out_the_cookie_is_worth_nothing(reader):
    reader.log_in_as("ann")
    kept = reader.http.cookies[COOKIE]
    assert reader.act("/logout").status_code == 200
    assert COOKIE not in reader.http.cookies
    reader.http.cookies.set(COOKIE, kept)
    assert reader.look("/").status_code == 401


def test_a_session_ends_with_its_token(reader, own_director):
    token_id = reader.log_in_as("ann")
    with own_director.client("admin") as admin:
        assert admin.delete(f"/tokens/{token_id}").status_code == 200
    assert reader.look("/").status_code == 401


def test_a_session_ends_with_its_console(reader, own_director):
    reader.log_in_as("ann")
    without = own_director.configuration.replace("Console { Name = ann;", "Console { Name = bea;")
    own_director.configure(without)
    own_director.reload()
    own_director.wait_for(lambda: reader.look("/").status_code == 401)


def test_a_cookie_at_another_address_ends_the_session(reader, own_director):
    reader.log_in_as("ann")
    kept = reader.http.cookies[COOKIE]
    transport = httpx.HTTPTransport(
        local_address="127.0.0.2",
        verify=authority_context(own_director.house.director.authority_pem),
    )
    with WebReader(own_director, transport=transport) as elsewhere:
        elsewhere.http.cookies.set(COOKIE, kept)
        assert elsewhere.look("/").status_code == 401
    assert reader.look("/").status_code == 401


def test_a_certificate_needs_no_login_and_a_login_comes_before_it(own_director):
    with WebReader(own_director, "admin") as reader:
        assert reader.look("/audit").status_code == 200
        reader.log_in_as("ann")
        assert reader.look("/audit").status_code == 403
        reader.act("/logout")
        assert reader.look("/audit").status_code == 200


def test_logins_are_in_the_audit_log(reader, own_director):
    reader.log_in("srt_wrong")
    reader.log_in_as("ann")
    with own_director.client("admin") as admin:
        found = admin.get("/audit").json()["items"]
    logins = [(one["who"], one["result"]) for one in found if one["action"] == "login"]
    assert logins == [("ann", "done"), ("", "not-authenticated")]


class Clock:
    def __init__(self):
        self.now_ns = 10 * LONGEST_NS

    def __call__(self):
        return self.now_ns


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def sessions(clock):
    return Sessions(clock)


def test_a_session_that_nobody_uses_ends(sessions, clock):
    value = sessions.begin("t", "192.0.2.1")
    clock.now_ns += IDLE_NS - SECOND_NS
    assert sessions.token_id(value, "192.0.2.1") == "t"
    clock.now_ns += IDLE_NS
    with pytest.raises(NotAuthenticatedError, match="expired"):
        sessions.token_id(value, "192.0.2.1")


def test_a_session_that_is_used_all_the_time_ends_too(sessions, clock):
    value = sessions.begin("t", "192.0.2.1")
    for _ in range(LONGEST_NS // IDLE_NS * 2 - 1):
        clock.now_ns += IDLE_NS // 2
        assert sessions.token_id(value, "192.0.2.1") == "t"
    clock.now_ns += IDLE_NS // 2
    with pytest.raises(NotAuthenticatedError, match="expired"):
        sessions.token_id(value, "192.0.2.1")


def test_a_token_has_so_many_sessions_and_then_the_one_unused_longest_ends(sessions):
    values = [sessions.begin("t", "192.0.2.1") for _ in range(MOST_OF_A_TOKEN)]
    assert sessions.token_id(values[0], "192.0.2.1") == "t"
    sessions.begin("t", "192.0.2.1")
    assert sessions.token_id(values[0], "192.0.2.1") == "t"
    with pytest.raises(NotAuthenticatedError):
        sessions.token_id(values[1], "192.0.2.1")


def test_sessions_take_bounded_memory(sessions):
    first = sessions.begin("first", "192.0.2.1")
    for number in range(MOST_SESSIONS):
        sessions.begin(f"t{number}", "192.0.2.1")
    with pytest.raises(NotAuthenticatedError):
        sessions.token_id(first, "192.0.2.1")


def test_addresses_of_one_ipv6_network_are_one(sessions):
    value = sessions.begin("t", "2001:db8::1")
    assert sessions.token_id(value, "2001:db8::2") == "t"
    with pytest.raises(NotAuthenticatedError, match="another address"):
        sessions.token_id(value, "2001:db8:0:1::1")
