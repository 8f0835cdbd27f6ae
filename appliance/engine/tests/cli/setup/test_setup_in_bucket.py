"""An appliance whose repository is in an object store."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit import object_server
from kit.made_appliance import MadeAppliance
from kit.object_server import ENVIRONMENT, ObjectServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectServer]:
    with pytest.MonkeyPatch.context() as environment:
        for name, value in ENVIRONMENT.items():
            environment.setenv(name, value)
        yield from object_server.seaweedfs(tmp_path_factory.mktemp("seaweedfs"))


@pytest.fixture
def appliance(
    tmp_path: Path, server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MadeAppliance]:
    """Its keys are in storage.environment alone."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    with MadeAppliance(tmp_path) as made:
        made.write_answers(repository=f'"{server.text(tmp_path.name[-20:])}"')
        keys = tmp_path / "etc" / "storage.environment"
        keys.parent.mkdir()
        lines = [f"{name}='{value}'\n" for name, value in ENVIRONMENT.items()]
        keys.write_text("# keys of the bucket\n" + "".join(lines))
        keys.chmod(0o600)
        yield made


def test_it_makes_a_repository_there_once_and_the_fleet_works(appliance: MadeAppliance) -> None:
    assert any("s3://" in one for one in appliance.setup()["changed"])
    assert appliance.setup()["changed"] == []
    assert not (appliance.folder / "repository").exists()
    appliance.storage.environment |= ENVIRONMENT  # as the unit does from the file
    appliance.start()
    data = appliance.folder / "data"
    data.mkdir()
    (data / "letter").write_bytes(b"Dear all\n" * 1000)
    groups = appliance.folder / "etc/director.d/jobdefs/groups.conf"
    groups.write_text(groups.read_text().replace("File = /\n", f'File = "{data}"\n'))
    appliance.command("reload")
    appliance.join("web1", appliance.token("--group", "servers", "--names", "web1"))
    appliance.start_agent("web1")
    assert appliance.told("run", "web1", "--watch")["state"] == "done"
    back = appliance.folder / "back"
    appliance.command(
        "restore", "latest:", "--host", "web1", "--client", "web1", "--target", str(back)
    )
    restored = back / str(data).lstrip("/") / "letter"
    assert restored.read_bytes() == (data / "letter").read_bytes()


def test_without_keys_that_are_right_nothing_is_made(appliance: MadeAppliance) -> None:
    keys = appliance.folder / "etc" / "storage.environment"
    keys.write_text(keys.read_text().replace(ENVIRONMENT["AWS_SECRET_ACCESS_KEY"], "wrong"))
    words = ("setup", "appliance", "--answers", str(appliance.answers), "--no-start")
    appliance.command(*words, exit_code=30)
    assert not (appliance.folder / "state" / "director" / "appliance.key").exists()
    keys.write_text("".join(f"{name}={value}\n" for name, value in ENVIRONMENT.items()))
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600
    assert appliance.setup()["changed"]
