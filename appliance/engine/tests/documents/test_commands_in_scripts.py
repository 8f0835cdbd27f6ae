"""Every command and option of ours that a unit, script, role or scenario calls is there.

Most of these run on hosts only, which `make test` does not have.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import strongroom
from documents.test_commands_in_documents import PROJECT, require_known
from kit.project import PACKAGES, UNITS
from strongroom.cli.main import command_parser

# The names of Debian's packages, which are listed as words too, begin with our name.
_CALL = re.compile(
    r"(?<![\w.@=-])(?:/[\w/]+/)?strongroom (?:--json )?(?!strongroom)([a-z][a-z-]*)(?= |$)(.*)"
)
_END = re.compile(r"[|;&<>)]|\s#|\"$|'$")
_UNIT_CALL = re.compile(r"^Exec\w+=(?:\S*/strongroom|\$\{program\}) (.*)", re.MULTILINE)


def scripts() -> list[Path]:
    """Shell scripts, those of the packages too."""
    found = [PACKAGES / "debian/rules", *PACKAGES.glob("debian/*.p*")]
    return [*found, *PROJECT.glob("appliance/**/*.sh"), *PROJECT.glob("molecule/**/*.sh")]


def playbooks() -> list[Path]:
    """Playbooks, tasks of roles, and scenarios."""
    folders = ("ansible", "molecule", "roles")
    return [path for one in folders for path in (PROJECT / one).rglob("*.yml")]


def units() -> list[Path]:
    """Unit files that start our command."""
    templates = Path(strongroom.__file__).parent / "cli/schedule/unit_templates"
    found = [*UNITS.glob("*.service"), *templates.glob("*/*.service")]
    found += [*PACKAGES.glob("units/*.service"), *PROJECT.glob("roles/*/templates/*.service.j2")]
    return [path for path in found if _UNIT_CALL.search(path.read_text("utf-8"))]


def lines_of_script(text: str) -> Iterator[str]:
    """Lines without comments, those that are continued as one."""
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        if not line.lstrip().startswith("#"):
            yield line


def lines_of_playbook(value: Any, key: str = "") -> Iterator[str]:
    """The command lines anywhere in what YAML holds."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from lines_of_playbook(one, str(name).removeprefix("ansible.builtin."))
    elif isinstance(value, list):
        if key == "argv":
            yield " ".join(map(str, value))
        for one in value:
            yield from lines_of_playbook(one)
    elif key in {"argv", "cmd", "command", "shell"}:
        # Also of a list in Jinja: "{{ ['strongroom', 'tune'] + more }}".
        yield from lines_of_script(re.sub(r"', '|\['|'\]|',$", " ", str(value)))


def calls(lines: Iterator[str]) -> list[tuple[str, str]]:
    """Command, and the rest up to another program's words."""
    found = [call for line in lines for call in _CALL.findall(line)]
    return [(name, _END.split(rest, maxsplit=1)[0]) for name, rest in found]


class PlaybookLoader(yaml.SafeLoader):
    """YAML with tags of Ansible."""


PlaybookLoader.add_multi_constructor("!", lambda *_: None)


def test_what_scripts_call_is_there():
    found = [one for path in scripts() for one in calls(lines_of_script(path.read_text("utf-8")))]
    require_known(found)
    assert len(found) > 70


def test_what_playbooks_and_roles_call_is_there():
    documents = (
        document
        for path in playbooks()
        for document in yaml.load_all(path.read_text("utf-8"), Loader=PlaybookLoader)
    )
    found = [one for document in documents for one in calls(lines_of_playbook(document))]
    require_known(found)
    assert len(found) > 40


@pytest.mark.parametrize("unit", units(), ids=lambda unit: f"{unit.parent.name}-{unit.name}")
def test_the_command_line_of_a_unit_is_understood(unit):
    text = re.sub(r"\{\{.*?\}\}", "TEXT", unit.read_text("utf-8"))
    for line in _UNIT_CALL.findall(text):
        name, *words = shlex.split(line)
        command_parser(name).parse_args(words)
