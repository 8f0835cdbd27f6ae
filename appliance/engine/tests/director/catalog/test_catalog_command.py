"""`strongroom catalog` copies the catalog and brings it back, from a file or from repositories."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import closing

import msgspec
import pytest

from kit.postgresql_cluster import KEEPER
from kit.prepared_commands import run_for_text
from kit.sealed_by_hand import snapshot_object, store
from kit.tiny_backup import CHEAP, back_up
from strongroom.base.errors import SetAsideError
from strongroom.director.catalog.database import open_catalog
from strongroom.director.catalog.runs import add_run, find_runs, new_run_id
from strongroom.director.catalog.snapshots import find_snapshots
from strongroom.director.results.runs import Run, RunFilter
from strongroom.director.results.snapshots import SnapshotFilter
from strongroom.engine.repository.repository import Repository
from strongroom.engine.stores.local import LocalStore

CONFIGURATION = """
Director {{ Name = dir; Password = "x"; WorkingDirectory = "{folder}/{work}" }}
Messages {{ Name = M; Append = "{folder}/log" = all }}
Catalog {{ Name = C; {catalog} }}
Client {{ Name = web1; Address = web1; Password = "x" }}
FileSet {{ Name = All; Include {{ File = / }} }}
Storage {{ Name = main; Address = s; Password = "x"; Device = d; MediaType = F
  Repository = "{folder}/repository"; PassphraseFile = "{folder}/passphrase" }}
Pool {{ Name = Daily }}
Job {{ Name = nightly; Type = Backup; Client = web1; FileSet = All; Storage = main; Pool = Daily
  Messages = M }}
