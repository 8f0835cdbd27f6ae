"""Write the reference of the collection's plugins, docs/reference/plugins.md, from their DOCUMENTATION.

    plugin_documents.py [--check]

With --check nothing is written; the exit code is 1 if the page differs.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import Any

import yaml
from role_documents import PROJECT, described, paragraphs, value

PAGE = PROJECT / "docs/reference/plugins.md"
OWN = "strongroom.backup."
KINDS = {
    "modules": "Modules",
    "inventory": "Inventory",
    "lookup": "Lookup",
    "filter": "Filters",
    "callback": "Callback",
}
# Options of fragments that others than this collection have.
ELSEWHERE = {
    "constructed": "`compose`, `groups`, `keyed_groups` and the others of `ansible.builtin.constructed`",
    "inventory_cache": "`cache`, `cache_plugin`, `cache_timeout` and `cache_connection`",
}


def assigned(path: Path) -> dict[str, Any]:
    """The texts that a file of Python assigns at its top, or in a class there, by name."""
    found = {}
    for node in ast.parse(path.read_text()).body:
        for inner in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(inner, ast.Assign) and isinstance(inner.value, ast.Constant):
                found[inner.targets[0].id] = inner.value.value
    return found


def documents(kind: str) -> dict[str, dict[str, Any]]:
    """Documentation, examples and returned values of the plugins of a kind, by name."""
    folder, found = PROJECT / "plugins" / kind, {}
    for path in sorted(folder.iterdir()):
        if path.suffix == ".yml":
            fields = yaml.safe_load(path.read_text())
            found[path.stem] = {
                "about": fields["DOCUMENTATION"],
                "examples": fields["EXAMPLES"],
                "returned": fields["RETURN"],
            }
        elif path.suffix == ".py":
            texts = assigned(path)
            if "DOCUMENTATION" in texts:
                found[path.stem] = {
                    "about": yaml.safe_load(texts["DOCUMENTATION"]),
                    "examples": texts.get("EXAMPLES", ""),
                    "returned": yaml.safe_load(texts.get("RETURN", "")) or {},
                }
    return found


def markdown(text: str) -> str:
    """Ansible's marks as Markdown has them."""

    def shown(found: re.Match[str]) -> str:
        inner = re.sub(r"^[\w.]+#\w+:|#\w+$", "", found[1].replace("\\)", ")"))
        return f"`{inner.removeprefix(OWN)}`"

    return re.sub(r"\b(?:RV|[COVEPM])\(((?:[^()\\]|\\.)*)\)", shown, text).replace("|", "\\|")


def prose(description: str | list[str]) -> str:
    """A description as one paragraph."""
    return " ".join(markdown(part.strip()) for part in paragraphs(description))


def option_rows(options: dict[str, Any], prefix: str = "") -> list[str]:
    """Rows of a table of options."""
    rows = []
    for name, option in options.items():
        default = (
            "required" if option.get("required") else f"`{value(option['default'])}`" if "default" in option else ""
        )
        kind = described({"type": "str", **option})
        rows.append(f"| `{prefix}{name}` | {kind} | {default} | {prose(option['description'])} |")
        rows += option_rows(option.get("suboptions", {}), f"{prefix}{name}.")
    return rows


def options_table(options: dict[str, Any]) -> str:
    """A table of options."""
    return "\n".join(["| option | values | default | meaning |", "|---|---|---|---|", *option_rows(options)])


def returned_rows(returned: dict[str, Any], prefix: str = "") -> list[str]:
    """Rows of a table of returned values."""
    rows = []
    for name, fields in returned.items():
        when = fields.get("returned", "")
        rows.append(f"| `{prefix}{name}` | {fields.get('type', '')} | {when} | {prose(fields['description'])} |")
        rows += returned_rows(fields.get("contains", {}), f"{prefix}{name}.")
    return rows


def attributes(about: dict[str, Any]) -> list[str]:
    """What check and diff mode do."""
    names = {"check_mode": "Check mode", "diff_mode": "Diff mode"}
    return [f"{names[name]}: {prose(fields['description'])}" for name, fields in about.get("attributes", {}).items()]


def fragments_of(about: dict[str, Any]) -> list[str]:
    """What further options there are."""
    named = about.get("extends_documentation_fragment", [])
    fields = [ELSEWHERE[name] for name in named if name in ELSEWHERE]
    if OWN + "director" in named:
        fields.append("those [of every module that asks a director](#options-of-what-asks-a-director)")
    if OWN + "director.run" in named:
        fields.append("those [of every module that waits for a run](#options-of-what-waits-for-a-run)")
    return [f"Further options: {', and '.join(fields)}."] if fields else []


def section(name: str, document: dict[str, Any]) -> list[str]:
    """A plugin's part of the page."""
    about = document["about"]
    parts = [
        f"### {name}",
        f"{about['short_description']}.",
        *[markdown(one) for one in paragraphs(about["description"])],
    ]
    if about.get("options"):
        parts.append(options_table(about["options"]))
    parts += fragments_of(about)
    parts += attributes(about)
    parts += [f"Note: {markdown(one)}" for one in about.get("notes", [])]
    if document["examples"].strip():
        parts.append(f"```yaml\n{document['examples'].strip()}\n```")
    if document["returned"]:
        rows = returned_rows(document["returned"])
        parts.append("\n".join(["| returned | type | when | |", "|---|---|---|---|", *rows]))
    return parts


def page() -> str:
    """The text of the page."""
    fragment = assigned(PROJECT / "plugins/doc_fragments/director.py")
    parts = [
        "# Plugins",
        "*For administrators who write playbooks.*",
        "What the collection `strongroom.backup` has besides [roles](inventory.md). Names here are short: a task says "
        "`strongroom.backup.strongroom_job`. `ansible-doc strongroom.backup.strongroom_job` shows the same.",
        "Modules and the inventory ask the director's [API](director-api.md), or run the engine's commands with "
        "`--json`. A host that only asks the API needs Python 3 and nothing of ours.",
        "<!-- Made from the plugins' DOCUMENTATION by `make roles`; changes here are lost. -->",
    ]
    for kind, title in KINDS.items():
        parts.append(f"## {title}")
        for name, document in documents(kind).items():
            parts += section(name, document)
    for title, name in (
        ("Options of what asks a director", "DOCUMENTATION"),
        ("Options of what waits for a run", "RUN"),
    ):
        parts += [f"## {title}", options_table(yaml.safe_load(fragment[name])["options"])]
    return "\n\n".join(parts) + "\n"


def main() -> int:
    """Write or check; the exit code."""
    wanted = page()
    if PAGE.exists() and PAGE.read_text() == wanted:
        return 0
    if "--check" in sys.argv:
        print(f"not up to date; run make roles: {PAGE.relative_to(PROJECT)}")
        return 1
    PAGE.write_text(wanted)
    print(f"written: {PAGE.relative_to(PROJECT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
