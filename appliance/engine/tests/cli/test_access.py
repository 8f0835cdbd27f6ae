"""A repository opens with whatever key the user has, and says what is missing when it does not."""

import argparse
import io
import time
from types import SimpleNamespace

import pytest

from strongroom.base.errors import (
    KeyRightError,
    RepositoryNotFoundError,
    StoreError,
    UsageError,
    WrongKeyError,
)
from strongroom.cli.access import open_repository, open_store
from strongroom.cli.settings import Settings
from strongroom.cli.terminal import Terminal
from strongroom.engine.repository.keys.files import export_key
from strongroom.engine.repository.keys.wrapping import Argon2Cost
from strongroom.engine.repository.repository import Repository
from strongroom.engine.stores import limited

CHEAP = Argon2Cost(memory_kib=8192, iterations=1, lanes=1)


@pytest.fixture
def place(tmp_path):
    store = open_store(str(tmp_path / "repository"))
    Repository.create(store, b"open sesame", cost=CHEAP).close()
    return str(tmp_path / "repository")


@pytest.fixture
def put_key_file(place, tmp_path):
    repository = Repository.open(open_store(place), b"open sesame")
    path = tmp_path / "put.key"
    path.write_text(export_key(repository.key.put_key("web1")))
    return str(path)


def opened(need="read", **said):
    nothing = dict.fromkeys(Settings._fields)
    settings = Settings(**{**nothing, "as_json": False, "quiet": False, "verbose": 0, **said})
    terminal = Terminal(output=io.StringIO(), messages=io.StringIO())
    return open_repository(argparse.Namespace(settings=settings), terminal, need)


def test_the_passphrase_of_the_environment_opens(place):
    assert opened(repository=place, password="open sesame").encrypted


@pytest.mark.parametrize("way", ["limit_upload", "limit_download"])
def test_a_limit_slows_down_one_direction(place, way, monkeypatch):
    slept = []

    def sleep(seconds):
        slept.append(seconds)
        time.sleep(seconds)

    monkeypatch.setattr(limited, "time", SimpleNamespace(sleep=sleep))
    none = {"limit_upload": 0, "limit_download": 0}
    said = {"repository": place, "password": "open sesame", **none, way: 1_000_000}
    store = opened(**said).store
    waited = {}
    for direction in ("limit_upload", "limit_download"):
        slept.clear()
        for number in range(3):
            name = f"{number:064}"
            if direction == "limit_upload":
                store.put("packs", name, bytes(200_000))
            else:
                store.get("packs", name)
        waited[direction] = bool(slept)
    # 600,000 bytes at a million a second: the last block waits for those before it.
    assert waited.pop(way)
    assert not waited.popitem()[1]


def test_a_command_may_give_the_passphrase(place):
    assert opened(repository=place, password_command="echo open sesame").encrypted


def test_a_wrong_passphrase_is_told(place):
    with pytest.raises(WrongKeyError, match="passphrase"):
        opened(repository=place, password="open sesam")


def test_a_put_key_may_write_but_not_read(place, put_key_file):
    repository = opened(need="write", repository=place, key_file=put_key_file)
    assert repository.writer.name == "web1"
    with pytest.raises(KeyRightError):
        opened(need="read", repository=place, key_file=put_key_file)


@pytest.mark.parametrize("content", ["", "nonsense", "-----BEGIN STRONGROOM PUT KEY-----\nAAA\n"])
def test_a_file_that_holds_no_key_is_refused(place, tmp_path, content):
    (tmp_path / "key").write_text(content)
    with pytest.raises(UsageError, match="key file"):
        opened(repository=place, key_file=str(tmp_path / "key"))


def test_a_key_file_that_is_not_there_is_named(place):
    with pytest.raises(UsageError, match="/absent: "):
        opened(repository=place, key_file="/absent")


def test_a_repository_without_a_passphrase_opens_without_asking(tmp_path):
    store = open_store(str(tmp_path))
    Repository.create(store, None, encryption="none").close()
    assert not opened(repository=str(tmp_path)).encrypted


def test_no_passphrase_is_asked_for_where_there_is_no_repository(tmp_path):
    with pytest.raises(RepositoryNotFoundError, match="strongroom init"):
        opened(repository=str(tmp_path / "absent"))


def test_a_store_can_be_made_to_fail_by_the_environment(strongroom, place):
    words = ("snapshots", "--repo", place)
    given = {"STRONGROOM_PASSWORD": "open sesame", "STRONGROOM_STORE_FAULTS": "list:keys:1:EIO"}
    answer = strongroom(*words, **given)
    assert answer.returncode == StoreError.exit_code
    assert "Input/output error (a declared fault)" in answer.stderr


def test_a_repository_must_be_named():
    with pytest.raises(UsageError, match="STRONGROOM_REPOSITORY"):
        opened(password="x")


@pytest.mark.parametrize(
    ("place", "instead"),
    [
        ("b2:bucket:name", "s3:s3.REGION.backblazeb2.com/BUCKET"),
        ("gs://bucket/a", "rclone"),
        ("azure:container:/a", "rclone"),
        ("az://container", "rclone"),
        ("rest:https://user:pass@host/", "ssh://"),
        ("webdav://host/a", "s3://BUCKET"),
        ("webdav://user:pass@/a@host/a", "s3://BUCKET"),
        ("user:pass@host:/a", "s3://BUCKET"),
    ],
)
def test_a_place_of_another_kind_is_refused_with_what_works(place, instead):
    with pytest.raises(UsageError, match="supported") as refused:
        opened(repository=place, password="x")
    assert instead in str(refused.value)
    assert "pass@" not in str(refused.value)


@pytest.mark.parametrize("scheme", ["strongroom", "ssh", "sftp", "s3"])
@pytest.mark.parametrize("rest", ["host/a", "host:port/a", "host/a?b"])
@pytest.mark.parametrize("user", ["user", ""])
@pytest.mark.parametrize("password", ["hidden", "hidden/a", "hidden#a", "hidden?a", "[hidden"])
def test_no_message_shows_a_password_in_a_place(scheme, rest, user, password):
    with pytest.raises(UsageError) as refused:
        opened(repository=f"{scheme}://{user}:{password}@{rest}", password="x")
    assert "hidden" not in str(refused.value)
