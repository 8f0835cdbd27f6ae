"""Write what follows from the table of variables, meta/variables.yml.

These are the roles' argument specs, defaults and READMEs, the reference of the inventory, and the JSON schema of
inventories for editors.

The engine's knobs in it are written first, from the engine's own table; so is meta/directives.yml.

    role_documents.py [--check]

With --check nothing is written; files that differ are named, and the exit code is 1.
"""

from __future__ import annotations

import copy
import json
import re
import sys
from pathlib import Path
from typing import Any

import yaml

PROJECT = Path(__file__).resolve().parents[2]
LINE = 120
KNOBS = "      # Knobs of the engine, made from its table by `make roles`.\n"
END_OF_KNOBS = "      # End of the knobs.\n"
TABLE = PROJECT / "meta/variables.yml"
# Columns of the table that argument specs of Ansible do not have.
OWN_COLUMNS = ("minimum", "maximum", "form", "sets", "in_force", "travels", "holds", "local")


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
    """The options of the engine's knobs, as they are in the table."""
    sys.path.insert(0, str(PROJECT / "appliance/engine/src"))
    from strongroom.engine.knobs.document import role_arguments

    arguments = role_arguments()
    for argument in arguments.values():
        if len(str(argument.get("choices", "x" * LINE))) < LINE - 20:
            argument["choices"] = OnOneLine(argument["choices"])
    dumped = yaml.dump(arguments, Dumper=SpecsDumper, sort_keys=False, width=80)
    return "".join(f"{' ' * 6}{line}\n" for line in dumped.splitlines())


def with_knobs(text: str) -> str:
    """The text of the table, with the knobs of the engine as it is."""
    before, _, rest = text.partition(KNOBS)
    _, _, after = rest.partition(END_OF_KNOBS)
    return before + KNOBS + knob_specs() + END_OF_KNOBS + after


def directives() -> str:
    """What free dictionaries of variables may hold: resource or block -> kind of value -> directives."""
    sys.path.insert(0, str(PROJECT / "appliance/engine/src"))
    from strongroom.config.table.schema import schema
    from strongroom.config.table.types import OPTION_KEYWORDS, OWN_KEYWORDS
    from strongroom.config.values.notice_events import NOTICE_MAY, NOTICE_NEEDS

    resources, blocks = schema().components["director"].resources, schema().blocks
    found: dict[str, dict[str, Any]] = {}
    for place in (resources["jobdefs"], resources["messages"], blocks["Options"], blocks["Notify"]):
        kinds = found[place.name] = {}
        for spec in place.directives:
            words = spec.kind.words
            if spec.type == "OPTION":
                words = (*OPTION_KEYWORDS.get(spec.name, ()), *OWN_KEYWORDS.get(spec.name, ()))
            kind = spec.kind.value if spec.kind.value in ("number", "boolean", "duration", "speed") else "text"
            if words:
                kinds.setdefault("words", {})[spec.shown_name] = OnOneLine(words)
            else:
                kinds.setdefault(kind, OnOneLine()).extend([spec.shown_name, *spec.aliases])
    names = {attribute: spec.shown_name for attribute, spec in blocks["Notify"].by_attribute.items()}
    found["Notify"]["needs"] = {
        kind: OnOneLine([[names[one] for one in either] for either in needed]) for kind, needed in NOTICE_NEEDS.items()
    }
    found["Notify"]["may"] = {kind: OnOneLine([names[one] for one in may]) for kind, may in NOTICE_MAY.items()}
    dumped = yaml.dump(found, Dumper=SpecsDumper, sort_keys=False, width=LINE - 10)
    return (
        "# Made from the engine's table of directives by `make roles`.\n# yamllint disable rule:indentation\n" + dumped
    )


def argument_specs(role: Path, main: dict[str, Any]) -> str:
    """The text of meta/argument_specs.yml: of the table what Ansible knows."""
    entry = {key: value for key, value in main.items() if key != "exports"}
    entry["options"] = {name: as_ansible_has_it(option) for name, option in main["options"].items()}
    specs = {"main": entry}
    # A report is made of hosts as they are; one that lacks a required variable is reported too.
    required = any(option.get("required") for option in main["options"].values())
    if (role / "tasks/report.yml").exists() and not required:
        specs["report"] = {
            "short_description": "What is wanted beside what is in effect",
            "description": "Compares, and changes nothing.",
            "options": copy.deepcopy(entry["options"]),
        }
    dumped = yaml.dump({"argument_specs": specs}, Dumper=SpecsDumper, sort_keys=False, width=LINE - 10)
    return "# Made from meta/variables.yml by `make roles`.\n# yamllint disable rule:line-length\n" + dumped


def as_ansible_has_it(option: dict[str, Any]) -> dict[str, Any]:
    """An option without the columns that only our checks and documents read."""
    kept = {key: copy.deepcopy(value) for key, value in option.items() if key not in OWN_COLUMNS}
    for key in ("choices", "default"):
        if isinstance(kept.get(key), list) and len(str(kept[key])) < LINE - 30 and "{" not in str(kept[key]):
            kept[key] = OnOneLine(kept[key])
    if "options" in kept:
        kept["options"] = {name: as_ansible_has_it(inner) for name, inner in kept["options"].items()}
    return kept


