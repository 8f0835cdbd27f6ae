"""Where console commands find the director, and as whom they go there."""

import pytest

from strongroom.base.errors import UsageError
from strongroom.cli.client.place import (
    normal_url,
    read_console_resource,
    read_console_settings,
)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("backup.example", "https://backup.example:9101"),
        ("backup.example:9000", "https://backup.example:9000"),
        ("https://backup.example", "https://backup.example:9101"),
        ("https://10.0.0.1:9000/", "https://10.0.0.1:9000"),
        ("https://[::1]", "https://[::1]:9101"),
    ],
)
def test_a_director_is_named_in_short(text, url):
    assert normal_url(text) == url


@pytest.mark.parametrize("text", ["http://backup", "https://", "https://x:port", "https://x/path"])
def test_what_names_no_director(text):
    with pytest.raises(UsageError):
        normal_url(text)


def test_without_a_director_the_command_says_how_to_name_one(command):
    answer = command("status", place=[], exit_code=2)
    assert "--director or $STRONGROOM_DIRECTOR" in answer.messages


def test_a_host_that_can_have_no_name_is_named_as_such(command):
    for host in ("b\udcff", "☃"):
        assert (
            "names no director"
            in command("status", place=["--director", host], exit_code=2).messages
        )


def test_the_environment_and_the_settings_file_fill_in_what_options_leave(
    command, director, home, monkeypatch
):
    identity = director.identity("admin").folder.decode()
    settings = home / ".config" / "strongroom"
    settings.mkdir(parents=True)
    (settings / "console.toml").write_text(
        f'director = "{director.url}"\nidentity = "{identity}"\n'
    )
    assert command("status", place=[]).output.startswith("director boss")
    monkeypatch.setenv("STRONGROOM_DIRECTOR", "https://localhost:1")
    assert "localhost:1" in command("status", place=[], exit_code=65).messages
    assert command("status", place=["--director", director.url]).output.startswith("director boss")
    ann = ["--identity", director.identity("ann").folder.decode(), "--director", director.url]
    command("audit", place=ann, exit_code=63)


def test_a_token_on_the_command_line_wins_over_an_identity_in_the_file(command, director, home):
    token = home / "token"
    command("token", "create", "ann", "-o", str(token))
    settings = home / ".config" / "strongroom"
    settings.mkdir(parents=True)
    folder = director.identity("admin").folder.decode()
    said = {"director": director.url, "identity": folder, "authority": f"{folder}/authority.pem"}
    lines = [f'{name} = "{value}"\n' for name, value in said.items()]
    (settings / "console.toml").write_text("".join(lines))
    command("audit", place=[])
    command("audit", place=["--token-file", str(token)], exit_code=63)


@pytest.mark.parametrize("text", ["director = 1", "directors = 'x'", "director"])
def test_a_settings_file_that_makes_no_sense_is_told(tmp_path, text):
    (tmp_path / "console.toml").write_text(text)
    with pytest.raises(UsageError, match=r"console\.toml"):
        read_console_settings(str(tmp_path / "console.toml"))


def test_paths_in_the_settings_file_are_meant_from_there(tmp_path):
    (tmp_path / "console.toml").write_text('token-file = "token"\nidentity = "/abs"\n')
    found = read_console_settings(str(tmp_path / "console.toml"))
    assert found.token_file == str(tmp_path / "token")
    assert found.identity == "/abs"


def test_a_console_of_bareos_says_where_the_director_is(tmp_path):
    (tmp_path / "bconsole.conf").write_text(
        "Director { Name = boss; Address = backup.example; Port = 9000; Password = x\n"
        '  TLS CA Certificate File = "/etc/ca.pem"\n'
        '  TLS Certificate = "/etc/ann.pem"\n  TLS Key = "/etc/ann.key" }\n'
    )
    found = read_console_resource(str(tmp_path))
    assert found.url == "https://backup.example:9000"
    assert found.authority == "/etc/ca.pem"
    assert (found.certificate, found.key) == ("/etc/ann.pem", "/etc/ann.key")


@pytest.mark.parametrize("content", ["", "two words", "one\ntwo"])
def test_a_token_file_without_a_token_is_told(command, director, home, content):
    (home / "token").write_text(content)
    place = ["--director", director.url, "--token-file", str(home / "token")]
    assert "holds no token" in command("status", place=place, exit_code=2).messages
