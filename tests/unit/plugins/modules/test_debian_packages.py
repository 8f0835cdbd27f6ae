"""With the packages of the machine that tests: what is there is left alone, and a check installs nothing."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from ansible_collections.strongroom.backup.plugins.modules import debian_packages

pytestmark = pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="packages of Debian")
MISSING = "strongroom-that-no-list-has"


def version_of(name):
    command = ["dpkg-query", "--show", "--showformat=${Version}", name]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_what_is_there_is_left_alone(run_module):
    for names in (["dpkg"], ["dpkg=" + version_of("dpkg"), "apt"]):
        told = run_module(debian_packages, names=names)
        assert (told["changed"], told["packages"]) == (False, [])
    assert not run_module(debian_packages, names=[MISSING], state="absent")["changed"]


@pytest.mark.parametrize("name", [MISSING, MISSING + "=1.0", "dpkg=0.1"])
def test_a_check_says_what_would_be_installed_whatever_lists_there_are(run_module, name):
    before = version_of("dpkg")
    told = run_module(debian_packages, check=True, names=["apt", name])
    own, _is, version = name.partition("=")
    assert (told["changed"], told["packages"]) == (True, [own])
    assert f"{own} {version or 'newest'}\n" in told["diff"]["after"]
    assert "apt " in told["diff"]["before"]
    assert version_of("dpkg") == before


def test_a_check_says_what_would_be_removed(run_module):
    told = run_module(debian_packages, check=True, names=["dpkg", MISSING], state="absent")
    assert (told["changed"], told["packages"]) == (True, ["dpkg"])
    assert version_of("dpkg")


def test_what_no_list_has_is_one_line(run_module):
    told = run_module(debian_packages, names=[MISSING])
    assert told["failed"]
    assert MISSING in told["msg"]
    assert "\n" not in told["msg"]