def schema(specs: dict[Path, dict[str, Any]]) -> str:
    """The JSON schema of a file of variables: group_vars, host_vars."""
    options = {name: option for main in specs.values() for name, option in main["options"].items()}
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Variables of Strongroom in group_vars and host_vars",
        "type": ["object", "null"],
        "properties": {name: value_schema(option) for name, option in sorted(options.items())},
        # Whatever else begins so is misspelt.
        "patternProperties": {
            f"^strongroom_(?!({'|'.join(sorted(n.removeprefix('strongroom_') for n in options))})$)": False
        },
        "$defs": {"template": {"type": "string", "pattern": r"\{\{|\{%"}},
    }
    return json.dumps(whole, indent=2) + "\n"


def value_schema(option: dict[str, Any]) -> dict[str, Any]:
    """The schema of one variable, with its description. A template may mean any value."""
    text = plain(" ".join(paragraphs(option["description"])))
    return {"description": text, "anyOf": [{"$ref": "#/$defs/template"}, bare_schema(option, option["type"])]}


def bare_schema(option: dict[str, Any], kind: str) -> dict[str, Any]:
    """The schema of a value without a template."""
    if kind == "list":
        return {"type": "array", "items": bare_schema(option, option["elements"])}
    if kind == "dict":
        inner = option.get("options", {})
        found: dict[str, Any] = {"type": "object"}
        if inner:
            found["properties"] = {name: value_schema(one) for name, one in inner.items()}
            found["required"] = [name for name, one in inner.items() if one.get("required")]
            found["additionalProperties"] = False
        return found
    if kind == "bool":
        return {"type": "boolean"}
    if kind in ("int", "float"):
        bounds = {key: option[key] for key in ("minimum", "maximum") if key in option}
        return {"type": "integer" if kind == "int" else "number", **bounds}
    if "choices" in option:
        # In YAML a bare yes or no is a truth.
        truths = [word == "yes" for word in ("yes", "no") if word in option["choices"]]
        return {"enum": [*option["choices"], *truths]}
    return {"type": ["string", "number"]}


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
    if isinstance(given, str) and text.startswith(("'", '"')):
        return json.dumps(given, ensure_ascii=False)
    return '""' if given is None else text.replace("'", '"')


def defaults(main: dict[str, Any]) -> str:
    """The text of defaults/main.yml."""
    parts = ["# Made from meta/variables.yml by `make roles`."]
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
    if "minimum" in option:
        kind += f", {option['minimum']} to {option['maximum']}"
    return kind


def remarks(option: dict[str, Any]) -> str:
    """What an option sets and what puts a change into force, for the end of its description."""
    found = f" Sets {option['sets']}." if "sets" in option else ""
    return found + (f" A change takes a {option['in_force']}." if "in_force" in option else "")


def rows(options: dict[str, Any], prefix: str = "") -> list[str]:
    """The table's rows."""
    table_rows = []
    for name, option in options.items():
        default = "required" if option.get("required") else f"`{value(option.get('default'))}`".replace("|", "\\|")
        text = " ".join(markdown(part) for part in paragraphs(option["description"]))
        table_rows.append(f"| `{prefix}{name}` | {described(option)} | {default} | {text}{remarks(option)} |")
        table_rows += rows(option.get("options", {}), f"{prefix}{name}.")
    return table_rows


def table(main: dict[str, Any]) -> str:
    """The table of a role's variables."""
    return "| variable | values | default | meaning |\n|---|---|---|---|\n" + "\n".join(rows(main["options"]))


def readme(role: Path, main: dict[str, Any]) -> str:
    """The text of README.md."""
    parts = [
        f"# strongroom.backup.{role.name}",
        "<!-- Made from meta/variables.yml by `make roles`. -->",
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
        "Variables of the roles, for `group_vars` and `host_vars`. `ansible-playbook validate.yml` checks all of "
        "them, and every playbook does so before it reaches a host. [Ansible](../guides/ansible.md) "
        "shows how they are used. For editors that know JSON schemas there is `ansible/inventory.schema.json`.",
        "<!-- Made from meta/variables.yml by `make roles`; changes here are lost. -->",
    ]
    for role, main in specs.items():
        parts += [f"## {role.name}", f"{main['short_description']}.", table(main)]
    return "\n\n".join(parts) + "\n"


def main() -> int:
    """Write or check; the exit code."""
    stale = []
    wanted = with_knobs(TABLE.read_text())
    if TABLE.read_text() != wanted:
        stale.append(str(TABLE.relative_to(PROJECT)))
        if "--check" not in sys.argv:
            TABLE.write_text(wanted)
    roles = yaml.safe_load(wanted)["roles"]
    specs = {PROJECT / "roles" / name: main for name, main in roles.items()}
    texts = {
        PROJECT / "meta/directives.yml": directives(),
        PROJECT / "docs/reference/inventory.md": reference(specs),
        PROJECT / "ansible/inventory.schema.json": schema(specs),
    }
    for role, main in specs.items():
        texts[role / "meta/argument_specs.yml"] = argument_specs(role, main)
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
