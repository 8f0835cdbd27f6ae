"""What the documents say of the project is there: links outside docs/, tests, generated pages.

`make docs` checks the links inside docs/.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kit.project import DOCUMENTS, PROGRAM, ROLES, TESTS

PROJECT = DOCUMENTS.parent
# Each promise of docs/security.md, and the tests that try to break it.
PROMISES = TESTS / "promises.md"


def anchors(page: Path) -> set[str]:
    """What the headings of a page are called in links."""
    headings = re.findall(r"^#+ +(.+)$", page.read_text("utf-8"), re.MULTILINE)
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {one.replace(" ", "-") for one in kept}


@pytest.mark.parametrize(
    "page", [*PROJECT.glob("*.md"), PROMISES], ids=lambda page: page.relative_to(PROJECT).as_posix()
)
def test_links_of_pages_outside_docs_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text("utf-8")):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_readme_names_the_two_commands():
    text = (PROJECT / "README.md").read_text("utf-8")
    assert "make demo" in text
    assert "make test" in text


def test_each_change_begins_with_its_kind():
    kinds = re.findall(r"`([A-Z]\w+)`", (PROJECT / "changelog" / "README.md").read_text("utf-8"))
    assert len(kinds) == 5
    for change in (PROJECT / "changelog" / "unreleased").glob("*.md"):
        assert change.read_text("utf-8").partition(": ")[0] in kinds, change.name


def test_every_page_says_for_whom_it_is():
    for page in DOCUMENTS.rglob("*.md"):
        if page != DOCUMENTS / "index.md":
            assert re.match(r"# .+\n\n\*For ", page.read_text("utf-8")), page


def rows_of(page: str | Path) -> list[list[str]]:
    """The cells of all tables of a page; a text is a path below docs/."""
    lines = (DOCUMENTS / page).read_text("utf-8").splitlines()
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line[:1] == "|"]


def test_the_page_on_tuning_gives_every_knob_the_default_of_the_table():
    overview = [row for row in rows_of("reference/knobs.md") if row[0].startswith("[")]
    defaults = {row[0][1:].partition("]")[0]: row[-1] for row in overview}
    told = {
        name: row[1]
        for row in rows_of("guides/tune.md")
        for name in row[0].split(", ")
        if name in defaults
    }
    assert told == defaults


# Roles whose settings are for speed, or beside it.
TUNING_ROLES = ("kernel_tuning", "disk_tuning", "ktls", "hardening")


def cells_of_settings() -> dict[str, list[str]]:
    """Setting -> the further cells of its row in the page on tuning."""
    return {
        name: row[1:]
        for row in rows_of("guides/tune.md")
        for name in re.findall(r"`([\w.]+)`", row[0])
    }


@pytest.mark.parametrize("role", TUNING_ROLES)
def test_the_page_on_tuning_has_every_variable_of_the_roles_that_tune(role):
    specs = yaml.safe_load((ROLES / role / "meta/argument_specs.yml").read_text("utf-8"))
    assert set(specs["argument_specs"]["main"]["options"]) <= set(cells_of_settings())


def test_the_page_on_tuning_gives_variables_the_defaults_of_the_inventory():
    inventory = {row[0].strip("`"): row[2] for row in rows_of("reference/inventory.md")}
    variables = {name: cells[0] for name, cells in cells_of_settings().items() if name in inventory}
    assert variables
    assert variables == {name: inventory[name] for name in variables}


@pytest.mark.parametrize("role", ["kernel_tuning", "hardening"])
def test_the_page_on_tuning_has_every_kernel_setting_and_the_value_that_the_role_writes(role):
    variables = yaml.safe_load((ROLES / role / "vars/main.yml").read_text("utf-8"))
    written = dict(settings_in(variables))
    assert len(written) > 10
    told = cells_of_settings()
    for name, value in written.items():
        values = " ".join(re.findall(r"`([^`]+)`", " ".join(told[name][:2])))
        # Of a value that is computed, what is not.
        for word in re.sub(r"{{.*}}", "", str(value)).split():
            assert word in values.split(), f"{name} = {value}"


def settings_in(variables: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Kernel settings and their values, at any depth."""
    for name, value in variables.items():
        if "." in name:
            yield name, value
        elif isinstance(value, dict):
            yield from settings_in(value)


def test_every_setting_of_the_page_on_tuning_says_what_was_measured_and_where_it_is_from():
    rows = [row for row in rows_of("guides/tune.md") if not set(row[0]) <= set("-:")]
    assert {tuple(row[-2:]) for row in rows if row[0] in ("knob", "setting")} == {
        ("measured effect", "seed")
    }
    for row in rows:
        assert all(row), row


def test_the_tests_that_documents_name_are_there():
    named = {
        name
        for page in (*DOCUMENTS.rglob("*.md"), PROMISES)
        for name in re.findall(r"`(test_\w+)`", page.read_text("utf-8"))
    }
    defined = {
        name
        for folder in (TESTS, PROGRAM / "tests", PROJECT / "appliance/tests", PROJECT / "tests")
        for module in folder.rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)", module.read_text("utf-8"))
    }
    assert named
    assert named - defined == set()


def promises_of(page: str | Path, heading: str) -> list[str]:
    """The first cells of the tables whose second column has a heading; links without places."""
    found: list[str] = []
    is_wanted = False
    for cells in rows_of(page):
        if cells[0] in ("promise", "rule"):
            is_wanted = cells[1] == heading
        elif len(cells) != 2:
            is_wanted = False
        elif is_wanted and not cells[0].startswith("---"):
            assert cells[1], cells
            found.append(re.sub(r"\]\([^)]+\)", "]", cells[0]))
    return found


def test_each_promise_about_security_has_tests_that_try_to_break_it():
    promised = promises_of("security.md", "held by")
    shown = promises_of(PROMISES, "shown by")
    assert len(promised) > 100
    assert promised == shown
    assert not re.findall(r"`test_\w+`", (DOCUMENTS / "security.md").read_text("utf-8"))


def test_the_reference_of_the_commands_is_what_the_parsers_say():
    words = [sys.executable, "-m", "strongroom.cli.command_reference", "--check"]
    done = subprocess.run(
        [*words, DOCUMENTS / "reference"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_stale_reference_is_named(tmp_path):
    words = [sys.executable, "-m", "strongroom.cli.command_reference"]
    subprocess.run([*words, tmp_path], check=True)
    page = tmp_path / "commands-daemons.md"
    page.write_text(page.read_text("utf-8") + "more\n", "utf-8")
    done = subprocess.run(
        [*words, tmp_path, "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.splitlines() == [f"stale: {page}; run make reference"]
