"""A passphrase is found where the user put it, and asked for only where someone can answer."""

import io
import os
import pty
import subprocess
import sys

import pytest

from strongroom.base.errors import UsageError
from strongroom.cli.passphrase import (
    given_passphrase,
    passphrase_from_command,
    passphrase_from_file,
)
from strongroom.cli.settings import Settings
from strongroom.cli.terminal import Terminal


def settings(**said) -> Settings:
    nothing = dict.fromkeys(Settings._fields)
    return Settings(**{**nothing, "as_json": False, "quiet": False, "verbose": 0, **said})


@pytest.fixture
def terminal():
    return Terminal(output=io.StringIO(), messages=io.StringIO())


@pytest.fixture
def secret_file(tmp_path):
    path = tmp_path / "secret"
    path.touch(0o600)
    return path


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"open sesame\n", b"open sesame"),
        (b"open sesame", b"open sesame"),
        (b"windows\r\n", b"windows"),
        (b"first\nsecond\n", b"first"),
        (b" blanks count \n", b" blanks count "),
        (b"any \xff bytes\n", b"any \xff bytes"),
    ],
)
def test_the_first_line_of_the_file_is_the_passphrase(secret_file, terminal, content, expected):
    secret_file.write_bytes(content)
    assert passphrase_from_file(str(secret_file), terminal) == expected
    assert terminal.messages.getvalue() == ""


def test_a_device_is_not_named_as_one_that_others_may_read(terminal):
    with pytest.raises(UsageError, match="first line is empty"):
        passphrase_from_file("/dev/null", terminal)
    assert "chmod" not in terminal.messages.getvalue()


def test_a_command_that_is_not_there_is_named_in_plain_words():
    with pytest.raises(UsageError, match=r"command `not-there x`: No such file or directory$"):
        passphrase_from_command("not-there x")


@pytest.mark.parametrize("content", [b"", b"\n", b"\nsecret\n"])
def test_an_empty_first_line_is_refused(secret_file, terminal, content):
    secret_file.write_bytes(content)
    with pytest.raises(UsageError, match="empty"):
        passphrase_from_file(str(secret_file), terminal)


def test_a_file_that_others_may_read_is_warned_about(secret_file, terminal):
    secret_file.write_bytes(b"x\n")
    secret_file.chmod(0o640)
    assert passphrase_from_file(str(secret_file), terminal) == b"x"
    assert f"chmod 600 {secret_file}" in terminal.messages.getvalue()


def test_a_missing_file_is_named(tmp_path, terminal):
    with pytest.raises(UsageError, match="/absent: "):
        passphrase_from_file(str(tmp_path / "absent"), terminal)


def test_a_command_prints_the_passphrase():
    assert passphrase_from_command("printf '%s\\n%s' 'open sesame' more") == b"open sesame"


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ("false", "failed .status 1."),
        ("/no/such/program", "cannot run"),
        ("unbalanced 'quote", "cannot run"),
        ("true", "first line is empty"),
    ],
)
def test_a_command_that_gives_none_is_a_usage_error(command, complaint):
    with pytest.raises(UsageError, match=complaint):
        passphrase_from_command(command)


def test_a_command_gets_no_shell(tmp_path):
    assert passphrase_from_command(f"echo $HOME > {tmp_path}/made") == (
        b"$HOME > " + os.fsencode(tmp_path) + b"/made"
    )


def test_file_and_command_together_are_refused(secret_file, terminal):
    said = settings(password_file=str(secret_file), password_command="true")
    with pytest.raises(UsageError, match="exclude"):
        given_passphrase(said, terminal)


def test_bytes_of_the_environment_stay_as_they_are(terminal):
    said = settings(password=os.fsdecode(b"caf\xe9"))
    assert given_passphrase(said, terminal) == b"caf\xe9"


def test_nothing_said_gives_nothing(terminal):
    assert given_passphrase(settings(), terminal) is None


def converse(code: str, answers: list[bytes], environment: dict[str, str]) -> tuple[int, bytes]:
    """Run `code` with its own terminal, typing one of `answers` at each colon."""
    leader, follower = pty.openpty()
    # The first terminal that the leader of a session opens becomes the one that controls it.
    own_terminal = "import os; os.close(os.open(os.ttyname(0), os.O_RDWR)); "
    process = subprocess.Popen(
        [sys.executable, "-c", own_terminal + code],
        env=environment,
        stdin=follower,
        stdout=follower,
        stderr=follower,
        start_new_session=True,
    )
    os.close(follower)
    seen = b""
    try:
        while block := os.read(leader, 4096):
            seen += block
            if seen.endswith(b": ") and answers:
                os.write(leader, answers.pop(0) + b"\n")
    except OSError:  # how Linux says that the other side is closed
        pass
    os.close(leader)
    return process.wait(30), seen


ASK = "from strongroom.cli.passphrase import *; print('got', ask_passphrase('passphrase'))"
CHOOSE = "from strongroom.cli.passphrase import *; print('got', choose_passphrase('new one'))"


def test_a_person_is_asked_and_the_answer_is_not_shown(environment):
    code, seen = converse(ASK, [b"open sesame"], environment)
    assert code == 0
    assert seen == b"passphrase: \r\ngot b'open sesame'\r\n"


def test_a_new_passphrase_is_asked_for_until_typed_twice_alike(environment):
    code, seen = converse(CHOOSE, [b"one", b"two", b"three", b"three"], environment)
    assert code == 0
    assert seen.endswith(b"got b'three'\r\n")


def test_who_never_types_it_alike_is_let_go(environment):
    code, seen = converse(CHOOSE, [b"1", b"2", b"3", b"4", b"5", b"6"], environment)
    assert code == 1
    assert b"differed three times" in seen


def test_without_a_terminal_the_ways_to_give_one_are_named(environment):
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        env=environment,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "no terminal to ask at; use --password-file" in done.stderr
