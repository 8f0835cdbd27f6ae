"""What goes wrong between a console and its director is told in one line that names the remedy."""

import shutil
import socket
import threading
from datetime import timedelta

import pytest

from kit.connections import House
from strongroom.base import clock
from strongroom.net import renewal

ONE_COMMAND_EACH = (
    ("status",), ("clients",), ("clients", "web1"), ("jobs",), ("runs",), ("run", "nightly-web1"),
    ("watch", "12345678"), ("log", "12345678"), ("cancel", "12345678"), ("bandwidth", "1234", "1m"),
    ("estimate", "nightly-web1"), ("reload",), ("audit",), ("token", "list"),
    ("token", "create", "ann"), ("token", "withdraw", "1234"),
    ("restore", "latest", "--client", "web1", "--target", "/x"),
)  # fmt: skip


@pytest.fixture
def authority(director):
    return director.identity("boss", "director").folder.decode() + "/authority.pem"


@pytest.fixture
def told(command, director):
    """The one line that a command says of its failure."""

    def tell(*place, exit_code, words=("status",), url=director.url):
        answer = command(*words, place=["--director", url, *place], exit_code=exit_code)
        assert answer.output == ""
        (line,) = answer.messages.splitlines()
        return line

    return tell


@pytest.mark.parametrize("words", ONE_COMMAND_EACH, ids=" ".join)
def test_every_command_tells_a_director_that_is_away(told, director, words):
    place = ["--identity", director.identity("admin").folder.decode()]
    line = told(*place, words=words, url="https://localhost:1", exit_code=65)
    assert "[director]: https://localhost:1 cannot be reached" in line
    assert "--director" in line


@pytest.mark.parametrize("words", ONE_COMMAND_EACH, ids=" ".join)
def test_every_command_tells_that_nothing_was_shown(told, authority, words):
    line = told("--authority", authority, words=words, exit_code=62)
    assert "[not-authenticated]" in line
    assert "name --token-file FILE or --identity FOLDER" in line


def test_a_wrong_token_is_named_by_its_file(told, authority, home):
    (home / "token").write_text("srt_wrong\n")
    line = told("--authority", authority, "--token-file", f"{home}/token", exit_code=62)
    assert f"the token came from {home}/token; `strongroom token create`" in line


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a\x01b", b""])
def test_what_is_no_token_is_not_shown_to_anybody(told, authority, home, content):
    (home / "token").write_bytes(content)
    line = told("--authority", authority, "--token-file", f"{home}/token", exit_code=2)
    assert f"--token-file {home}/token holds no token" in line


@pytest.mark.parametrize(
    ("option", "reason"), [("--token-file", "No such file"), ("--identity", "no identity in")]
)
def test_files_that_are_not_there_are_named_with_their_option(told, authority, option, reason):
    line = told("--authority", authority, option, "/nowhere", exit_code=2)
    assert f"{option} /nowhere: " in line
    assert reason in line


def test_an_authority_that_is_none_is_named(told, home):
    (home / "authority.pem").write_text("x")
    assert f"--authority {home}/authority.pem: " in told(
        "--authority", f"{home}/authority.pem", exit_code=2
    )
    assert "--authority /nowhere" in told("--authority", "/nowhere", exit_code=2)


def test_a_damaged_key_is_named(told, director, home):
    folder = home / "identity"
    shutil.copytree(director.identity("admin").folder.decode(), folder)
    (folder / "key.pem").write_text("x")
    assert f"--identity {folder}: " in told("--identity", str(folder), exit_code=2)


def test_an_authority_that_was_not_named_is_asked_for(told):
    line = told(exit_code=65)
    assert "from another authority than one that this system trusts" in line
    assert "--authority FILE" in line


def test_a_certificate_that_the_director_does_not_know(told, authority, home):
    other = House(home).operator.folder.decode()
    line = told("--identity", other, "--authority", authority, exit_code=65)
    assert f"it may not trust the authority of the certificate in {other}" in line
    assert "--identity" in line


@pytest.mark.parametrize(
    ("name", "role", "reason"),
    [("eve", "operator", "add it to the director's"), ("web1", "agent", "`strongroom ca issue")],
)
def test_a_certificate_that_may_do_nothing(told, director, name, role, reason):
    line = told("--identity", director.identity(name, role).folder.decode(), exit_code=63)
    assert reason in line


def test_a_certificate_that_has_ended_is_not_even_shown(told, director, monkeypatch):
    identity = director.identity("admin")
    ended = identity.not_after + timedelta(seconds=1)
    monkeypatch.setattr(renewal, "clock", _Later(int(ended.timestamp()) * 1_000_000_000))
    line = told("--identity", identity.folder.decode(), exit_code=62)
    assert "`strongroom ca issue admin --role operator`" in line


class _Later:
    """A clock that stands."""

    def __init__(self, now_ns):
        self.now_ns = lambda: now_ns
        self.elapsed_seconds = clock.elapsed_seconds


def test_another_service_at_the_address_is_told(told, director):
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer():
            connection, _ = other.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")

        answering = threading.Thread(target=answer)
        answering.start()
        place = ["--identity", director.identity("admin").folder.decode()]
        url = f"https://localhost:{other.getsockname()[1]}"
        assert "TLS" in told(*place, url=url, exit_code=65)
        answering.join()


def test_a_director_by_a_name_that_its_certificate_lacks(told, director):
    place = ["--identity", director.identity("admin").folder.decode()]
    # The same address, written as the certificate does not have it.
    line = told(*place, url=director.url.replace("localhost", "127.1"), exit_code=65)
    assert "its certificate is for another name" in line
    assert "--director" in line


@pytest.mark.parametrize(
    "words",
    [("log", "../x"), ("cancel", "a/b"), ("clients", "a\nb"), ("log", "\udcff")],
    ids=repr,
)
def test_what_can_name_nothing_is_told_as_such(command, words):
    answer = command(*words, exit_code=60)
    assert "is not a valid name or id" in answer.messages
    assert len(answer.messages.splitlines()) == 1


def test_a_name_that_is_no_text_is_a_mistake_and_no_fault_of_ours(command):
    answer = command("run", "\udcff", exit_code=2)
    assert "not UTF-8" in answer.messages
    assert "Traceback" not in answer.messages


def test_numbers_out_of_range_name_their_option(command):
    answer = command("run", "nightly-web1", "--priority", "-5", exit_code=2)
    assert "[usage]: argument --priority: '-5'" in answer.messages
