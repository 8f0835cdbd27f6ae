"""What was found, as a file of an inventory: host_vars/HOST/strongroom_tuning.yml."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Final

from strongroom.errors import UsageError
from strongroom.knobs.table import knob_named
from strongroom.measure.tuning.axes import inventory_value
from strongroom.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from strongroom.measure.tuning.search import KnobChanges

FILE_NAME: Final = "strongroom_tuning.yml"
_HOST: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*\Z")


def require_host(host: str) -> str:
    """A name that may be a folder of host_vars. Raises UsageError."""
    if not _HOST.match(host):
        raise UsageError(
            f"--host {printable(host)} is no name of an inventory: letters, digits, dots, dashes "
            "and underscores"
        )
    return host


def inventory_text(condition: KnobChanges, evidence: Iterable[str]) -> str:
    """The file: the evidence as comments, then the variables of the knobs that changed."""
    lines = [
        "# Written by `strongroom tune`; variables of the role strongroom.backup.agent.",
        *(f"# {line}".rstrip() for line in evidence),
        "---",
    ]
    variables = {
        knob_named(name).variable: inventory_value(name, value) for name, value in condition.changes
    }
    # JSON's numbers, truths and quoted texts are YAML's.
    lines += [f"{name}: {json.dumps(value)}" for name, value in sorted(variables.items())]
    if not variables:
        lines.append("{}")
    return "\n".join(lines) + "\n"


def write_inventory(folder: Path, host: str, text: str) -> Path:
    """Write the file of a host; its path. Raises UsageError."""
    path = folder / "host_vars" / host / FILE_NAME
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        written = path.with_suffix(".new")
        written.write_text(text)
        os.replace(written, path)
    except OSError as error:
        raise UsageError(
            f"{printable(str(path))} cannot be written: {error.strerror}; name another folder with "
            "--inventory"
        ) from error
    return path
