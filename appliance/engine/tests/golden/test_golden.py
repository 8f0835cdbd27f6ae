"""Repositories of released format versions stay readable: what was recorded is what is there.

The repositories and what is expected of them are never edited; `make` says how they were made.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from golden.make import ENCRYPTIONS, HERE, PASSPHRASE, contents
from kit.user import User

RECORDED = sorted((*HERE.glob("version-*.tar.gz"), *HERE.glob("*/repositories.tar.gz")))
NAMES = [str(path.relative_to(HERE)).split(".tar")[0] for path in RECORDED]


@pytest.fixture(scope="module", params=RECORDED, ids=NAMES)
def golden(request: pytest.FixtureRequest) -> Iterator[tuple[Path, dict[str, Any]]]:
    """A folder with the repositories of a version, and what is expected of each."""
    folder = Path(tempfile.mkdtemp(prefix="golden-"))
    with tarfile.open(request.param) as tar:
        # Debian 12's Python does not know the argument yet.
        tar.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    with gzip.open(str(request.param).replace(".tar.gz", ".json.gz"), "rt") as file:
        expected = json.load(file)
    yield folder, expected
    shutil.rmtree(folder)


@pytest.fixture(params=ENCRYPTIONS)
def case(
    golden: tuple[Path, dict[str, Any]], request: pytest.FixtureRequest, tmp_path: Path
) -> tuple[User, dict[str, Any]]:
    """A user with a copy of one repository, and what is expected of it."""
    folder, expected = golden
    user = User(tmp_path, environment={"STRONGROOM_PASSWORD": PASSPHRASE})
    shutil.copytree(folder / request.param, user.repository)
    return user, expected[request.param]


def test_every_entry_is_listed_as_it_was(case: tuple[User, dict[str, Any]]) -> None:
    user, expected = case
    snapshots = {item["id"]: item for item in user.snapshots()}
    assert set(snapshots) == set(expected["snapshots"])
    for name, recorded in expected["snapshots"].items():
        # A later release may say more of a snapshot or an entry, never less.
        assert recorded["snapshot"].items() <= snapshots[name].items()
        listed = user.run("ls", name, "/", "-R").of_type("entry")
        for before, now in zip(recorded["entries"], listed, strict=True):
            assert {key: now.get(key) for key in before} == before


def test_every_file_is_restored_as_it_was(case: tuple[User, dict[str, Any]]) -> None:
    user, expected = case
    for name, recorded in expected["snapshots"].items():
        target = user.folder / "restored"
        outcome = user.run("restore", name, "--target", target)
        assert outcome.code == 0 or os.geteuid() != 0, outcome.objects
        assert contents(target) == recorded["contents"]
        shutil.rmtree(target)


def test_every_byte_is_found_sound_and_a_wrong_passphrase_refused(
    case: tuple[User, dict[str, Any]],
) -> None:
    user, _ = case
    outcome = user.run("check", "--read-data")
    assert outcome.code == 0, (outcome.messages, outcome.objects)
    user.environment["STRONGROOM_PASSWORD"] = "another"
    assert user.run("snapshots").error == "wrong-key"


def test_a_put_key_of_then_adds_to_what_was_stored_then(
    case: tuple[User, dict[str, Any]], source: Path
) -> None:
    user, expected = case
    (user.folder / "put.key").write_text(expected["put_key"])
    agent = User(user.folder, credentials=("--key-file", str(user.folder / "put.key")))
    text = next(iter(expected["snapshots"].values()))["contents"]
    name = next(path for path in text if path.endswith("/noise"))
    target = user.restore(next(iter(expected["snapshots"])))
    (source / "known").write_bytes((target / name).read_bytes())
    (source / "new").write_bytes(b"new")
    assert agent.backup(source, "--host", "golden").summary["new_bytes"] == 3
    restored = user.restore("latest", 0, "--host", "golden")
    assert (restored / str(source / "new")[1:]).read_bytes() == b"new"
