"""`strongroom recover` brings back the director's own backup, whatever agents stored."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from kit.made_appliance import MadeAppliance
from kit.tiny_backup import back_up
from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import Snapshot, write_snapshot
from strongroom.engine.stores.local import LocalStore

TEN_YEARS_NS = 10 * 365 * 86400 * SECOND_NS
DIRECTOR = "vault-dir"


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> MadeAppliance:
    """An appliance that has backed up its catalog, and is stopped; its repository is left."""
    with MadeAppliance(tmp_path_factory.mktemp("lost")) as appliance:
        appliance.start()
        told = appliance.told("run", "housekeeping", "--watch")
        assert told["state"] == "done"
    return appliance


def place(appliance: MadeAppliance) -> tuple[str, ...]:
    passphrase = appliance.folder / "state/director/passphrase"
    return ("--repo", f"{appliance.folder}/repository", "--password-file", str(passphrase))


def forge(appliance: MadeAppliance, name: str, generation: int = 0, **said: object) -> Snapshot:
    """What the holder of a client's key can store: a sound snapshot that says whatever it likes."""
    passphrase = (appliance.folder / "state/director/passphrase").read_text().strip()
    opened = Repository.open(LocalStore(f"{appliance.folder}/repository"), passphrase.encode())
    client = opened.for_client(name, generation)
    snapshot = opened.snapshot(back_up(client, {b"attacker.conf": b"Director { }\n"}).id)
    told = msgspec.structs.replace(
        snapshot, **{"start_ns": clock.now_ns() + TEN_YEARS_NS, "job": "catalog", **said}
    )
    stored = write_snapshot(client.store, client.writer, told, client.cipher)
    opened.store.delete("snapshots", snapshot.id)
    opened.close()
    return stored


def test_what_an_agent_stored_is_not_taken_for_the_directors_backup(
    lost: MadeAppliance, tmp_path: Path
) -> None:
    folder = lost.folder
    tags = ("strongroom-catalog",)
    paths = (b"var/lib/strongroom/director/catalog-backup", str(folder / "etc").encode()[1:])
    for name, generation in (("web1", 0), ("web1", 1), (DIRECTOR, 1)):
        forge(lost, name, generation, tags=tags, paths=paths)
    # What the documentation told to do.
    back = str(tmp_path / "back")
    words = ("restore", "latest", "--job", "catalog", "--target", back, *place(lost))
    refused = lost.command(*words, exit_code=2)
    assert "web1" in refused.stderr
    assert DIRECTOR in refused.stderr
    assert not (tmp_path / "back").exists()
    told = lost.told("recover", DIRECTOR, "--target", back, *place(lost))
    assert told["director"] == DIRECTOR
    assert not list((tmp_path / "back").rglob("attacker.conf"))
    (configuration,) = told["configuration"]
    assert configuration == f"{back}{folder}/etc"
    assert (tmp_path / f"back{folder}/etc/director.d").is_dir()
    with open(told["catalog"], encoding="utf-8") as catalog:
        assert len([json.loads(line) for line in catalog]) > 3
    # It is a whole configuration, and the catalog fits into a new one.
    lost.command("config", "check", configuration)


def test_without_a_name_the_clients_with_such_backups_are_listed(lost: MadeAppliance) -> None:
    forge(lost, "web1", tags=("strongroom-catalog",))
    lines = lost.command("recover", "--json", *place(lost)).stdout.splitlines()
    assert [json.loads(line)["name"] for line in lines] == [DIRECTOR, "web1"]
    lost.command("recover", DIRECTOR, *place(lost), exit_code=2)


def test_it_is_written_into_an_empty_folder_only(lost: MadeAppliance, tmp_path: Path) -> None:
    folder = tmp_path
    (folder / "back").mkdir()
    (folder / "back/mine").touch()
    words = ("recover", DIRECTOR, "--target", str(folder / "back"), *place(lost))
    lost.command(*words, exit_code=2)
    assert [path.name for path in (folder / "back").iterdir()] == ["mine"]
    lost.command("recover", "nobody", "--target", str(folder / "new"), *place(lost), exit_code=5)
    assert not (folder / "new").exists()
