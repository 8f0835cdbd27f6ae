"""How a machine becomes an agent of a real director, and stays one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.director_server import RunningDirector
from kit.prepared_commands import run_for_text
from strongroom.agent.put_keys import read_put_keys
from strongroom.net.identities.identity import Identity

LIFETIME_SECONDS = 3600.0
CONFIGURATION = """
Client {{ Name = web1; Identity Directory = "{identity}"; Working Directory = "{working}" }}
Director {{ Name = boss; Password = x; Address = localhost; Port = {port}; Reconnection Time = 1 }}
"""


@pytest.fixture(scope="module")
def director(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDirector]:
    with RunningDirector(tmp_path_factory.mktemp("director").resolve()) as running:
        yield running


def new_token(director: RunningDirector, name: str, path: Path) -> Path:
    made = director.house.authority.tokens.create(name, "agent", LIFETIME_SECONDS)
    path.write_text(made.text + "\n")
    path.chmod(0o600)
    return path


def agent(*words: str, exit_code: int = 0) -> str:
    answer = run_for_text(["agent", *words], os.environ)
    assert answer.returncode == exit_code, answer.stderr
    return answer.stdout + answer.stderr


def enrol(running: RunningDirector, folder: Path, token: Path, **changed: str) -> list[str]:
    options = {
        "director": running.url,
        "token-file": str(token),
        "fingerprint": running.house.authority.fingerprint,
        "name": "web1",
        "into": str(folder),
        **changed,
    }
    return ["enrol", *(word for name, text in options.items() for word in (f"--{name}", text))]


def configured(director: RunningDirector, folder: Path, identity: Path) -> Path:
    path = folder / "agent.conf"
    working = folder / "working"
    path.write_text(CONFIGURATION.format(identity=identity, working=working, port=director.port))
    return path


def test_a_token_is_good_for_a_certificate_and_a_put_key_once(
    director: RunningDirector, tmp_path: Path
) -> None:
    token = new_token(director, "web1", tmp_path / "token")
    folder = tmp_path / "identity"
    said = agent(*enrol(director, folder, token))
    assert "web1 is now an agent of Director boss" in said
    identity = Identity.load(str(folder))
    assert (identity.name, identity.role) == ("web1", "agent")
    assert len(read_put_keys(str(folder))) == 1
    assert token.read_text().strip() not in said
    again = agent(*enrol(director, tmp_path / "other", token), exit_code=33)
    assert "refuses" in again
    assert not (tmp_path / "other").exists()


def test_a_token_is_never_told_to_somebody_else(director: RunningDirector, tmp_path: Path) -> None:
    token = new_token(director, "web1", tmp_path / "token")
    wrong = enrol(director, tmp_path / "identity", token, fingerprint="ab" * 32)
    assert "fingerprint" in agent(*wrong, exit_code=33)
    # It was not used up.
    agent(*enrol(director, tmp_path / "identity", token))


def test_what_is_wrong_is_said(director: RunningDirector, tmp_path: Path) -> None:
    agent("enrol", "--director", director.url, exit_code=2)
    agent(*enrol(director, tmp_path / "i", tmp_path / "absent"), exit_code=2)
    token = new_token(director, "web1", tmp_path / "token")
    agent(*enrol(director, tmp_path / "i", token, director="ftp://x"), exit_code=2)
    agent(*enrol(director, tmp_path / "i", token, director="https://127.0.0.1:1"), exit_code=65)
    agent(*enrol(director, tmp_path / "i", token, name="web2"), exit_code=33)


def test_a_certificate_is_renewed_with_a_new_key(director: RunningDirector, tmp_path: Path) -> None:
    folder = tmp_path / "identity"
    agent(*enrol(director, folder, new_token(director, "web1", tmp_path / "token")))
    before = Identity.load(str(folder))
    path = str(configured(director, tmp_path, folder))
    agent("renew", "--config", path, exit_code=33)
    director.house.authority.permit_renewal("web1")
    agent("renew", "--config", path)
    after = Identity.load(str(folder))
    assert (after.name, after.role) == (before.name, before.role)
    assert after.serial != before.serial
    assert after.key_pem != before.key_pem
    assert after.authority_pem == before.authority_pem


def test_an_enrolled_agent_is_connected_and_a_revoked_one_cut_off(
    director: RunningDirector, tmp_path: Path
) -> None:
    folder = tmp_path / "identity"
    agent(*enrol(director, folder, new_token(director, "web1", tmp_path / "token")))
    path = configured(director, tmp_path, folder)
    assert "Director boss: dials localhost" in agent("--config", str(path), "--check")

    def connected() -> bool:
        with director.client("admin") as client:
            found = client.get("/clients/web1").json()
        return bool(found["connected"])

    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "strongroom", "agent", "--config", str(path)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        director.wait_for(connected)
        director.house.authority.revoke("web1")
        director.wait_for(lambda: not connected())
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's file is trusted by restores")
def test_root_enrols_and_restores_trust_the_authority_beside_the_configuration(
    director: RunningDirector, tmp_path: Path
) -> None:
    folder = tmp_path / "identity"
    configuration = configured(director, tmp_path, folder)
    (tmp_path / "restore.socket").touch()
    place = f'Restore Socket = "{tmp_path}/restore.socket"; Identity Directory'
    configuration.write_text(configuration.read_text().replace("Identity Directory", place))
    token = new_token(director, "web1", tmp_path / "token")
    agent(*enrol(director, folder, token), "--config", str(configuration))
    authority = tmp_path / "authority.pem"
    assert authority.read_bytes() == (folder / "authority.pem").read_bytes()
    assert "authority.pem is missing" not in agent("--check", "--config", str(configuration))
    authority.unlink()
    assert "authority.pem is missing" in agent("--check", "--config", str(configuration))
