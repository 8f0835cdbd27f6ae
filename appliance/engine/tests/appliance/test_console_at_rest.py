"""The page that stands on a console: what it says of the authority, and what it keeps in memory."""

from __future__ import annotations

import subprocess
import sys

from strongroom.appliance.console.status import authority_fingerprint
from strongroom.net.identities.authority import Authority

AT_REST = """
import sys
from strongroom.appliance.console import menu
from strongroom.appliance.console.status import status_lines
status_lines()
large = {"cryptography", "pyparsing", "yaml", "zstandard", "blake3", "strongroom.repo"}
print(*sorted(large & set(sys.modules)))
"""
IN_THE_MENU = """
from strongroom.appliance.console import menu
for key, text, place in menu._ACTIONS:
    assert callable(menu._action(place)), text
print(len(menu._ACTIONS))
"""


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


def test_a_console_that_nobody_uses_holds_none_of_the_large_libraries():
    assert said_by(AT_REST) == ""


def test_each_line_of_the_menu_has_its_function():
    assert int(said_by(IN_THE_MENU)) > 10
