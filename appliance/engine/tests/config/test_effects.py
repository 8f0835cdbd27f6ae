"""A directive that is said to be acted on is read by some program."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import strongroom
from strongroom.config.reports.effects import ACTED_ON, effect_of
from strongroom.config.table.schema import schema
from strongroom.engine.knobs.table import JOB_KNOBS

# Where a component's directives are read, below the package.
READERS = {
    "director": ("director", "config"),
    "storage": ("storage",),
    "agent": ("agent",),
    "console": ("cli",),
    "monitor": (),
}
# Read under names that are put together, or by anyone who parses.
BY_OTHER_NAMES = re.compile(
    r"description|keep_\w+|\w+_acl|(full|incremental|differential)_(backup_pool|max_runtime)"
    r"|job_defs|pool_type|(client_)?run_(before|after|after_failed)_job|run_script"
    r"|mail_command|operator_command|mail_on_(error|success)"
)
# Read by `client_knobs`, which both directors and agents do.
BY_THE_TABLE_OF_KNOBS = {
    knob.directive.lower().replace(" ", "_")
    for knob in JOB_KNOBS
    if knob.has_directive_in("Client")
}


def source_of(component: str) -> str:
    package = Path(strongroom.__file__).parent
    files = [file for part in READERS[component] for file in (package / part).rglob("*.py")]
    return "\n".join(file.read_text() for file in files)


@pytest.mark.parametrize("component", READERS)
def test_what_is_said_to_be_acted_on_is_read(component):
    words = set(re.findall(r"\w+", source_of(component))) | BY_THE_TABLE_OF_KNOBS
    unread = []
    for resource in schema().components[component].resources.values():
        for spec in resource.directives:
            if spec.bacula or (spec.retired and not spec.own):
                continue
            bare = re.sub(r"_(seconds|bytes|bytes_per_second)$", "", spec.attribute)
            if BY_OTHER_NAMES.fullmatch(bare) or {spec.attribute, bare} & words:
                continue
            if effect_of(component, resource.name, spec).status == ACTED_ON:
                unread.append(f"{resource.name}.{spec.name}")
    assert unread == []
