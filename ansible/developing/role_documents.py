"""Write what follows from the roles' argument specs: defaults, READMEs and the reference of the inventory.

The specs of the engine's knobs are written first, from the engine's own table.

    role_documents.py [--check]

With --check nothing is written; files that differ are named, and the exit code is 1.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import yaml

PROJECT = Path(__file__).resolve().parents[2]
LINE = 120
KNOBS = "      # Knobs of the engine, made from its table by `make roles`.\n"
END_OF_KNOBS = "      # End of the knobs.\n"


class OnOneLine(list):
    """A list that is written in brackets."""


class SpecsDumper(yaml.SafeDumper):
    """Writes lists as yamllint wants them."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Lists are indented."""
        super().increase_indent(flow, False)


SpecsDumper.add_representer(
    OnOneLine, lambda dumper, data: dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=True)
)


def knob_specs() -> str:
    """The options of the engine's knobs, as they stand in the specs of the role agent."""
    sys.path.insert(0, str(PROJECT / "appliance/engine/src"))
    from strongroom.knobs.document import role_arguments

    arguments = role_arguments()
    for argument in arguments.values():
        if len(str(argument.get("choices", "x" * LINE))) < LINE - 20:
            argument["choices"] = OnOneLine(argument["choices"])
    dumped = yaml.dump(arguments, Dumper=SpecsDumper, sort_keys=False, width=80)
    return "".join(f"{' ' * 6}{line}\n" for line in dumped.splitlines())


def with_knobs(text: str) -> str:
    """The text of argument specs, with the knobs of the engine as it is."""
    before, _, rest = text.partition(KNOBS)
    _, _, after = rest.partition(END_OF_KNOBS)
    return before + KNOBS + knob_specs() + END_OF_KNOBS + after


def options_of(role: Path) -> dict[str, Any]:
    """The options of the role's main entry point."""
    specs = yaml.safe_load((role / "meta" / "argument_specs.yml").read_text())
    return specs["argument_specs"]["main"]


def paragraphs(description: str | list[str]) -> list[str]:
    """A description, a paragraph an entry."""
    return [description] if isinstance(description, str) else list(description)


def comment(description: str | list[str]) -> list[str]:
    """A description as the comment above a variable."""
    lines = []
    for paragraph in paragraphs(description):
        line = "#"
        for word in plain(paragraph).split():
            if len(line) + 1 + len(word) > LINE:
                lines.append(line)
                line = "#"
            line += " " + word
        lines.append(line)
    return lines


def plain(text: str) -> str:
    """Ansible's marks removed."""
    return re.sub(r"\b[COVEP]\(((?:[^()\\]|\\.)*)\)", r"\1", text)


def markdown(text: str) -> str:
    """Ansible's marks as Markdown has them."""
    return re.sub(r"\b[COVEP]\(((?:[^()\\]|\\.)*)\)", r"`\1`", text).replace("|", "\\|")


def value(given: Any) -> str:
    """A value as YAML on one line."""
    text = yaml.safe_dump(given, default_flow_style=True, width=10_000).removesuffix("\n...\n").strip()
    return {"''": '""', "null": '""'}.get(text, text).replace("'", '"')


def defaults(main: dict[str, Any]) -> str:
    """The text of defaults/main.yml."""
    parts = ["# Made from meta/argument_specs.yml by `make roles`."]
    for name, option in main["options"].items():
        if "default" in option:
            line = f"{name}: {value(option['default'])}"
            if len(line) > LINE and isinstance(option["default"], list):
                line = "\n".join([f"{name}:"] + [f"  - {value(one)}" for one in option["default"]])
            parts.append("\n".join(["", *comment(option["description"]), line]))
    return "\n".join(parts) + "\n"


def described(option: dict[str, Any]) -> str:
    """Type and choices of an option."""
    kind = option["type"]
    if kind == "list":
        kind = f"list of {option['elements']}"
    if "choices" in option:
        kind = ", ".join(f"`{choice}`" for choice in option["choices"])
    return kind


def rows(options: dict[str, Any], prefix: str = "") -> list[str]:
    """The table's rows."""
    told = []
    for name, option in options.items():
        default = "required" if option.get("required") else f"`{value(option.get('default'))}`"
        text = " ".join(markdown(part) for part in paragraphs(option["description"]))
        told.append(f"| `{prefix}{name}` | {described(option)} | {default} | {text} |")
        told += rows(option.get("options", {}), f"{prefix}{name}.")
    return told


def table(main: dict[str, Any]) -> str:
    """The table of a role's variables."""
    return "| variable | values | default | meaning |\n|---|---|---|---|\n" + "\n".join(rows(main["options"]))


def readme(role: Path, main: dict[str, Any]) -> str:
    """The text of README.md."""
    parts = [
        f"# strongroom.backup.{role.name}",
        "<!-- Made from meta/argument_specs.yml by `make roles`. -->",
        f"{main['short_description']}.",
        *[markdown(part) for part in paragraphs(main["description"])],
        f"```yaml\n- hosts: all\n  become: true\n  roles:\n    - role: strongroom.backup.{role.name}\n```",
        "`--check` says what would change, also on a host that never had the role.",
    ]
    if (role / "tasks/report.yml").exists():
        parts += [
            "To compare what is wanted with what is in effect, and change nothing:",
            "```yaml\n- ansible.builtin.include_role:\n"
            f"    name: strongroom.backup.{role.name}\n    tasks_from: report\n```",
        ]
    parts += ["## Variables", table(main)]
    return "\n\n".join(parts) + "\n"


def reference(specs: dict[Path, dict[str, Any]]) -> str:
    """The text of the inventory's reference."""
    parts = [
        "# Inventory",
        "*For administrators who write the inventory of a fleet.*",
        "Variables of the roles, for `group_vars` and `host_vars`. A value of a wrong type is refused before anything "
        "is changed. [Prepare the hosts](../guides/prepare-hosts.md) shows how they are used.",
        "<!-- Made from the roles' meta/argument_specs.yml by `make roles`; changes here are lost. -->",
    ]
    for role, main in specs.items():
        parts += [f"## {role.name}", f"{main['short_description']}.", table(main)]
    return "\n\n".join(parts) + "\n"


def main() -> int:
    """Write or check; the exit code."""
    stale = []
    agent = PROJECT / "roles/agent/meta/argument_specs.yml"
    wanted = with_knobs(agent.read_text())
    if agent.read_text() != wanted:
        stale.append(str(agent.relative_to(PROJECT)))
        if "--check" not in sys.argv:
            agent.write_text(wanted)
    specs = {role: options_of(role) for role in sorted((PROJECT / "roles").iterdir())}
    texts = {PROJECT / "docs/reference/inventory.md": reference(specs)}
    for role, main in specs.items():
        texts[role / "defaults/main.yml"] = defaults(main)
        texts[role / "README.md"] = readme(role, main)
    for path, text in texts.items():
        if path.exists() and path.read_text() == text:
            continue
        stale.append(str(path.relative_to(PROJECT)))
        if "--check" not in sys.argv:
            path.write_text(text)
    if stale:
        print(("not up to date; run make roles: " if "--check" in sys.argv else "written: ") + ", ".join(stale))
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
