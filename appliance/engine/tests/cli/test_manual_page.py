"""The manual pages are whole and make sense to the program that shows them."""

import shutil
import subprocess
import sys

import pytest

from strongroom.cli.main import COMMANDS


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("man") / "man1"
    subprocess.run([sys.executable, "-m", "strongroom.cli.manual_page", made], check=True)
    return made


def test_there_is_a_page_for_every_command(folder):
    expected = {"strongroom.1", *(f"strongroom-{name}.1" for name in COMMANDS)}
    assert {page.name for page in folder.iterdir()} == expected


def test_a_page_names_every_option_of_its_command(folder):
    page = (folder / "strongroom-completion.1").read_text().replace(r"\-", "-")
    for word in ("SHELL", "--repo PLACE", "--json", "--no-cache", ".SH EXAMPLES", "bash, zsh"):
        assert word in page


def test_groff_finds_nothing_to_complain_about(folder):
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    for page in sorted(folder.iterdir()):
        done = subprocess.run(
            ["groff", "-man", "-ww", "-z", "-Tutf8", page],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == "", page.name