"""
SQLITE = "DbName = catalog; DbUser = none"


@pytest.fixture
def place(tmp_path):
    for work in ("one", "two"):
        folder = tmp_path / work / "director.d" / "all"
        folder.mkdir(parents=True)
        text = CONFIGURATION.format(folder=tmp_path, work=f"work-{work}", catalog=SQLITE)
        (folder / "all.conf").write_text(text)
    (tmp_path / "passphrase").write_bytes(b"secret\n")
    (tmp_path / "passphrase").chmod(0o600)
    Repository.create(LocalStore(str(tmp_path / "repository")), b"secret", cost=CHEAP).close()
    return tmp_path


def ended(*words: str, code: int) -> subprocess.CompletedProcess[str]:
    answer = run_for_text(words, os.environ)
    assert answer.returncode == code, answer.stderr
    return answer


def strongroom(*words: str, code: int = 0) -> list[dict]:
    return [json.loads(line) for line in ended(*words, "--json", code=code).stdout.splitlines()]


def refusal(*words: str, code: int) -> str:
    return ended(*words, code=code).stderr


def test_a_catalog_goes_to_a_file_and_into_another_catalog(place):
    catalog = open_catalog(f"sqlite:///{place}/work-one/catalog.sqlite")
    run = add_run(catalog, Run(id=new_run_id(), job="nightly", kind="backup", state="done"))
    catalog.close()
    file = str(place / "copy.jsonl")
    assert strongroom("catalog", "--config", str(place / "one"), "export", file)[-1]["rows"] == 1
    # It does not write over what is there, nor into what is not empty.
    strongroom("catalog", "export", file, "--config", str(place / "one"), code=71)
    strongroom("catalog", "--config", str(place / "one"), "import", file, code=61)
    assert strongroom("catalog", "--config", str(place / "two"), "import", file)[-1]["rows"] == 1
    moved = open_catalog(f"sqlite:///{place}/work-two/catalog.sqlite")
    assert find_runs(moved, RunFilter()) == [run]
    moved.close()


def test_a_catalog_is_made_from_repositories(place):
    (place / "data").write_text("content")
    made = strongroom(
        "backup",
        str(place / "data"),
        "--repo",
        str(place / "repository"),
        "--no-cache",
        "--password-file",
        str(place / "passphrase"),
        "--host",
        "web1",
        "--job",
        "nightly",
    )[-1]["snapshot"]
    said = strongroom("catalog", "--config", str(place / "one"), "rebuild")
    assert said == [{"type": "catalog-rebuild", "storage": "main", "snapshots": 1, "gone": 0}]
    catalog = open_catalog(f"sqlite:///{place}/work-one/catalog.sqlite")
    found = find_snapshots(catalog, SnapshotFilter())
    assert [(one.id, one.client, one.job, one.pool) for one in found] == [
        (made, "web1", "nightly", "Daily")
    ]
    (place / "repository" / "snapshots" / made).unlink()
    said = strongroom("catalog", "--config", str(place / "one"), "rebuild")
    assert (said[0]["snapshots"], said[0]["gone"]) == (0, 1)
    assert find_snapshots(catalog, SnapshotFilter()) == []
    catalog.close()
    strongroom("catalog", "--config", str(place / "one"), "rebuild", "--storage", "x", code=60)


def test_a_rebuild_enters_what_it_can_read_and_names_the_rest(place):
    with closing(Repository.open(LocalStore(str(place / "repository")), b"secret")) as house:
        kept = back_up(house, {b"one": b"content"}, "web1")
        attacker = house.for_client("web2")
        fields = b"\x83" + msgspec.msgpack.encode({"host": "web2", "generation": 0})[1:]
        deep = fields + b"\xa1x" + b"\x91" * 500_000 + b"\xc0"
        hostile = store(attacker, "snapshots", snapshot_object(attacker.writer, deep))
    answer = ended(
        "catalog", "--config", str(place / "one"), "rebuild", code=SetAsideError.exit_code
    )
    assert hostile[:8] in answer.stderr
    catalog = open_catalog(f"sqlite:///{place}/work-one/catalog.sqlite")
    assert [one.id for one in find_snapshots(catalog, SnapshotFilter())] == [kept.id]


def test_a_rebuild_enters_what_it_can_and_says_of_each_storage_what_became_of_it(place):
    file = place / "one" / "director.d" / "all" / "all.conf"
    storage = """Storage {{ Name = {name}; Address = s; Password = "x"; Device = d; MediaType = F
      Repository = "{place}/{name}"; PassphraseFile = "{place}/passphrase" }}
    """
    # One comes before the storage that is whole, one after it.
    file.write_text(
        storage.format(name="away", place=place)
        + file.read_text()
        + storage.format(name="offsite", place=place)
    )
    answer = ended("catalog", "--config", str(place / "one"), "rebuild", "--json", code=10)
    said = {one["storage"]: one for one in map(json.loads, answer.stdout.splitlines())}
    assert said["main"] == {
        "type": "catalog-rebuild", "storage": "main", "snapshots": 0, "gone": 0,
    }  # fmt: skip
    for name in ("away", "offsite"):
        assert said[name]["error_id"] == "repository-not-found"
        assert f"{place}/{name}" in said[name]["error"]
    answer = ended("catalog", "--config", str(place / "one"), "rebuild", code=10)
    assert answer.stdout.startswith("away: could not be read: ")
    assert "main: 0 snapshots added, 0 marked as removed\n" in answer.stdout
    assert "[repository-not-found]: 2 of 3 storages" in answer.stderr


@pytest.mark.parametrize("way", ["directive", "file", "service's own"])
def test_postgresql_is_shown_the_password(own_cluster, tmp_path, monkeypatch, way):
    url = own_cluster.new_database()
    own_cluster.new_keeper("pass word 7", url.database)
    secret = tmp_path / "secret"
    secret.write_text("pass word 7\nnot this line\n")
    own = tmp_path / "passwords"
    own.write_text(f"*:*:{url.database}:{KEEPER}:pass word 7\n")
    own.chmod(0o600)
    if way == "service's own":
        monkeypatch.setenv("PGPASSFILE", str(own))
    said = {"directive": 'Db Password = "pass word 7"', "file": f'Password File = "{secret}"'}
    catalog = f'DbName = {url.database}; DbUser = {KEEPER}; DbSocket = "{own_cluster.folder}"'
    place = tmp_path / "director.conf"
    place.write_text(
        CONFIGURATION.format(
            folder=tmp_path, work="work", catalog=f"{catalog}; {said.get(way, '')}"
        )
    )
    strongroom("catalog", "export", str(tmp_path / "copy"), "--config", str(place))
    # One that is wrong lets no one in, and is not told.
    monkeypatch.delenv("PGPASSFILE", raising=False)
    place.write_text(place.read_text().replace("pass word 7", "another"))
    secret.write_text("another\n")
    refused = refusal("catalog", "export", "-", "--config", str(place), code=67)
    assert "password" in refused
    assert "another" not in refused


@pytest.mark.parametrize(
    ("content", "said", "words", "code"),
    [
        (None, "", "cannot read", 2),
        ("\n", "", "is empty", 2),
        ("a", "DbPassword = b", "has both a DB Password and a Password File", 40),
    ],
)
def test_a_password_file_that_is_no_help_is_told(tmp_path, content, said, words, code):
    secret = tmp_path / "secret"
    if content is not None:
        secret.write_text(content)
    catalog = f'DbName = a; DbUser = b; DbSocket = /nowhere; {said}; Password File = "{secret}"'
    place = tmp_path / "director.conf"
    place.write_text(CONFIGURATION.format(folder=tmp_path, work="work", catalog=catalog))
    assert words in refusal("catalog", "export", "-", "--config", str(place), code=code)
