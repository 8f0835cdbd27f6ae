"""`strongroom catalog` copies the catalog and brings it back, from a file or from repositories."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from kit.tiny_backup import CHEAP
from strongroom.daemons.director.catalog.database import open_catalog
from strongroom.daemons.director.catalog.runs import RunRecord, add_run, find_runs, new_run_id
from strongroom.daemons.director.catalog.snapshots import find_snapshots
from strongroom.daemons.director.results import RunFilter, SnapshotFilter
from strongroom.repo.repository import Repository
from strongroom.stores.local import LocalStore

CONFIGURATION = """
Director {{ Name = dir; Password = "x"; WorkingDirectory = "{folder}/{work}" }}
Messages {{ Name = M; Append = "{folder}/log" = all }}
Catalog {{ Name = C; DbName = catalog; DbUser = none }}
Client {{ Name = web1; Address = web1; Password = "x" }}
FileSet {{ Name = All; Include {{ File = / }} }}
Storage {{ Name = main; Address = s; Password = "x"; Device = d; MediaType = F
  Repository = "{folder}/repository"; PassphraseFile = "{folder}/passphrase" }}
Pool {{ Name = Daily }}
Job {{ Name = nightly; Type = Backup; Client = web1; FileSet = All; Storage = main; Pool = Daily
  Messages = M }}
"""


@pytest.fixture
def place(tmp_path):
    for work in ("one", "two"):
        folder = tmp_path / work / "director.d" / "all"
        folder.mkdir(parents=True)
        text = CONFIGURATION.format(folder=tmp_path, work=f"work-{work}")
        (folder / "all.conf").write_text(text)
    (tmp_path / "passphrase").write_bytes(b"secret\n")
    (tmp_path / "passphrase").chmod(0o600)
    Repository.create(LocalStore(str(tmp_path / "repository")), b"secret", cost=CHEAP).close()
    return tmp_path


def strongroom(*words: str, code: int = 0) -> list[dict]:
    ended = subprocess.run(
        [sys.executable, "-m", "strongroom", *words, "--json"],
        capture_output=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == code, ended.stderr.decode()
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_a_catalog_goes_to_a_file_and_into_another_catalog(place):
    catalog = open_catalog(f"sqlite:///{place}/work-one/catalog.sqlite")
    run = add_run(catalog, RunRecord(id=new_run_id(), job="nightly", kind="backup", state="done"))
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
    assert said == [{"type": "catalog-rebuild", "storage": "main", "snapshots": 1}]
    catalog = open_catalog(f"sqlite:///{place}/work-one/catalog.sqlite")
    found = find_snapshots(catalog, SnapshotFilter())
    assert [(one.id, one.client, one.job, one.pool) for one in found] == [
        (made, "web1", "nightly", "Daily")
    ]
    catalog.close()
    strongroom("catalog", "--config", str(place / "one"), "rebuild", "--storage", "x", code=60)
