"""The page that is on a console: what it says of the authority, and what it keeps in memory."""

from __future__ import annotations

import subprocess
import sys

from appliance_kit.console_on_terminal import ConsoleOnTerminal
from appliance_kit.private_machine import SCRIPTS
from strongroom.net.identities.authority import Authority
from strongroom_appliance.console.status import authority_fingerprint

LARGE = {
    "cryptography",
    "pyparsing",
    "yaml",
    "zstandard",
    "blake3",
    "httpx",
    "rich",
    "strongroom.engine.repository",
}
IN_THE_MENU = """
from strongroom_appliance.console import menu
for key, text, place in menu._ACTIONS:
    assert callable(menu._action(place)), text
print(len(menu._ACTIONS))
"""


def imported(said):
    """What Python has told of its imports so far."""
    return {line.rpartition("|")[2].strip() for line in said.read_text().splitlines()}


def said_by(program):
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_the_fingerprint_is_that_of_the_authority(tmp_path):
    authority = Authority.create(str(tmp_path / "ca"), "house")
    assert authority_fingerprint(str(tmp_path / "ca")) == authority.fingerprint


def test_without_an_authority_or_with_a_damaged_one_there_is_none(tmp_path):
    assert authority_fingerprint(str(tmp_path)) == ""
    (tmp_path / "root.pem").write_bytes(b"-----BEGIN CERTIFICATE-----\n\xff")
    assert authority_fingerprint(str(tmp_path)) == ""
    (tmp_path / "root.pem").write_bytes(b"-----BEGIN CERTIFICATE-----\n")
    assert authority_fingerprint(str(tmp_path)) == ""


def test_a_console_that_nobody_uses_holds_none_of_the_large_libraries(machine):
    said = machine.path("/var/tmp/said")
    begin = (
        "PYTHONPROFILEIMPORTTIME=1 exec setsid --ctty --wait $1 console --login 2> /var/tmp/said"
    )
    words = ["sh", "-c", begin, "sh", str(SCRIPTS / "strongroom-appliance")]
    with ConsoleOnTerminal(machine.command(*words)) as console:
        console.wait_for("Strongroom", "NOT SET UP", "Enter opens the menu")
        at_rest = imported(said)
        console.press("enter")
        console.wait_for("Power off")
        console.press("8")
        console.wait_for("Enter goes back")
        in_the_menu = imported(said)
    assert "strongroom_appliance.console.status" in at_rest
    assert sorted(LARGE & at_rest) == []
    assert in_the_menu >= LARGE - {"zstandard"}


def test_each_line_of_the_menu_has_its_function():
    assert int(said_by(IN_THE_MENU)) > 10
