"""Places of repositories are distinguished, and what is none of them is refused."""

import pytest

from strongroom.base.errors import UsageError
from strongroom.engine.stores.place import FolderLocation, RemoteLocation, SshLocation, place_of


@pytest.mark.parametrize("text", ["/srv/repository", "repository", "./with:colon", "a/b:c", "-x"])
def test_a_folder_is_what_has_no_colon_before_its_first_slash(text):
    assert place_of(text) == FolderLocation(text)


@pytest.mark.parametrize(
    ("text", "user", "host", "port", "path"),
    [
        ("ssh://host/srv/r", "", "host", 0, "/srv/r"),
        ("ssh://ann@Host.example:2222/srv/r", "ann", "Host.example", 2222, "/srv/r"),
        ("ssh://[2001:db8::1]:22/srv/r", "", "2001:db8::1", 22, "/srv/r"),
        ("ssh://host/~/r", "", "host", 0, "r"),
        ("ssh://host/a%20b", "", "host", 0, "/a b"),
    ],
)
def test_a_folder_behind_ssh(text, user, host, port, path):
    assert place_of(text) == SshLocation(text, user, host, port, path)


@pytest.mark.parametrize(
    "text",
    [
        "ssh://-oProxyCommand=evil/x",
        "ssh://-l@host/x",
        "ssh://host;true/x",
        "ssh://host",
        "ssh://host/",
        "ssh:///x",
        "ssh://host:port/x",
        "ssh://host/a%0ab",
        "ssh://host/~/",
        "ssh://host/~",
        "sftp:host:",
        "sftp:host:~",
        "sftp://host/~/",
        "ssh://host/x?y",
        "strongroom://",
        "unix:relative.sock",
        "s4:bucket",
        "user@host:/x",
        "~/repository",
    ],
)
def test_what_is_no_place_is_refused(text):
    with pytest.raises(UsageError):
        place_of(text)


@pytest.mark.parametrize(
    "text", ["ssh://ann:secret@host/x", "sftp://ann:secret@host/x", "sftp:ann:secret@host:/x"]
)
def test_a_password_is_refused_and_not_repeated(text):
    with pytest.raises(UsageError) as refused:
        place_of(text)
    assert "secret" not in str(refused.value)


def test_storage_daemons():
    assert place_of("unix:/run/x.sock#r") == RemoteLocation(
        "unix:/run/x.sock#r", "/run/x.sock", "", 0, "r"
    )
    found = place_of("strongroom://host:9104/r")
    assert (found.address, found.port, found.repository) == ("host", 9104, "r")


def test_an_unknown_scheme_is_told_those_that_work():
    with pytest.raises(UsageError) as refused:
        place_of("s4:bucket")
    for scheme in ("ssh://", "strongroom://", "unix:"):
        assert scheme in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "s3://[bucket/x",
        "s3:https://[host/bucket",
        "s3:bucket",
        "s3://",
        "s3://b/x",
        "s3://host:9000/bucket",
        "s3://bucket/../x",
        "s3://bucket/a//b",
        "s3://bucket?endpoint=ftp://x",
        "s3://bucket?endpoint=http://h/path",
        "s3://bucket?other=1",
        "s3://bucket#x",
        "s3://bucket?region=a b",
    ],
)
def test_what_is_no_bucket_is_refused(text):
    with pytest.raises(UsageError):
        place_of(text)


@pytest.mark.parametrize(
    "text",
    [
        "s3://KEY:hidden@bucket/x",
        "s3:https://KEY:hidden@host/bucket",
        "s3://bucket/x?endpoint=https://KEY:hidden@host",
    ],
)
def test_an_access_key_in_a_place_is_refused_and_not_repeated(text):
    with pytest.raises(UsageError) as refused:
        place_of(text)
    assert "hidden" not in str(refused.value)
