"""A compromised agent, without rights of its own, waits until root joins its machine anew.

Its folder is its own: it may put anything there, before and meanwhile.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from kit.director_server import RunningDirector
from strongroom.agent.joining import Wanted, join
from strongroom.agent.restore_authority import keep_restore_authority
from strongroom.base.errors import PeerRefusedError, StrongroomError, UsageError
from strongroom.net.identities.authority import Authority
from strongroom.net.identities.identity import Identity, new_key

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="root joins")

NAME = "web9"
# Changes a folder on the way at the given call that gives something away.
GIVING = """
import os, sys
from strongroom.net.identities.private_files import give_tree
folder, at, seen = os.fsencode(sys.argv[1]), int(sys.argv[2]), 0
def change(event, words):
    global seen
    if event == "os.chown":
        seen += 1
        if seen == at:
            os.rename(folder + b"/own", folder + b"/elsewhere")
            os.symlink(b"../outside", folder + b"/own")
sys.addaudithook(change)
give_tree(folder, "nobody")
print(seen)
"""


class Machine:
    """A machine of which a director knows the agent."""

    def __init__(self, director: RunningDirector, folder: Path) -> None:
        self.director = director
        self.configuration = folder / "etc"
        self.state = folder / "state"
        self.identity = self.state / "identity"
        self.trusted = self.configuration / "authority.pem"

    def token(self) -> str:
        tokens = self.director.house.authority.tokens
        return tokens.create(NAME, "agent", 3600, new_client=False).text

    def join(self, token: str = "", fingerprint: str = "") -> list[str]:
        places = (str(self.configuration), str(self.state))
        return join(Wanted(self.director.url, token, NAME, fingerprint, *places), NAME).changed


@pytest.fixture
def machine(asked_director: RunningDirector, tmp_path: Path) -> Machine:
    made = Machine(asked_director, tmp_path / "machine")
    made.join(made.token())
    return made


def appended(machine: Machine, foreign: Authority) -> None:
    """The director's certificate is accepted all the same."""
    path = machine.identity / "authority.pem"
    path.write_bytes(path.read_bytes() + foreign.certificate_pem)


def exchanged(machine: Machine, foreign: Authority) -> None:
    """No director is reached any more; that happens."""
    foreign.issue_identity(str(machine.identity), NAME, "agent")


@pytest.mark.parametrize("has_token", [False, True])
@pytest.mark.parametrize("change", [appended, exchanged])
@pytest.mark.parametrize("is_there", [False, True])
def test_restores_trust_no_authority_of_the_agents_folder(
    machine, tmp_path, change, has_token, is_there
):
    true = machine.trusted.read_bytes()
    if not is_there:
        machine.trusted.unlink()
    change(machine, Authority.create(str(tmp_path / "false-ca"), "house"))
    try:
        machine.join(machine.token() if has_token else "")
    except StrongroomError:
        assert change is exchanged or not (has_token or is_there)
    if is_there or machine.trusted.exists():
        assert machine.trusted.read_bytes() == true


def test_without_its_fingerprint_a_lost_authority_is_not_guessed(machine):
    true = machine.trusted.read_bytes()
    machine.trusted.unlink()
    with pytest.raises(UsageError, match="--ca-fingerprint"):
        machine.join()
    assert not machine.trusted.exists()
    fingerprint = machine.director.house.authority.fingerprint
    assert machine.join(fingerprint=fingerprint.upper()) == [f"wrote {machine.trusted}"]
    assert machine.trusted.read_bytes() == true
    assert machine.join(fingerprint=fingerprint) == machine.join() == []


def test_enrolling_keeps_the_authority_of_the_fingerprint_and_no_other(machine, tmp_path):
    foreign = Authority.create(str(tmp_path / "false-ca"), "house")
    true, wanted = machine.trusted.read_bytes(), machine.director.house.authority.fingerprint
    configuration = str(machine.configuration)
    machine.trusted.write_bytes(foreign.certificate_pem)
    with pytest.raises(PeerRefusedError, match="fingerprint"):
        keep_restore_authority(configuration, foreign.certificate_pem, wanted)
    keep_restore_authority(configuration, foreign.certificate_pem + true, wanted)
    assert machine.trusted.read_bytes() == true


def test_no_key_that_lies_in_the_agents_folder_gets_the_new_certificate(machine):
    planted = new_key()
    for path in machine.identity.iterdir():
        if path.is_file():
            path.unlink()
    for name in ("joining.pem", "key.pem", "key.next.pem"):
        (machine.identity / name).write_bytes(planted)
        (machine.identity / name).chmod(0o600)
    machine.join(machine.token())
    found = load_pem_private_key(Identity.load(str(machine.identity)).key_pem, None).public_key()
    assert found != load_pem_private_key(planted, None).public_key()


def test_nothing_outside_of_its_folder_is_given_to_the_agent(tmp_path):
    given, at = 1, 0
    while at <= given:
        at += 1
        place = tmp_path / str(at)
        for folder in ("state/own", "outside"):
            (place / folder).mkdir(parents=True)
            (place / folder / "shadow").write_text("root's")
        words = [sys.executable, "-c", GIVING, str(place / "state"), str(at)]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        given = int(done.stdout)
        for path in (place, place / "outside", place / "outside" / "shadow"):
            assert path.stat().st_uid == 0, (at, path)
        assert (place / "state").stat().st_uid != 0
    assert at > 3
